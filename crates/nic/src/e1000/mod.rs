//! The Intel 82540EM (8086:100E), written from its manual (*PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual*), with a status block beside it (seed paper 001, section 3.3).
//!
//! The registers ([`E1000`]) are a state machine that knows no ring memory: each access ends in [`Effect`]s, orders to
//! the VMM, which takes them and carries them out before the driver goes on. The data path works on rings that
//! [`Effect::TransmitStarted`] and [`Effect::ReceiveStarted`] describe, in other threads. Both tell [`Interrupts`] what
//! happens, and it says what the interrupt pin does.

pub mod cause;
mod config;
mod effect;
mod filters;
mod interrupts;
pub mod register;
pub mod rx;
mod statistics;
pub mod tx;

pub use config::{Config, ConfigError, MAX_MTU, MIN_MTU};
pub use effect::{Effect, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
pub use filters::{Filters, Pass};
pub use interrupts::{Counts, Interrupts, Line};
pub use statistics::{Destination, Direction, Statistics, Tally};

use crate::pci::{BarWindow, ConfigSpace, Identity};

/// Octets of BAR 0, memory.
pub const MEMORY_LEN: u32 = 0x2_0000;
/// Octets of BAR 1, I/O ports.
pub const PORTS_LEN: u32 = 64;
/// Intel.
pub const VENDOR: u16 = 0x8086;
/// 82540EM-A.
pub const DEVICE_ID: u16 = 0x100e;
/// Subsystem device id without a status block.
pub const SUBSYSTEM: u16 = 0x0000;
/// Subsystem device id that tells of the status block.
pub const SUBSYSTEM_BLOCK: u16 = 0x1101;

/// An 82540EM.
#[derive(Debug)]
pub struct E1000 {
    pci: ConfigSpace,
    effects: Vec<Effect>,
}

impl E1000 {
    /// A device at power-on, its link up, its BARs not placed.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut pci = ConfigSpace::new(&Identity {
            vendor: VENDOR,
            device: DEVICE_ID,
            revision: 2,
            class: 0x02_0000,
            subsystem_vendor: VENDOR,
            subsystem: if config.block { SUBSYSTEM_BLOCK } else { SUBSYSTEM },
        });
        pci.add_memory_bar(0, MEMORY_LEN);
        Ok(Self { pci, effects: Vec::new() })
    }

    /// The orders since the last call, in their order. To be called after each access.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Reads `data.len()` octets of configuration space.
    pub fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.pci.read(offset, data);
    }

    /// Writes configuration space, at `now` nanoseconds.
    pub fn config_write(&mut self, offset: u16, data: &[u8], _interrupts: &mut Interrupts, _now: u64) {
        let before = self.bars();
        self.pci.write(offset, data);
        if self.bars() != before {
            self.effects.push(Effect::BarsMoved);
        }
    }

    /// Memory BARs that are enabled and placed now.
    pub fn bars(&self) -> Vec<BarWindow> {
        self.pci.bars()
    }

    /// Reads the registers behind BAR 0, at `now` nanoseconds.
    pub fn memory_read(&mut self, offset: u64, data: &mut [u8], interrupts: &mut Interrupts, now: u64) {
        data.fill(0);
        if offset == register::ICR && data.len() == 4 {
            data.copy_from_slice(&interrupts.read_icr(now).to_le_bytes());
        }
    }

    /// Writes the registers behind BAR 0, at `now` nanoseconds.
    pub fn memory_write(&mut self, _offset: u64, _data: &[u8], _interrupts: &mut Interrupts, _now: u64) {}

    /// Reads the I/O ports behind BAR 1, at `now` nanoseconds.
    pub fn port_read(&mut self, _offset: u64, data: &mut [u8], _interrupts: &mut Interrupts, _now: u64) {
        data.fill(0);
    }

    /// Writes the I/O ports behind BAR 1, at `now` nanoseconds.
    pub fn port_write(&mut self, _offset: u64, _data: &[u8], _interrupts: &mut Interrupts, _now: u64) {}

    /// Pulls the cable out or plugs it in.
    pub fn set_link(&mut self, _up: bool, _interrupts: &mut Interrupts, _now: u64) {}

    /// A ring is broken: the data path has stopped it. Its registers stay as they are until the driver resets.
    pub fn fail(&mut self) {}
}
