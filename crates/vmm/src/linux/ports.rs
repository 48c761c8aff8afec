//! I/O ports of a PC, as far as a Linux without special drivers needs them. All other ports belong to PCI
//! devices.
//!
//! | port | device |
//! |---|---|
//! | 0x64 | keyboard controller: only its reset line |
//! | 0x70, 0x71 | real-time clock |
//! | 0x3f8 | serial console |
//! | 0x600 to 0x605 | power (ACPI): soft off |
//! | 0xcf8, 0xcfc | PCI configuration space |
//! | 0xcf9 | reset |
//!
//! Interrupt controllers and timer (0x20, 0x40, 0xa0, 0x61, 0x4d0) are KVM's.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvm_ioctls::VmFd;
use ledger::VcpuExits;

use super::acpi::{CONTROL, EVENTS, RESET};
use super::cmos::Cmos;
use super::console::{Console, ConsoleCounters};
use super::serial::{self, Serial};
use super::{End, SERIAL_INTERRUPT};
use crate::bus::Bus;

const KEYBOARD: u16 = 0x64;
/// Command that triggers the reset line.
const KEYBOARD_RESET: u8 = 0xfe;
const CLOCK: u16 = 0x70;
const CLOCK_DATA: u16 = 0x71;
const SERIAL: u16 = 0x3f8;
const SERIAL_END: u16 = SERIAL + serial::PORTS - 1;
const PCI_ADDRESS: u16 = 0xcf8;
const PCI_DATA: u16 = 0xcfc;
const PCI_DATA_END: u16 = 0xcff;
const PCI_ENABLE: u32 = 1 << 31;
/// Bit of the reset register: reset now.
const RESET_NOW: u8 = 1 << 2;
const EVENTS_END: u16 = EVENTS + 3;
const CONTROL_END: u16 = CONTROL + 1;
/// Bits of the control register: ACPI is enabled; enter the sleep state.
const IN_CHARGE: u16 = 1;
const SLEEP: u16 = 1 << 13;

/// The ports, which all vCPUs share.
pub(super) struct Ports {
    bus: Arc<Bus>,
    /// KVM's handle; `None` in tests.
    vm: Option<Arc<VmFd>>,
    state: Mutex<State>,
    console: Arc<ConsoleCounters>,
}

struct State {
    serial: Serial,
    console: Console,
    /// Level of the serial port's interrupt.
    interrupt: bool,
    clock: Cmos,
    pci_address: u32,
    /// Enabled events; none ever occurs.
    events: [u8; 2],
    control: u16,
    end: Option<End>,
}

impl Ports {
    /// Creates the ports, with a console that is written to this file.
    pub(super) fn new(vm: Option<Arc<VmFd>>, bus: Arc<Bus>, console: Option<File>) -> Self {
        let counters = Arc::default();
        let state = State {
            serial: Serial::new(),
            console: Console::new(console, &counters),
            interrupt: false,
            clock: Cmos::default(),
            pci_address: 0,
            events: [0; 2],
            control: IN_CHARGE,
            end: None,
        };
        Self { bus, vm, state: Mutex::new(state), console: counters }
    }

