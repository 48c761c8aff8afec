//! Registers and configuration space, read and written at random.

use core::arch::asm;

use bootinfo::{BootInfo, NicModel, map};

use super::random::Random;
use crate::pci::{CAP_MSIX, Registers};
use crate::process;

/// Accesses in one pass: few, so that the host is answered although it makes some of them take long.
const ACCESSES: u32 = 2;
/// Octets of a slot's configuration space, all functions.
const SLOT: u64 = 1 << 15;
/// Distance of the places at which the VMM puts two slots' BARs.
const BAR: u64 = map::BAR_SPACING;
/// In configuration space: the command register and the first BAR.
const COMMAND: u64 = 0x04;
const BAR0: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;
/// MSI-X on, no vector masked.
const MSIX_ON: u16 = 1 << 15;
/// Memory decoding and bus mastering.
const COMMAND_ON: u16 = 1 << 1 | 1 << 2;
/// The register that resets and starts a virtio device.
const DEVICE_STATUS: u64 = 0x14;
/// The register that resets an e1000.
const CTRL: u64 = 0x00;

/// Some accesses, of all sizes and at any alignment: mostly where the NICs are, sometimes anywhere in the window of
/// devices.
pub(super) fn access(random: &mut Random, info: &BootInfo) {
    for _ in 0..ACCESSES {
        let at = place(random, info);
        let value = value(random, info.ram);
        // Registers are where they are aligned; but nobody keeps a guest from doing it in another way.
        if random.below(4) > 0 {
            orderly(at, value, random);
        } else {
            disorderly(at, value, random);
        }
    }
}

/// One access as a driver makes it.
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

/// One access of 2, 4, 8 or 16 octets anywhere: it may reach from one register into the next, or out of the device.
fn disorderly(at: u64, value: u64, random: &mut Random) {
    if process::is_running() {
        // Here it is the host that reads the size, and every one can be written down.
        let octets = random.below(256) as usize;
        return match random.below(2) {
            0 => process::write(at, value, octets),
            _ => drop(process::read(at, octets)),
        };
    }
    // SAFETY: in the window of devices, behind which there is no memory, whatever the address and the size; the last
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
        // The header and the capabilities of a NIC.
        0..3 => config + random.below(256),
        3 => map::ECAM + random.below(map::ECAM_LEN - 16),
        4..12 if e1000 => bar + card_register(random),
        12 if e1000 => map::BARS + random.below(map::BARS_LEN - 16),
        14 | 15 if e1000 => {
            revive(config, bar);
            bar + CTRL
        }
        // The structures of its registers: common configuration, doorbells, MSI-X table.
        4..8 => bar + random.below(0x40),
        8 | 9 => bar + 0x1000 + random.below(0x40),
        10..12 => bar + 0x2000 + random.below(0x100),
        12 => bar + random.below(BAR),
        13 => map::BARS + random.below(map::BARS_LEN - 16),
        14 => {
            revive(config, bar);
            bar + DEVICE_STATUS
        }
        // The message of the first vector, again and again another one: each is a new route for the host.
        _ => {
            Registers::at(bar + 0x200c).write(0, 0u32);
            bar + 0x2008
        }
    }
}

/// The registers of an e1000 (82540EM manual, chapter "Register Descriptions"): of rings mostly, of interrupts, of
/// what the device does by itself. Where a ring lies is among them only by chance: that would be another misdeed, and the
/// end of this one.
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

/// Switches a NIC on again, where it was at first: registers answer only there, and vectors send only while MSI-X is
/// on. Without this nothing would come of the rest.
fn revive(config: u64, bar: u64) {
    let config = Registers::at(config);
    config.write(COMMAND, COMMAND_ON);
    config.write(BAR0, bar as u32);
    // The header is not the guest's to change, so the list is whole.
    let mut at = u64::from(config.read::<u8>(CAPABILITIES));
    while at != 0 && config.read::<u8>(at) != CAP_MSIX {
        at = u64::from(config.read::<u8>(at + 1));
    }
    if at != 0 {
        config.write(at + 2, MSIX_ON);
    }
}

/// What is most likely to be taken for something: small numbers, all ones, addresses in and around memory.
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
