//! The register by which a driver says how far a ring is filled: RDT or TDT.

use ledger::RouterNic;

use super::registers::ring;
use crate::pci::Registers;
use crate::process::{self, Bell};

/// RDT or TDT.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    register: Registers,
    /// The event that is its doorbell, where the firmware is a process and the value means nothing.
    bell: Option<Bell>,
}

impl Tail {
    /// That of the ring whose registers begin at `ring`.
    pub(super) fn new(registers: Registers, ring: u64) -> Self {
        Self { register: Registers::at(registers.address(ring + ring::TAIL)), bell: None }
    }

    /// That of the ring of a device that takes the value from a status block: the write is but a kick.
    pub(super) fn with_bell(registers: Registers, ring: u64, slot: u32, queue: u16) -> Self {
        Self { bell: process::doorbell(slot, queue), ..Self::new(registers, ring) }
    }

    /// Writes it.
    #[inline]
    pub(crate) fn write(self, value: u32, counters: &RouterNic) {
        counters.kicks.add(1);
        match self.bell {
            Some(bell) => bell.ring(),
            None => self.register.write(0, value),
        }
    }
}
