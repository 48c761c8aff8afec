//! "Power Management": D0 and D3.

use super::*;

/// Returns the offset of control and status in the capability.
fn control(slot: &mut Slot) -> u16 {
    let [at] = slot.config::<1>(0x34);
    u16::from(at) + 4
}

#[test]
fn in_d3_the_device_answers_nowhere_and_does_nothing() {
    let mut slot = Slot::running();
    slot.write(r::IMS, u32::MAX);
    slot.write(r::ICS, 1);
    assert!(slot.asserted());
    let control = control(&mut slot);
    slot.write_config(control, &[3, 0]);
    assert_eq!(slot.orders(), ["bars moved", "transmit stopped", "receive stopped"]);
    assert_eq!((slot.nic.bars(), slot.nic.ports(), slot.asserted()), (vec![], None, false));
    assert_eq!(slot.config_word(control), 3);
}

#[test]
fn powering_up_resets_the_registers_but_not_the_place() {
    let mut slot = Slot::running();
    let control = control(&mut slot);
    slot.write_config(control, &[3, 0]);
    slot.effects();
    slot.write_config(control, &[0, 0]);
    assert_eq!(slot.orders(), ["bars moved"]);
    assert_eq!(slot.nic.bars().len(), 1);
    assert_eq!((slot.read(r::RCTL), slot.read(r::TDLEN), slot.read(r::CTRL)), (0, 0, 0x201));
    slot.start();
}

#[test]
fn d1_and_d2_do_not_exist() {
    let mut slot = Slot::running();
    let control = control(&mut slot);
    for state in [1, 2] {
        slot.write_config(control, &[state, 0]);
        assert_eq!((slot.config_word(control), slot.orders()), (0, vec![]));
    }
    slot.write_config(control, &[3, 0]);
    slot.write_config(control, &[2, 0]);
    assert_eq!(slot.config_word(control), 3);
}
