//! "Device Status Register".

use super::*;
use crate::e1000::cause;

const FORCE_SPEED: u32 = 1 << 11;
const FORCE_DUPLEX: u32 = 1 << 12;

#[test]
fn the_link_is_up_once_the_driver_wants_it() {
    let mut slot = Slot::new();
    assert_eq!(slot.read(r::STATUS) & r::status::LU, 0);
    slot.write(r::CTRL, ctrl::SLU);
    let up = slot.read(r::STATUS);
    assert_eq!(up & (r::status::LU | r::status::FD), r::status::LU | r::status::FD);
    assert_eq!((up >> 6 & 3, up >> 8 & 3), (2, 2), "1000 Mbit/s, set and detected");
    assert_eq!(slot.read(r::ICR), cause::LSC);
    slot.write(r::STATUS, 0);
    assert_eq!(slot.read(r::STATUS), up, "read-only");
    slot.write(r::CTRL, 0);
    assert_eq!((slot.read(r::STATUS) & r::status::LU, slot.read(r::ICR)), (0, cause::LSC));
}

#[test]
fn a_cable_that_is_pulled_is_told_once() {
    let mut slot = Slot::running();
    for (up, status) in [(false, 0), (true, r::status::LU)] {
        slot.nic.set_link(up, &mut slot.interrupts, slot.now);
        slot.nic.set_link(up, &mut slot.interrupts, slot.now);
        assert_eq!((slot.read(r::STATUS) & r::status::LU, slot.read(r::ICR)), (status, cause::LSC));
        assert_eq!(slot.interrupts.counts().raised, 0, "nobody wants to know");
    }
    slot.write(r::IMS, cause::LSC);
    slot.nic.set_link(false, &mut slot.interrupts, slot.now);
    assert!(slot.asserted());
    assert_eq!(slot.orders(), Vec::<&str>::new(), "the rings go on");
}

#[test]
fn speed_and_duplex_can_be_forced() {
    let mut slot = Slot::new();
    for (speed, duplex) in [(0, 0), (1, 1), (2, 0), (2, 1)] {
        slot.write(r::CTRL, ctrl::SLU | FORCE_SPEED | FORCE_DUPLEX | speed << 8 | duplex);
        let status = slot.read(r::STATUS);
        assert_eq!((status >> 6 & 3, status & r::status::FD), (speed, duplex));
    }
}
