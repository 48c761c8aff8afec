//! "I/O-Mapped Access": IOADDR and IODATA.

use super::*;

const IOADDR: u64 = 0;
const IODATA: u64 = 4;

#[test]
fn ioaddr_names_a_register_and_iodata_is_it() {
    let mut slot = Slot::new();
    slot.write_port(IOADDR, r::VET as u32);
    assert_eq!((slot.port(IOADDR), slot.port(IODATA)), (r::VET as u32, 0x8100));
    slot.write_port(IODATA, 0x88a8);
    assert_eq!((slot.port(IODATA), slot.read(r::VET)), (0x88a8, 0x88a8));
}

#[test]
fn a_reset_by_ports_is_a_reset() {
    // As drivers do, because the reset of some chips of the family loses a memory write.
    let mut slot = Slot::running();
    slot.write_port(IOADDR, r::CTRL as u32);
    slot.write_port(IODATA, ctrl::RST);
    assert_eq!(slot.orders(), ["transmit stopped", "receive stopped"]);
}

#[test]
fn addresses_of_no_register_do_nothing_and_are_counted() {
    let mut slot = Slot::new();
    for address in [0x2_0000, 0x7_ffff, u32::MAX, 0x3] {
        slot.write_port(IOADDR, address);
        slot.write_port(IODATA, u32::MAX);
        assert_eq!((slot.port(IOADDR), slot.port(IODATA)), (address, 0));
    }
    assert_eq!(slot.nic.faults().unknown, 8);
    slot.write_port(8, 1);
    assert_eq!((slot.port(8), slot.port(60), slot.port(64)), (0, 0, 0));
    slot.nic.port_write(IOADDR, &[0x38], &mut slot.interrupts, 0);
    slot.nic.port_write(IOADDR + 2, &[0; 4], &mut slot.interrupts, 0);
    assert_eq!(slot.nic.faults().partial, 2);
    assert_eq!(slot.port(IOADDR), 0x3);
}
