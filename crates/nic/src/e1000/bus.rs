//! The device's PCI function: identity, BARs, interrupt pin, power management (82540EM manual, "PCI Configuration"; PCI
//! Bus Power Management 1.1).

use super::{Config, DEVICE_ID, MEMORY_LEN, PORTS_LEN, SUBSYSTEM, SUBSYSTEM_BLOCK, VENDOR};
use crate::pci::{ConfigSpace, Identity, config_space};

/// BAR of the registers.
pub(super) const MEMORY_BAR: u8 = 0;
/// BAR of the I/O ports.
pub(super) const PORTS_BAR: u8 = 1;
const ETHERNET: u32 = 0x02_0000;
const REVISION: u8 = 2;
const INTA: u8 = 1;

const POWER_CAPABILITY: u8 = 0x01;
/// Power management capabilities: version 2 of the specification, driver initialization needed after D0, no PME
/// (wake-up).
const POWER_ABILITIES: u16 = 0x0022;
/// Offset of control and status in the capability.
const POWER_CONTROL: u16 = 4;
/// Bits of the power state in control, 0 to 3. D1 and D2 are not supported.
const POWER_STATE: u8 = 3;

/// Configuration space.
#[derive(Clone, Debug)]
pub(super) struct Bus {
    pub(super) pci: ConfigSpace,
    power: u16,
}

/// Changes made by a write to configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The BARs' addresses, or whether they are decoded.
    pub(super) bars: bool,
    /// The device was powered up, and has lost its state.
    pub(super) powered_up: bool,
}

impl Bus {
    pub(super) fn new(config: &Config) -> Self {
        let mut pci = ConfigSpace::new(&Identity {
            vendor: VENDOR,
            device: DEVICE_ID,
            revision: REVISION,
            class: ETHERNET,
            subsystem_vendor: VENDOR,
            subsystem: subsystem(config),
        });
        pci.add_memory_bar(MEMORY_BAR, MEMORY_LEN);
        pci.add_port_bar(PORTS_BAR, PORTS_LEN);
        pci.set_interrupt_pin(INTA);
        let [low, high] = POWER_ABILITIES.to_le_bytes();
        let body = [low, high, 0, 0, 0, 0];
        let power =
            pci.add_capability(POWER_CAPABILITY, &body, &[0, 0, POWER_STATE, 0, 0, 0]) + POWER_CONTROL;
        Self { pci, power }
    }

    pub(super) fn write(&mut self, offset: u16, data: &[u8]) -> Change {
        let (state, bars) = (self.state(), self.windows());
        self.pci.write(offset, data);
        if matches!(self.state(), 1 | 2) {
            self.pci.store(usize::from(self.power), &[state]);
        }
        Change { bars: self.windows() != bars, powered_up: state != 0 && self.state() == 0 }
    }

    /// Returns the decoded BARs; none in D3.
    pub(super) fn windows(&self) -> (Option<crate::pci::BarWindow>, Option<crate::pci::BarWindow>) {
        if self.powered() { (self.pci.bar(MEMORY_BAR), self.pci.port_bar(PORTS_BAR)) } else { (None, None) }
    }

    pub(super) fn powered(&self) -> bool {
        self.state() == 0
    }

    /// Returns true if rings may be read and written (bus mastering).
    pub(super) fn master(&self) -> bool {
        self.powered() && self.pci.bus_master()
    }

    /// Returns true if the interrupt pin may be used.
    pub(super) fn interrupts(&self) -> bool {
        self.powered() && self.pci.word(config_space::COMMAND) & config_space::COMMAND_INTERRUPT_DISABLE == 0
    }

    fn state(&self) -> u8 {
        self.pci.word(self.power) as u8 & POWER_STATE
    }
}

pub(super) fn subsystem(config: &Config) -> u16 {
    if config.block { SUBSYSTEM_BLOCK } else { SUBSYSTEM }
}
