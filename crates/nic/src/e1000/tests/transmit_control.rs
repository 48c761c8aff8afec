//! "Transmit Control Register", "Transmit Descriptor Ring Structure": TDBAL to TDT.

use super::*;
use crate::e1000::{TxSettings, TxSetup};

fn started(slot: &mut Slot) -> TxSetup {
    let started = slot.effects().into_iter().find_map(|effect| match effect {
        Effect::TransmitStarted(setup) => Some(setup),
        _ => None,
    });
    started.expect("transmission has started")
}

#[test]
fn a_ring_starts_when_enabled_with_a_length() {
    let mut slot = Slot::with(&Config { mtu: 9000, ..Config::new(MAC) });
    slot.write(r::TDBAL, 0x4000);
    slot.write(r::TDLEN, 0x0010_0080);
    slot.write(r::TDT, 5);
    assert_eq!(slot.orders(), Vec::<&str>::new());
    slot.write(r::TCTL, tctl::EN | tctl::PSP);
    let setup = started(&mut slot);
    assert_eq!((setup.layout.base, setup.layout.entries, setup.ends.tail()), (0x4000, 8, 5));
    let expected = TxSettings {
        pad_short: true,
        vlan: false,
        vlan_type: 0x8100,
        longest: 9014,
        low: 0,
        loopback: false,
    };
    assert_eq!(setup.settings, expected);
}

#[test]
fn control_changes_are_told_while_it_runs() {
    let mut slot = Slot::running();
    slot.write(r::TCTL, tctl::EN | tctl::PSP);
    slot.write(r::TCTL, tctl::EN | tctl::PSP | 0xf << 4);
    assert_eq!(slot.orders(), ["transmit changed"], "collisions are nobody's business");
    slot.write(r::TXDCTL, 127 << 25);
    let Some(Effect::TransmitChanged(settings)) = slot.effects().pop() else { panic!("nothing told") };
    assert_eq!(settings.low, 1016);
}

#[test]
fn each_tail_is_told_and_seen_by_the_data_path() {
    let mut slot = Slot::new();
    slot.write(r::TDLEN, 4096);
    slot.write(r::TCTL, tctl::EN);
    let ends = started(&mut slot).ends;
    for tail in [1, 1, 255, 0] {
        slot.write(r::TDT, tail);
        assert_eq!((slot.orders(), u32::from(ends.tail())), (vec!["transmit tail"], tail));
    }
    ends.set_head(17);
    assert_eq!(slot.read(r::TDH), 17, "the data path moves the head");
    slot.write(r::TDT, 256);
    assert_eq!((slot.orders(), ends.tail()), (vec![], 0));
}

#[test]
fn a_head_that_is_written_starts_the_ring_anew_from_there() {
    let mut slot = Slot::running();
    slot.write(r::TDT, 9);
    slot.effects();
    slot.write(r::TDH, 4);
    let setup = started(&mut slot);
    assert_eq!((setup.ends.head(), setup.ends.tail()), (4, 9));
    slot.write(r::TDH, 256);
    assert_eq!(slot.orders(), ["transmit stopped"]);
    slot.write(r::TDH, 0);
    assert_eq!(slot.orders(), ["transmit started"]);
}

#[test]
fn a_ring_that_cannot_be_served_stays_down_until_it_is_disabled() {
    let mut slot = Slot::running();
    slot.nic.fail_transmit();
    assert_eq!(slot.orders(), ["transmit stopped"]);
    slot.write(r::TDBAL, 0x8000);
    slot.write(r::TDT, 1);
    assert_eq!((slot.orders(), slot.nic.transmits()), (vec![], false));
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!(slot.orders(), ["receive stopped"]);
    slot.write(r::TDLEN, 4096);
    slot.write(r::TCTL, tctl::EN);
    assert_eq!(slot.orders(), ["transmit started"]);
}

#[test]
fn the_directions_do_not_disturb_each_other() {
    let mut slot = Slot::running();
    slot.write(r::TCTL, 0);
    assert_eq!((slot.orders(), slot.nic.receives()), (vec!["transmit stopped"], true));
    slot.write(r::RDT, 1);
    assert_eq!(slot.orders(), ["receive tail"]);
}
