//! Tail register of a ring, RDT or TDT, by which a driver hands descriptors to the device.

use ledger::RouterNic;

use super::registers::ring;
use crate::pci::Registers;
use crate::process::{self, Bell};

/// RDT or TDT.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    register: Registers,
    /// Eventfd that serves as its doorbell if the firmware is a process and the register's value is ignored.
    bell: Option<Bell>,
}

impl Tail {
    /// Creates the tail register of the ring whose registers begin at `ring`.
    pub(super) fn new(registers: Registers, ring: u64) -> Self {
        Self { register: Registers::at(registers.address(ring + ring::TAIL)), bell: None }
    }

    /// Creates the tail register for a device that takes the value from a status block: the write is only a
    /// kick.
    pub(super) fn with_bell(registers: Registers, ring: u64, slot: u32, queue: u16) -> Self {
        Self { bell: process::doorbell(slot, queue), ..Self::new(registers, ring) }
    }

    /// Writes the register, or rings the doorbell.
    #[inline]
    pub(crate) fn write(self, value: u32, counters: &RouterNic) {
        counters.kicks.add(1);
        match self.bell {
            Some(bell) => bell.ring(),
            None => self.register.write(0, value),
        }
    }
}