    /// Returns the console counters.
    pub(super) fn console(&self) -> &Arc<ConsoleCounters> {
        &self.console
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a guest's read. Unclaimed ports read as all ones.
    pub(super) fn read(&self, port: u16, data: &mut [u8], exits: &VcpuExits) {
        if let PCI_DATA..=PCI_DATA_END = port {
            let address = self.state().pci_address;
            data.fill(0xff);
            return match target(address, port) {
                Some((slot, offset)) => self.bus.config_read(slot, offset, data, exits),
                None => exits.pci_config_read.add(1),
            };
        }
        if !is_ours(port) {
            return self.bus.port_read(port, data, exits);
        }
        exits.port_io.add(1);
        self.in_turn(|state| state.read(port, data));
    }

    /// Performs a guest's write; returns how the guest ends, if the write ends it. Writes to unclaimed ports
    /// are lost.
    pub(super) fn write(&self, port: u16, data: &[u8], exits: &VcpuExits) -> Option<End> {
        if let PCI_DATA..=PCI_DATA_END = port {
            let address = self.state().pci_address;
            match target(address, port) {
                Some((slot, offset)) => self.bus.config_write(slot, offset, data, exits),
                None => exits.pci_config_write.add(1),
            }
            return None;
        }
        if !is_ours(port) {
            self.bus.port_write(port, data, exits);
            return None;
        }
        exits.port_io.add(1);
        self.in_turn(|state| state.write(port, data));
        self.state().end.clone()
    }

    /// Returns how a guest ends whose CPU has caused a reset.
    pub(super) fn reset(&self) -> End {
        self.state().reset()
    }

    /// Performs an action, then updates the level of the serial port's interrupt.
    fn in_turn(&self, act: impl FnOnce(&mut State)) {
        let mut state = self.state();
        act(&mut state);
        let level = state.serial.interrupts();
        if std::mem::replace(&mut state.interrupt, level) != level
            && let Some(vm) = &self.vm
        {
            // It can only fail for a machine without interrupt controller.
            let _ = vm.set_irq_line(SERIAL_INTERRUPT.into(), level);
        }
    }
}

/// Returns slot and register that the configuration address and the data port select; function 0 of bus 0
/// only.
fn target(address: u32, port: u16) -> Option<(usize, u16)> {
    let (bus, function) = (address >> 16 & 0xff, address >> 8 & 7);
    let here = address & PCI_ENABLE != 0 && bus == 0 && function == 0;
    here.then_some(((address >> 11 & 0x1f) as usize, (address & 0xfc) as u16 | (port & 3)))
}

fn is_ours(port: u16) -> bool {
    matches!(port, KEYBOARD | CLOCK | CLOCK_DATA | SERIAL..=SERIAL_END | EVENTS..=EVENTS_END)
        || matches!(port, CONTROL..=CONTROL_END | PCI_ADDRESS..=0xcfb)
}

impl State {
    fn read(&mut self, port: u16, data: &mut [u8]) {
        if port == PCI_ADDRESS && data.len() == 4 {
            return data.copy_from_slice(&self.pci_address.to_le_bytes());
        }
        for (port, octet) in (port..).zip(data) {
            *octet = match port {
                CLOCK_DATA => self.clock.read(),
                SERIAL..=SERIAL_END => self.serial.read(port - SERIAL),
                EVENTS | 0x601 | RESET | KEYBOARD => 0,
                0x602..=EVENTS_END => self.events.get(usize::from(port - 0x602)).copied().unwrap_or(0),
                CONTROL..=CONTROL_END => self.control.to_le_bytes()[usize::from(port - CONTROL)],
                _ => 0xff,
            };
        }
    }

    fn write(&mut self, port: u16, data: &[u8]) {
        if port == PCI_ADDRESS
            && let Ok(address) = data.try_into()
        {
            self.pci_address = u32::from_le_bytes(address);
            return;
        }
        for (port, octet) in (port..).zip(data) {
            self.write_octet(port, *octet);
        }
        if self.control & SLEEP != 0 {
            // Soft off is the only sleep state.
            self.end = Some(End::Off);
        }
    }

    fn write_octet(&mut self, port: u16, octet: u8) {
        match port {
            CLOCK => self.clock.choose(octet),
            SERIAL..=SERIAL_END => self.write_serial(port - SERIAL, octet),
            KEYBOARD if octet == KEYBOARD_RESET => self.end = Some(self.reset()),
            RESET if octet & RESET_NOW != 0 => self.end = Some(self.reset()),
            0x602..=EVENTS_END => {
                if let Some(place) = self.events.get_mut(usize::from(port - 0x602)) {
                    *place = octet;
                }
            }
            CONTROL => self.control = self.control & 0xff00 | u16::from(octet) | IN_CHARGE,
            CONTROL_END => self.control = self.control & 0xff | u16::from(octet) << 8,
            _ => {}
        }
    }

    fn write_serial(&mut self, register: u16, octet: u8) {
        let Some(octet) = self.serial.write(register, octet) else { return };
        self.console.put(octet);
        if self.console.has_ended() {
            self.end = Some(self.reset());
        }
    }

    /// A kernel that has panicked also resets itself, if it is configured to.
    fn reset(&self) -> End {
        match self.console.panic() {
            Some(reason) => End::Panic(reason.to_owned()),
            None => End::Reset,
        }
    }
}

#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../fuzz/bodies/linux_ports.rs"]
pub(super) mod fuzzed;
#[cfg(test)]
mod tests;
