//! The Intel 82540EM (8086:100E), written from its manual (*PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual*), with an additional status block (seed paper 001, section 3.3).
//!
//! The registers ([`E1000`]) are a state machine without access to ring memory: each access yields [`Effect`]s,
//! requests that the VMM takes and handles before the driver continues. The data path ([`rx`], [`tx`]) works in other
//! threads, on the rings that [`Effect::TransmitStarted`] and [`Effect::ReceiveStarted`] describe. Both report events
//! to [`Interrupts`], which computes the state of the interrupt pin. Head and tail of a ring and the statistics are
//! shared with the data path as words in host memory.
//!
//! Life of a device:
//! 1. The VMM places the BARs by writing to configuration space, as a firmware would; the driver enables memory, I/O
//!    and bus mastering: [`Effect::BarsMoved`].
//! 2. The driver resets the device (CTRL.RST), reads its address from the EEPROM, sets up link and PHY.
//! 3. It configures a ring and enables the direction: [`Effect::ReceiveStarted`], [`Effect::TransmitStarted`].
//! 4. It writes tails: [`Effect::ReceiveTail`], [`Effect::TransmitTail`]; reads ICR, writes IMS and IMC:
//!    [`Effect::LineChanged`].
//! 5. Disable, reset, power down, bus mastering off, [`E1000::fail_transmit`]: [`Effect::TransmitStopped`], and so on.
//!
//! # Accesses
//! A register has 32 bits, and a write has to cover whole registers: 4 octets at a multiple of 4, or 8 octets, which
//! are two writes, the lower register first. Other writes change nothing and are counted ([`Faults::partial`]). A read
//! of any size and offset reads each register that it touches once, as a whole, and returns the octets requested. A
//! register that does not exist reads as 0 and ignores writes; both are counted ([`Faults::unknown`]).
//!
//! # Not implemented
//! Flash, TBI and SerDes, wake-up, management, pause frames, the packet buffer's memory: their registers can be read
//! and written, without effect. Source addresses of frames are never compared (RAH.AS).

mod access;
mod bus;
pub mod cause;
mod config;
mod eeprom;
mod effect;
mod filters;
mod interrupts;
mod phy;
mod plain;
pub mod register;
mod rings;
pub mod rx;
mod settings;
mod statistics;
pub mod tx;

use std::sync::Arc;

pub use config::{Config, ConfigError, MAX_MTU, MIN_MTU};
pub use effect::{Effect, RxChecksum, RxSettings, RxSetup, TxSettings, TxSetup};
pub use filters::{Filters, Pass};
pub use interrupts::{Counts, Interrupts, Line};
pub use statistics::{BurstCounts, Destination, Direction, Statistics};

use bus::Bus;
use eeprom::Eeprom;
use phy::Phy;
use plain::StatelessRegisters;
use rings::Ring;
use statistics::Registers;

use crate::pci::BarWindow;

/// Size of BAR 0, memory, in octets.
pub const MEMORY_LEN: u32 = 0x2_0000;
/// Size of BAR 1, I/O ports, in octets.
pub const PORTS_LEN: u32 = 64;
/// PCI vendor id of Intel.
pub const VENDOR: u16 = 0x8086;
/// PCI device id of the 82540EM-A.
pub const DEVICE_ID: u16 = 0x100e;
/// Subsystem device id without a status block.
pub const SUBSYSTEM: u16 = 0x0000;
/// Subsystem device id that announces the status block.
pub const SUBSYSTEM_BLOCK: u16 = 0x1101;

/// Counters of meaningless driver accesses, since the device was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Accesses to registers that do not exist.
    pub unknown: u64,
    /// Writes that do not cover whole registers.
    pub partial: u64,
    /// Tails outside their running ring, which were ignored.
    pub outside: u64,
}

