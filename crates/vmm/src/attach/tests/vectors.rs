//! Interrupt vectors of a virtio-net device (MSI-X), in a machine whose interrupts are mailboxes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bootinfo::map;
use ledger::VcpuExits;
use nic::moderation::Moderation;
use nic::pci::config_space::{CAPABILITIES_POINTER, COMMAND, COMMAND_BUS_MASTER, COMMAND_MEMORY};
use nic::pci::msix;
use nic::virtio_net::{NicConfig, features, register, registers, status};

use super::driver::{MAC, machine};
use crate::attach::{Model, attach, bar_of, nic_slot};
use crate::machine::Machine;

/// Status of a driver that has negotiated features.
const SET_UP: u8 = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;

/// A driver without queues, which is interrupted when its cable is pulled or plugged in.
struct Driver {
    machine: Arc<Machine>,
    slot: usize,
    exits: VcpuExits,
    is_plugged: bool,
}

impl Driver {
    /// Finds the device, and enables it and its MSI-X.
    fn new() -> Self {
        let (machine, _) = machine(&[], false);
        let slot = nic_slot(0);
        let model =
            Model::VirtioNet { config: NicConfig::new(MAC), moderation: Moderation::Off, in_access: false };
        attach(&machine, slot, &model, false).expect("a NIC");
        let driver = Self { machine, slot, exits: VcpuExits::default(), is_plugged: true };
        let command = COMMAND_MEMORY | COMMAND_BUS_MASTER;
        driver.machine.bus().write(driver.config(COMMAND), &command.to_le_bytes(), &driver.exits);
        let control = driver.config(driver.msix() + msix::CONTROL);
        driver.machine.bus().write(control, &msix::CONTROL_ENABLE.to_le_bytes(), &driver.exits);
        driver
    }

    /// Returns the address of a register of configuration space.
    fn config(&self, offset: u16) -> u64 {
        map::ECAM + ((self.slot as u64) << 15) + u64::from(offset)
    }

    /// Returns the offset of the capability of MSI-X.
    fn msix(&self) -> u16 {
        let octet = |offset: u16| {
            let mut octet = [0];
            self.machine.bus().read(self.config(offset), &mut octet, &self.exits);
            octet[0]
        };
        let mut at = u16::from(octet(CAPABILITIES_POINTER));
        while octet(at) != msix::CAPABILITY {
            at = u16::from(octet(at + 1));
            assert_ne!(at, 0, "no capability of MSI-X");
        }
        at
    }

    fn write(&self, offset: u64, octets: &[u8]) {
        self.machine.bus().write(bar_of(self.slot) + offset, octets, &self.exits);
    }

    fn common(&self, register: usize, octets: &[u8]) {
        self.write(registers::COMMON + register as u64, octets);
    }

    /// Sends the configuration vector to this vCPU, and unmasks it.
    fn vector(&self, vcpu: u64) {
        self.write(registers::MSIX_TABLE, &(map::APIC | vcpu << 12).to_le_bytes());
        self.write(registers::MSIX_TABLE + 8, &u64::from(map::MESSAGE_VECTOR).to_le_bytes());
    }

    fn mask(&self) {
        self.write(registers::MSIX_TABLE + 12, &1u32.to_le_bytes());
    }

    fn unmask(&self) {
        self.write(registers::MSIX_TABLE + 12, &0u32.to_le_bytes());
    }

    fn reset(&self) {
        self.common(register::DEVICE_STATUS, &[0]);
    }

    fn set_driver_ok(&self) {
        self.common(register::DEVICE_STATUS, &[SET_UP | status::DRIVER_OK]);
    }

    /// Resets the device and negotiates features; vector 0 is to tell of changes of the configuration.
    fn set_up(&self) {
        self.reset();
        self.common(register::DEVICE_STATUS, &[status::ACKNOWLEDGE | status::DRIVER]);
        let wanted = features::VERSION_1 | features::STATUS;
        for half in [0u32, 1] {
            self.common(register::DRIVER_FEATURE_SELECT, &half.to_le_bytes());
            self.common(register::DRIVER_FEATURE, &((wanted >> (32 * half)) as u32).to_le_bytes());
        }
        self.common(register::DEVICE_STATUS, &[SET_UP]);
        self.common(register::CONFIG_MSIX_VECTOR, &0u16.to_le_bytes());
    }

    fn start(&self) {
        self.set_up();
        self.set_driver_ok();
        assert_eq!(self.status(), SET_UP | status::DRIVER_OK);
    }

    /// Starts the device with a queue that lies outside the memory, which it cannot serve.
    fn start_in_vain(&self) {
        self.set_up();
        self.common(register::QUEUE_SELECT, &0u16.to_le_bytes());
        self.common(register::QUEUE_DESC, &(1u64 << 40).to_le_bytes());
        self.common(register::QUEUE_ENABLE, &1u16.to_le_bytes());
        self.set_driver_ok();
        assert_eq!(self.status(), SET_UP | status::DRIVER_OK | status::DEVICE_NEEDS_RESET);
    }

    fn status(&self) -> u8 {
        let mut status = [0];
        let address = bar_of(self.slot) + registers::COMMON + register::DEVICE_STATUS as u64;
        self.machine.bus().read(address, &mut status, &self.exits);
        status[0]
    }

    /// Pulls the cable or plugs it in; returns the number of interrupts of each vCPU so far.
    fn told(&mut self) -> [u32; 2] {
        self.is_plugged = !self.is_plugged;
        self.machine.bus().set_link(self.slot, self.is_plugged);
        self.interrupts()
    }

    fn interrupts(&self) -> [u32; 2] {
        [0, 1].map(|vcpu: usize| self.machine.shared().mailbox[vcpu].0.load(Ordering::Acquire))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.machine.bus().clear();
    }
}

#[test]
fn a_vector_may_change_before_the_start_and_afterwards() {
    let mut driver = Driver::new();
    driver.vector(0);
    driver.start();
    assert_eq!(driver.told(), [1, 0], "set before the start");
    driver.vector(1);
    assert_eq!(driver.told(), [1, 1], "moved while started");
    driver.mask();
    assert_eq!(driver.told(), [1, 1]);
    driver.unmask();
    assert_eq!(driver.interrupts(), [1, 2], "pending, then sent");
    driver.start();
    assert_eq!(driver.told(), [1, 3], "reset, and started with the same message");
    driver.reset();
    driver.vector(0);
    assert_eq!(driver.told(), [1, 3], "a device that was reset interrupts nobody");
    driver.start();
    assert_eq!(driver.told(), [2, 3], "moved while reset");
    driver.reset();
    driver.mask();
    driver.start();
    assert_eq!(driver.told(), [2, 3], "masked at the start");
    driver.unmask();
    assert_eq!(driver.interrupts(), [3, 3]);
}

#[test]
fn a_device_that_fails_tells_by_a_vector_that_is_unmasked_later() {
    let mut driver = Driver::new();
    driver.vector(0);
    driver.start_in_vain();
    assert_eq!(driver.interrupts(), [1, 0], "it needs a reset");
    driver.mask();
    driver.start_in_vain();
    assert_eq!(driver.interrupts(), [1, 0]);
    driver.vector(1);
    assert_eq!(driver.interrupts(), [1, 1], "moved and unmasked after it has failed");
    driver.start();
    assert_eq!(driver.told(), [1, 2]);
}
