//! Random reads and writes of registers and configuration space.

use core::arch::asm;

use bootinfo::{BootInfo, NicModel, map};

use super::random::Random;
use crate::pci::{CAP_MSIX, Registers};
use crate::process;

/// Accesses per pass: few, so that the host is still answered although it makes some accesses slow.
const ACCESSES: u32 = 2;
/// Octets of a slot's configuration space, with all functions.
const SLOT: u64 = 1 << 15;
/// Distance between the BARs that the VMM assigns to adjacent slots.
const BAR: u64 = map::BAR_SPACING;
/// Offsets in configuration space: command register, first BAR, capability pointer.
const COMMAND: u64 = 0x04;
const BAR0: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;
/// MSI-X enabled, no vector masked.
const MSIX_ON: u16 = 1 << 15;
/// Memory decoding and bus mastering.
const COMMAND_ON: u16 = 1 << 1 | 1 << 2;
/// Offset of the register that resets and starts a virtio device.
const DEVICE_STATUS: u64 = 0x14;
/// Offset of the register that resets an e1000.
const CTRL: u64 = 0x00;

/// Performs some accesses of all sizes and at any alignment: mostly where the NICs are, sometimes anywhere in the device
/// window.
pub(super) fn access(random: &mut Random, info: &BootInfo) {
    for _ in 0..ACCESSES {
        let at = place(random, info);
        let value = value(random, info.ram);
        // Registers are naturally aligned, but a guest is free to access them otherwise.
        if random.below(4) > 0 {
            orderly(at, value, random);
        } else {
            disorderly(at, value, random);
        }
    }
}

/// Performs one aligned access, as a driver would.
fn orderly(at: u64, value: u64, random: &mut Random) {
    let write = random.below(2) == 0;
    match random.below(4) {
        0 => touch(at, value as u8, write),
        1 => touch(at & !1, value as u16, write),
        2 => touch(at & !3, value as u32, write),
        _ => touch(at & !7, value, write),
    }
}

fn touch<T: Copy>(at: u64, value: T, write: bool) {
    let register = Registers::at(at);
    if write {
        register.write(0, value);
    } else {
        register.read::<T>(0);
    }
}

/// Performs one access of 2, 4, 8 or 16 octets anywhere: it may span two registers or extend beyond the device.
fn disorderly(at: u64, value: u64, random: &mut Random) {
    if process::is_running() {
        // For a process, the host decodes the size, and any value can be requested.
        let octets = random.below(256) as usize;
        return match random.below(2) {
            0 => process::write(at, value, octets),
            _ => drop(process::read(at, octets)),
        };
    }
    // SAFETY: within the device window, behind which there is no memory, whatever the address and the size; the last
    // octets of the window are left out (`place`). The registers named are clobbers.
    unsafe {
        match random.below(8) {
            0 => asm!("mov [{at}], {v:x}", at = in(reg) at, v = in(reg) value, options(nostack)),
            1 => asm!("mov [{at}], {v:e}", at = in(reg) at, v = in(reg) value, options(nostack)),
            2 => asm!("mov [{at}], {v}", at = in(reg) at, v = in(reg) value, options(nostack)),
            3 => asm!("movups [{at}], xmm0", at = in(reg) at, options(nostack)),
            4 => asm!("mov {v:x}, [{at}]", at = in(reg) at, v = out(reg) _, options(nostack)),
            5 => asm!("mov {v:e}, [{at}]", at = in(reg) at, v = out(reg) _, options(nostack)),
            6 => asm!("mov {v}, [{at}]", at = in(reg) at, v = out(reg) _, options(nostack)),
            _ => asm!("movups xmm0, [{at}]", at = in(reg) at, out("xmm0") _, options(nostack)),
        }
    }
}

fn place(random: &mut Random, info: &BootInfo) -> u64 {
    let number = random.below(u64::from(info.nic_count.max(1)));
    let slot = 1 + number;
    let config = map::ECAM + slot * SLOT;
    let bar = map::BARS + slot * BAR;
    let e1000 = info.nics.get(number as usize).is_some_and(|nic| nic.model == NicModel::E1000 as u32);
    match random.below(16) {
        // Header and capabilities of a NIC.
        0..3 => config + random.below(256),
        3 => map::ECAM + random.below(map::ECAM_LEN - 16),
        4..12 if e1000 => bar + card_register(random),
        12 if e1000 => map::BARS + random.below(map::BARS_LEN - 16),
        14 | 15 if e1000 => {
            revive(config, bar);
            bar + CTRL
        }
        // The NIC's register structures: common configuration, doorbells, MSI-X table.
        4..8 => bar + random.below(0x40),
        8 | 9 => bar + 0x1000 + random.below(0x40),
        10..12 => bar + 0x2000 + random.below(0x100),
        12 => bar + random.below(BAR),
        13 => map::BARS + random.below(map::BARS_LEN - 16),
        14 => {
            revive(config, bar);
            bar + DEVICE_STATUS
        }
        // The message of the first vector, changed each time: each change is a new interrupt route for the host.
        _ => {
            Registers::at(bar + 0x200c).write(0, 0u32);
            bar + 0x2008
        }
    }
}

/// Offset of an e1000's register (82540EM manual, chapter "Register Descriptions"): mostly of rings, also of interrupts
/// and of functions of the device itself. The base addresses of rings are hit only by chance: changing them would be
/// another misdeed, and would end this one.
fn card_register(random: &mut Random) -> u64 {
    match random.below(8) {
        // TDH to TADV, RDH to RADV.
        0..2 => 0x3810 + random.below(0x1c),
        2..4 => 0x2810 + random.below(0x1c),
        // ICR to IMC.
        4 => 0xc0 + random.below(0x1c),
        // CTRL to VET, with EEPROM and PHY; RCTL; TCTL.
        5 => [random.below(0x3c), 0x100, 0x400][random.below(3) as usize],
        // Multicast and VLAN tables, own addresses.
        6 => 0x5200 + random.below(0x600),
        _ => random.below(BAR),
    }
}

/// Re-enables a NIC at its original address: registers respond only there, and vectors are delivered only while MSI-X is
/// enabled. Otherwise the further accesses would have no effect.
fn revive(config: u64, bar: u64) {
    let config = Registers::at(config);
    config.write(COMMAND, COMMAND_ON);
    config.write(BAR0, bar as u32);
    // The guest cannot modify the header, so the list is intact.
    let mut at = u64::from(config.read::<u8>(CAPABILITIES));
    while at != 0 && config.read::<u8>(at) != CAP_MSIX {
        at = u64::from(config.read::<u8>(at + 1));
    }
    if at != 0 {
        config.write(at + 2, MSIX_ON);
    }
}

/// Returns a value that is likely to be meaningful: small numbers, all ones, addresses in and around memory.
fn value(random: &mut Random, ram: u64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 | 3 => random.below(16),
        4 => map::POOL + (random.below(ram.saturating_sub(map::POOL).max(1)) & !0xfff),
        5 => ram.wrapping_sub(random.below(64)),
        6 => 1 << random.below(64),
        _ => random.next(),
    }
}
