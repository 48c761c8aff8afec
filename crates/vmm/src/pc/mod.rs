//! Runs the firmware on another VMM: the parts of a PC (QEMU's `q35`, with memory that this process holds)
//! that it needs.
//!
//! RAM is set up as by [`Vm`](crate::Vm), in a memfd that the other VMM maps. What is done by setting
//! registers with KVM, a boot ROM does here: it configures the chipset like [`Machine`](crate::Machine)'s
//! bus, and brings each CPU into the state that `vcpu::enter_firmware` sets. So the firmware cannot tell the
//! difference, except by its devices.
//!
//! One thing is at another address: a PC's window on PCI configuration space is at least 64 MiB large and
//! would cover the BARs behind ours. It is at 0xb000_0000, and the page tables map its beginning to where the
//! firmware expects it.

mod rom;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bootinfo::{Environment, Shared, map};

use crate::attach::bar_of;
use crate::boot;
use crate::firmware::Firmware;
use crate::machine::{self, MachineConfig, Memory};
use crate::memory::GuestRam;
use rom::BootWrite;

/// Physical address of the configuration space.
const ECAM: u64 = 0xb000_0000;
/// Register of the host bridge that sets this address (PCIEXBAR), as an address for port 0xcf8; and its bit
/// that enables the window, with a size of 256 MiB.
const PCIEXBAR: u32 = 0x8000_0060;
const PCIEXBAR_ON: u32 = 1;
/// Register BAR 0 of a slot, as an address for port 0xcf8.
const BAR0: u32 = 0x8000_0010;
/// Mask registers of both 8259s, whose interrupts are all masked.
const MASKS: [u16; 2] = [0x21, 0xa1];
/// The I/O APIC's index and data registers, and the first register of its table.
const IOAPIC: u32 = 0xfec0_0000;
const IOAPIC_DATA: u32 = IOAPIC + 0x10;
const IOAPIC_TABLE: u32 = 0x10;
/// Bit of a level-triggered entry.
const LEVEL: u32 = 1 << 15;
/// I/O APIC inputs to which a PC connects the pins of PCI slots; which of them depends on the chipset.
const INPUTS: std::ops::Range<u32> = 16..24;
/// The local APIC: spurious vector register, and the command that starts all other CPUs at the ROM's
/// beginning.
const APIC_SPURIOUS: u32 = 0xfee0_00f0;
const APIC_ON: u32 = 0x1ff;
const APIC_COMMAND: u32 = 0xfee0_0300;
const START_OTHERS: u32 = 0x000c_4600 | (rom::BASE >> 12);

/// A firmware to be run by another VMM.
#[derive(Debug)]
pub struct Pc {
    ram: Arc<GuestRam>,
    rom: Vec<u8>,
}

impl Pc {
    /// Creates RAM and ROM for a firmware with at most one NIC, which interrupts by its pin. `tsc_khz`:
    /// frequency of the other VMM's time-stamp counter in kHz.
    pub fn new(config: MachineConfig, tsc_khz: u64) -> Result<Self> {
        let info = config.info.clone();
        ensure!(config.fib.is_none(), "a firmware on another VMM has no route table");
        ensure!(info.nic_count <= 1, "a firmware on another VMM has one NIC at most, not {}", info.nic_count);
        let Memory { ram, .. } = Memory::new(config, Environment::Kvm)?;
        let entry = boot::load(&ram, Firmware::of(&info).image(), 0, 0)?;
        boot::move_ecam(&ram, ECAM)?;
        machine::write_tsc_khz(&ram, tsc_khz)?;
        let mut orders = chipset();
        for nic in info.nics.iter().take(info.nic_count as usize) {
            orders.extend(place(nic.slot));
            orders.extend(lead_pins(nic.interrupt_vcpu));
        }
        if info.vcpus > 1 {
            orders.push(BootWrite::Memory(APIC_COMMAND, START_OTHERS));
        }
        Ok(Self { ram, rom: rom::image(entry, &orders)? })
    }

    /// Returns its RAM, to be mapped by the other VMM at guest-physical address 0.
    pub fn ram(&self) -> Result<BorrowedFd<'_>> {
        Ok(self.ram.file().context("RAM without a file")?.as_fd())
    }

    /// Returns the octets of RAM.
    pub fn ram_len(&self) -> usize {
        self.ram.len()
    }

    /// Returns its boot ROM, which ends at 4 GiB and is visible below 1 MiB as well, as on every PC.
    pub fn rom(&self) -> &[u8] {
        &self.rom
    }

    /// Returns the words that the firmware shares with the host.
    pub fn shared(&self) -> &Shared {
        self.ram.shared()
    }
}

fn chipset() -> Vec<BootWrite> {
    let mut orders: Vec<_> = MASKS.map(|port| BootWrite::Port(port, 0xff)).into();
    orders.push(BootWrite::Config(PCIEXBAR + 4, 0));
    orders.push(BootWrite::Config(PCIEXBAR, ECAM as u32 | PCIEXBAR_ON));
    orders.push(BootWrite::Memory(APIC_SPURIOUS, APIC_ON));
    orders
}

/// Sets BAR 0 of a slot to the address that ring 0 expects.
fn place(slot: u32) -> [BootWrite; 1] {
    [BootWrite::Config(BAR0 | slot << 11, bar_of(slot as usize) as u32)]
}

/// Routes every pin to the handler of NIC 0, whatever its slot.
fn lead_pins(vcpu: u32) -> impl Iterator<Item = BootWrite> {
    INPUTS.flat_map(move |input| {
        let register = IOAPIC_TABLE + 2 * input;
        let entry = [(register + 1, vcpu << 24), (register, u32::from(map::FIRST_PIN_VECTOR) | LEVEL)];
        entry.into_iter().flat_map(|(register, value)| {
            [BootWrite::Memory(IOAPIC, register), BootWrite::Memory(IOAPIC_DATA, value)]
        })
    })
}

#[cfg(test)]
mod tests;