/// The register model of an 82540EM.
#[derive(Debug)]
pub struct E1000 {
    bus: Bus,
    mtu: u16,
    offers_block: bool,
    plain: StatelessRegisters,
    eeprom: Eeprom,
    phy: Phy,
    statistics: Registers,
    transmit: Ring,
    receive: Ring,
    /// Registers CSBAL and CSBAH.
    block: [u32; 2],
    /// Address of the status block that running rings use.
    block_used: Option<u64>,
    transmit_settings: TxSettings,
    receive_settings: RxSettings,
    /// STATUS.LU, as last reported to the driver.
    link: bool,
    /// Register IOADDR.
    port_address: u32,
    faults: Faults,
    effects: Vec<Effect>,
}

impl E1000 {
    /// Creates a device at power-on: cable plugged in, BARs not placed.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let plain = StatelessRegisters::new();
        let filters = Arc::new(settings::filters(&plain));
        let mut device = Self {
            bus: Bus::new(config),
            mtu: config.mtu,
            offers_block: config.block,
            eeprom: Eeprom::new(config, bus::subsystem(config)),
            phy: Phy::new(),
            statistics: Registers::new(),
            transmit: Ring::new(),
            receive: Ring::new(),
            block: [0; 2],
            block_used: None,
            transmit_settings: settings::transmit(&plain, config.mtu, false),
            receive_settings: settings::receive(&plain, false, filters),
            plain,
            link: false,
            port_address: 0,
            faults: Faults::default(),
            effects: Vec::new(),
        };
        device.load_address();
        device.settle();
        Ok(device)
    }

    /// Returns the requests made since the last call, in order. Must be called after each access.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns the counters of meaningless accesses.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Reads `data.len()` octets of configuration space.
    pub fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.bus.pci.read(offset, data);
    }

    /// Writes configuration space, at `now` nanoseconds.
    pub fn config_write(&mut self, offset: u16, data: &[u8], interrupts: &mut Interrupts, now: u64) {
        let change = self.bus.write(offset, data);
        if change.bars {
            self.effects.push(Effect::BarsMoved);
        }
        if change.powered_up {
            self.reset(interrupts);
        }
        interrupts.connect(self.bus.interrupts());
        self.effects.push(Effect::LineChanged);
        self.settle();
        self.settle_link(interrupts, now);
    }

    /// Returns BAR 0, while it is placed and enabled.
    pub fn bars(&self) -> Vec<BarWindow> {
        self.bus.windows().0.into_iter().collect()
    }

    /// Returns BAR 1, while it is placed and enabled: its address is that of an I/O port.
    pub fn ports(&self) -> Option<BarWindow> {
        self.bus.windows().1
    }

    /// Returns true if the transmit ring runs.
    pub fn transmits(&self) -> bool {
        self.transmit.running()
    }

    /// Returns true if the receive ring runs.
    pub fn receives(&self) -> bool {
        self.receive.running()
    }

    /// Returns the guest-physical addresses of TDT and RDT, while BAR 0 is decoded.
    pub fn tails(&self) -> Option<(u64, u64)> {
        let bar = self.bus.windows().0?;
        Some((bar.address + register::TDT, bar.address + register::RDT))
    }

    /// Returns the address of the driver's status block, if it set one.
    pub fn block(&self) -> Option<u64> {
        self.block_used
    }

    /// Unplugs or plugs the cable, at `now` nanoseconds. The rings stay as they are: the caller must stop passing
    /// frames.
    pub fn set_link(&mut self, up: bool, interrupts: &mut Interrupts, now: u64) {
        self.phy.plug(up);
        self.settle_link(interrupts, now);
    }

    /// Reports that the transmit ring cannot be served: it stands still until the driver disables it or resets.
    pub fn fail_transmit(&mut self) {
        if self.transmit.mark_failed() {
            self.effects.push(Effect::TransmitStopped);
        }
    }

    /// Reports that the receive ring cannot be served: it stands still until the driver disables it or resets.
    pub fn fail_receive(&mut self) {
        if self.receive.mark_failed() {
            self.effects.push(Effect::ReceiveStopped);
        }
    }

    /// Handles CTRL.RST and power-up: resets all registers but those of the PHY and of configuration space.
    fn reset(&mut self, interrupts: &mut Interrupts) {
        self.stop();
        (self.transmit, self.receive) = (Ring::new(), Ring::new());
        (self.block, self.block_used) = ([0; 2], None);
        self.plain = StatelessRegisters::new();
        self.eeprom.reset();
        self.phy.reset_mdic();
        self.statistics.reset();
        self.load_address();
        interrupts.reset();
        self.link = false;
        self.effects.push(Effect::LineChanged);
        self.settle();
    }

    fn stop(&mut self) {
        if self.transmit.stop() {
            self.effects.push(Effect::TransmitStopped);
        }
        if self.receive.stop() {
            self.effects.push(Effect::ReceiveStopped);
        }
    }

    /// Loads the first receive address from the EEPROM.
    fn load_address(&mut self) {
        let [a, b, c, d, e, f] = self.eeprom.mac();
        self.plain.write(register::RAL, u32::from_le_bytes([a, b, c, d]));
        self.plain.write(register::RAH, u32::from_le_bytes([e, f, 0, 0]) | register::ADDRESS_VALID);
    }

    /// Starts and stops rings, and reports changed settings of running ones.
    fn settle(&mut self) {
        let loopback = self.phy.loopback();
        let transmit = settings::transmit(&self.plain, self.mtu, loopback);
        let receive = settings::receive(&self.plain, loopback, self.filters());
        let other_transmit = std::mem::replace(&mut self.transmit_settings, transmit) != transmit;
        let other_receive = self.receive_settings != receive;
        if other_receive {
            self.receive_settings = receive;
        }
        self.settle_transmit(other_transmit);
        self.settle_receive(other_receive);
    }

    fn settle_transmit(&mut self, changed: bool) {
        let enabled = self.plain.get(register::TCTL) & register::tctl::EN != 0;
        if !(enabled && self.bus.master()) {
            if self.transmit.stop() {
                self.effects.push(Effect::TransmitStopped);
            }
        } else if self.transmit.running() {
            if changed {
                self.effects.push(Effect::TransmitChanged(self.transmit_settings));
            }
        } else if let Some((layout, ends)) = self.transmit.start() {
            self.effects.push(Effect::TransmitStarted(TxSetup {
                layout,
                ends,
                block: self.block_used,
                statistics: self.statistics.counted(),
                settings: self.transmit_settings,
            }));
        }
    }

    fn settle_receive(&mut self, changed: bool) {
        let enabled = self.plain.get(register::RCTL) & register::rctl::EN != 0;
        if !(enabled && self.bus.master()) {
            if self.receive.stop() {
                self.effects.push(Effect::ReceiveStopped);
            }
        } else if self.receive.running() {
            if changed {
                self.effects.push(Effect::ReceiveChanged(self.receive_settings.clone()));
            }
        } else if let Some((layout, ends)) = self.receive.start() {
            self.effects.push(Effect::ReceiveStarted(RxSetup {
                layout,
                ends,
                block: self.block_used,
                statistics: self.statistics.counted(),
                settings: self.receive_settings.clone(),
            }));
        }
    }

    /// Returns the filters for the current registers; the existing object if nothing has changed.
    fn filters(&self) -> Arc<Filters> {
        let filters = settings::filters(&self.plain);
        let known = &self.receive_settings.filters;
        if filters == **known { Arc::clone(known) } else { Arc::new(filters) }
    }

    /// Returns STATUS.LU: the PHY has a link, and the driver enables it (CTRL.SLU).
    fn link_up(&self) -> bool {
        self.plain.get(register::CTRL) & register::ctrl::SLU != 0 && self.phy.link().is_some()
    }

    /// Interrupts the driver if STATUS.LU has changed.
    fn settle_link(&mut self, interrupts: &mut Interrupts, now: u64) {
        let up = self.link_up();
        if std::mem::replace(&mut self.link, up) != up {
            interrupts.raise(cause::LSC, 0, now);
            self.effects.push(Effect::LineChanged);
        }
    }
}

#[cfg(test)]
mod tests;
