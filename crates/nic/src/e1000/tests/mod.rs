//! A driver that uses the registers as in the manual, with one module for each of its sections.

mod address_filtering;
mod device_control;
mod device_status;
mod drivers;
mod eeprom_interface;
mod interrupt_moderation;
mod interrupt_registers;
mod io_mapped_access;
mod memory_mapped_access;
mod pci_configuration;
mod phy_registers;
mod power_management;
mod properties;
mod receive_control;
mod statistics_registers;
mod status_block;
mod transmit_control;

use super::register::{self as r, ctrl, rctl, tctl};
use super::{Config, E1000, Effect, Interrupts, Line};
use crate::moderation::Moderation;

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
/// Addresses of the BARs.
const MEMORY: u32 = 0xe010_0000;
const PORTS: u32 = 0xc000;
const COMMAND: u16 = 0x04;
/// Command bits: I/O, memory, bus master.
const ALL_ENABLED: u16 = 0x7;

/// A device on its bus, with its pin and a clock.
struct Slot {
    nic: E1000,
    interrupts: Interrupts,
    /// Time in nanoseconds.
    now: u64,
}

impl Slot {
    /// Creates a device that was not accessed yet.
    fn empty(config: &Config) -> Self {
        let nic = E1000::new(config).expect("a good configuration");
        Self { nic, interrupts: Interrupts::new(config.moderation), now: 1_000_000 }
    }

    /// Creates a device with its BARs placed and enabled.
    fn new() -> Self {
        Self::with(&Config::new(MAC))
    }

    fn with(config: &Config) -> Self {
        let mut slot = Self::empty(config);
        slot.write_config(0x10, &MEMORY.to_le_bytes());
        slot.write_config(0x14, &PORTS.to_le_bytes());
        slot.write_config(COMMAND, &ALL_ENABLED.to_le_bytes());
        slot.effects();
        slot
    }

    /// Creates a device with its link up and running rings of 256 descriptors.
    fn running() -> Self {
        let mut slot = Self::new();
        slot.start();
        slot
    }

    fn start(&mut self) {
        self.write(r::CTRL, ctrl::SLU);
        self.write(r::RDBAL, 0x10_0000);
        self.write(r::RDLEN, 4096);
        self.write(r::TDBAL, 0x20_0000);
        self.write(r::TDLEN, 4096);
        self.write(r::RCTL, rctl::EN);
        self.write(r::TCTL, tctl::EN);
        self.read(r::ICR);
        assert!(self.nic.transmits() && self.nic.receives());
        self.effects();
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.nic.config_write(offset, data, &mut self.interrupts, self.now);
    }

    fn config<const N: usize>(&mut self, offset: u16) -> [u8; N] {
        let mut data = [0xee; N];
        self.nic.config_read(offset, &mut data);
        data
    }

    fn config_word(&mut self, offset: u16) -> u16 {
        u16::from_le_bytes(self.config(offset))
    }

    fn octets<const N: usize>(&mut self, offset: u64) -> [u8; N] {
        let mut data = [0xee; N];
        self.nic.memory_read(offset, &mut data, &mut self.interrupts, self.now);
        data
    }

    fn read(&mut self, register: u64) -> u32 {
        u32::from_le_bytes(self.octets(register))
    }

    fn write_octets(&mut self, offset: u64, data: &[u8]) {
        self.nic.memory_write(offset, data, &mut self.interrupts, self.now);
    }

    fn write(&mut self, register: u64, value: u32) {
        self.write_octets(register, &value.to_le_bytes());
    }

    fn port(&mut self, port: u64) -> u32 {
        let mut data = [0xee; 4];
        self.nic.port_read(port, &mut data, &mut self.interrupts, self.now);
        u32::from_le_bytes(data)
    }

    fn write_port(&mut self, port: u64, value: u32) {
        self.nic.port_write(port, &value.to_le_bytes(), &mut self.interrupts, self.now);
    }

    fn line(&mut self) -> Line {
        self.interrupts.line(self.now)
    }

    fn asserted(&mut self) -> bool {
        self.line().asserted
    }

    /// Takes the effects except those about the interrupt.
    fn effects(&mut self) -> Vec<Effect> {
        let mut effects = self.nic.take_effects();
        effects.retain(|effect| !matches!(effect, Effect::LineChanged));
        effects
    }

    /// Takes the effects and returns their names.
    fn orders(&mut self) -> Vec<&'static str> {
        self.effects().iter().map(name).collect()
    }
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::BarsMoved => "bars moved",
        Effect::TransmitStarted(_) => "transmit started",
        Effect::TransmitStopped => "transmit stopped",
        Effect::TransmitTail => "transmit tail",
        Effect::TransmitChanged(_) => "transmit changed",
        Effect::ReceiveStarted(_) => "receive started",
        Effect::ReceiveStopped => "receive stopped",
        Effect::ReceiveTail => "receive tail",
        Effect::ReceiveChanged(_) => "receive changed",
        Effect::LineChanged => "line changed",
    }
}

fn moderated(moderation: Moderation) -> Config {
    Config { moderation, ..Config::new(MAC) }
}
