//! "Interrupt Control": ICR, ICS, IMS, IMC.

use super::*;
use crate::e1000::{Counts, cause};

#[test]
fn the_pin_is_up_while_an_enabled_cause_is_there() {
    let mut slot = Slot::new();
    slot.interrupts.raise(cause::TXDW, 0, slot.now);
    assert!(!slot.asserted(), "disabled");
    slot.write(r::IMS, cause::TXDW | cause::LSC);
    assert!(slot.asserted());
    slot.write(r::IMC, cause::TXDW);
    assert!(!slot.asserted());
    slot.write(r::IMS, cause::TXDW);
    assert!(slot.asserted());
    assert_eq!(slot.read(r::ICR), cause::TXDW);
    assert_eq!(slot.line(), Line { asserted: false, next: None });
}

#[test]
fn icr_gives_disabled_causes_too_and_clears_all_by_reading() {
    let mut slot = Slot::new();
    slot.write(r::ICS, cause::ALL);
    assert_eq!((slot.read(r::ICR), slot.read(r::ICR)), (cause::ALL, 0));
}

#[test]
fn icr_clears_by_writing_ones() {
    let mut slot = Slot::new();
    slot.write(r::IMS, u32::MAX);
    slot.write(r::ICS, cause::TXDW | cause::RXT0);
    slot.write(r::ICR, cause::TXDW);
    assert!(slot.asserted());
    slot.write(r::ICR, cause::RXT0);
    assert!(!slot.asserted());
    assert_eq!(slot.read(r::ICR), 0);
}

#[test]
fn the_mask_reads_at_ims_and_takes_bits_that_exist() {
    let mut slot = Slot::new();
    slot.write(r::IMS, u32::MAX);
    assert_eq!(slot.read(r::IMS), cause::ALL);
    slot.write(r::IMC, cause::ALL & !cause::LSC);
    assert_eq!((slot.read(r::IMS), slot.read(r::IMC), slot.read(r::ICS)), (cause::LSC, 0, 0));
    slot.write(r::ICS, u32::MAX);
    assert_eq!(slot.read(r::ICR), cause::ALL);
}

#[test]
fn every_access_that_may_move_the_pin_says_so() {
    let mut slot = Slot::new();
    slot.nic.take_effects();
    let registers = [r::ICR, r::ICS, r::IMS, r::IMC, r::ITR, r::RDTR, r::RADV, r::TIDV, r::TADV];
    for register in registers {
        slot.write(register, 1);
        assert!(matches!(slot.nic.take_effects()[..], [Effect::LineChanged]), "{register:#x}");
    }
    slot.read(r::ICR);
    assert!(matches!(slot.nic.take_effects()[..], [Effect::LineChanged]));
    slot.read(r::IMS);
    assert!(slot.nic.take_effects().is_empty());
}

#[test]
fn what_happens_to_interrupts_is_counted() {
    let mut slot = Slot::new();
    let counts = |raised, suppressed, moderated| Counts { raised, suppressed, moderated };
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    assert_eq!(slot.interrupts.counts(), counts(0, 1, 0), "disabled");
    slot.write(r::IMS, cause::RXT0);
    assert!(slot.asserted());
    assert_eq!(slot.interrupts.counts(), counts(1, 1, 0));
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    assert_eq!(slot.interrupts.counts(), counts(1, 2, 0), "up already");
    slot.read(r::ICR);
    slot.write(r::ITR, 100);
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    assert_eq!(slot.interrupts.counts(), counts(1, 2, 2), "throttled");
    slot.now += 25_000;
    assert!(slot.asserted());
    assert_eq!(slot.interrupts.counts(), counts(2, 2, 2));
    slot.read(r::ICR);
    slot.write(r::ITR, 0);
    slot.write(r::RDTR, 1);
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    assert_eq!(slot.interrupts.counts(), counts(2, 2, 3), "delayed");
}

/// Sequence of an unmodified driver: ICR, IMC, STATUS, poll, IMS, STATUS.
#[test]
fn polling_between_imc_and_ims_loses_nothing() {
    let mut slot = Slot::new();
    slot.write(r::IMS, cause::RXT0 | cause::TXDW | cause::LSC);
    slot.interrupts.raise(cause::RXT0, 3, slot.now);
    assert!(slot.asserted());
    assert_eq!(slot.read(r::ICR), cause::RXT0);
    slot.write(r::IMC, u32::MAX);
    slot.read(r::STATUS);
    slot.interrupts.raise(cause::RXT0, 2, slot.now + 10);
    slot.interrupts.raise(cause::TXDW, 0, slot.now + 20);
    assert!(!slot.asserted());
    slot.write(r::IMS, cause::RXT0 | cause::TXDW | cause::LSC);
    assert!(slot.asserted(), "what came while it polled");
    assert_eq!(slot.read(r::ICR), cause::RXT0 | cause::TXDW);
    assert!(!slot.asserted());
}
