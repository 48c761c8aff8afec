//! Initial state of a firmware guest: page tables, descriptor tables, ring-0 stubs, and the image.
//!
//! All data of ring 0 lies in the first 2 MiB, which ring 3 cannot access:
//!
//! ```text
//! 0x1000 PML4   0x2000 PDPT   0x3000.. page directories of the first 7 GiB
//! 0xa000 GDT    0xb000 IDT    0xc000 TSS (128 octets a vCPU)   0x10000 stubs   0x20000 ring-0 stacks (4 KiB a vCPU)
//! 0x40000 a page table, on another VMM's PC                    0x50000.. page directories of the next 5 GiB
//! ```

use std::io::Cursor;

use anyhow::{Context, Result, ensure};
use bootinfo::{Desk, MAX_NICS, MAX_VCPUS, map};
use linux_loader::loader::KernelLoader;
use linux_loader::loader::elf::Elf;
use vm_memory::{Bytes, GuestAddress};

use crate::memory::GuestRam;
use crate::stubs::{APIC_ALIAS, FAULT_PORT, PIN_STRIDE, stubs};

pub(crate) const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
const DIRECTORY_COUNT: u64 = 7;
/// Page directories of further memory: route tables of many VRFs.
const MORE_DIRECTORIES: u64 = 0x5_0000;
const MORE_COUNT: u64 = 5;
pub(crate) const GDT: u64 = 0xa000;
pub(crate) const IDT: u64 = 0xb000;
pub(crate) const TSS: u64 = 0xc000;
pub(crate) const TSS_STRIDE: u64 = 128;
const STUBS: u64 = 0x1_0000;
pub(crate) const RING0_STACKS: u64 = 0x2_0000;
pub(crate) const RING0_STACK: u64 = 0x1000;
/// Page table of the 2 MiB at the beginning of ECAM, if ECAM is not mapped one to one.
const ECAM_TABLE: u64 = 0x4_0000;
const SMALL_PAGE: u64 = 0x1000;
/// Entries of a page directory.
const PAGES_A_GIB: u64 = (1 << 30) / map::PAGE;

/// Interrupt vector of vhost-user peers.
const PEER_VECTOR: u64 = map::PEER_VECTOR as u64;
/// Interrupt vectors of the NICs' pins.
const PIN_VECTOR: u64 = map::FIRST_PIN_VECTOR as u64;
const PIN_VECTORS_END: u64 = PIN_VECTOR + MAX_NICS as u64;

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const UNCACHED: u64 = 0b11 << 3;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;

/// Selectors of the global descriptor table, in the order of its entries.
pub(crate) const KERNEL_CODE: u16 = 0x08;
pub(crate) const USER_DATA: u16 = 0x18 | 3;
pub(crate) const USER_CODE: u16 = 0x20 | 3;
pub(crate) const FIRST_TSS: u16 = 0x28;

/// Octets of the GDT: five plain entries and a 16-octet TSS descriptor per vCPU.
pub(crate) const GDT_LEN: u16 = 5 * 8 + 16 * MAX_VCPUS as u16;

/// Returns the selector of a vCPU's task state segment.
pub(crate) fn tss_selector(vcpu: usize) -> u16 {
    FIRST_TSS + 16 * vcpu as u16
}

/// Writes the initial state of a virtual machine into its RAM: page tables (with a route table of `fib`
/// octets, and for a member of a group a neighbour table of `group` octets and a desk), stubs and image. Returns the entry
/// point.
pub(crate) fn load(ram: &GuestRam, firmware: &[u8], fib: u64, group: u64) -> Result<u64> {
    write_page_tables(ram, fib)?;
    if group > 0 {
        map_group(ram, group)?;
    }
    write_descriptor_tables(ram)?;
    let loaded = Elf::load(&ram.memory, None, &mut Cursor::new(firmware), None)
        .context("the firmware image is broken")?;
    ensure!(loaded.kernel_end <= map::STACKS, "the firmware image is too large for its place");
    Ok(loaded.kernel_load.0)
}

/// Maps the configuration space at physical address `to` to where [`map`] has it.
pub(crate) fn move_ecam(ram: &GuestRam, to: u64) -> Result<()> {
    let flags = PRESENT | WRITE | USER | UNCACHED | NO_EXECUTE;
    for page in (0..map::PAGE).step_by(SMALL_PAGE as usize) {
        let physical = if page < map::ECAM_LEN { to + page } else { map::ECAM + page };
        put(ram, ECAM_TABLE + 8 * (page / SMALL_PAGE), physical | flags)?;
    }
    put(ram, DIRECTORIES + 8 * (map::ECAM / map::PAGE), ECAM_TABLE | PRESENT | WRITE | USER)
}

fn put(ram: &GuestRam, address: u64, value: u64) -> Result<()> {
    ram.memory.write_obj(value, GuestAddress(address)).context("cannot write to guest RAM")
}

fn write_page_tables(ram: &GuestRam, fib: u64) -> Result<()> {
    put(ram, PML4, PDPT | PRESENT | WRITE | USER)?;
    for gib in 0..DIRECTORY_COUNT + MORE_COUNT {
        put(ram, PDPT + 8 * gib, directory(gib) | PRESENT | WRITE | USER)?;
    }
    let data = PRESENT | WRITE | USER | LARGE | NO_EXECUTE;
    map_pages(ram, 0, 0, map::PAGE, PRESENT | WRITE | LARGE)?;
    map_pages(ram, map::IMAGE, map::IMAGE, map::BOOT_INFO - map::IMAGE, PRESENT | WRITE | USER | LARGE)?;
    map_pages(ram, map::BOOT_INFO, map::BOOT_INFO, ram.len() as u64 - map::BOOT_INFO, data)?;
    map_pages(ram, APIC_ALIAS, map::APIC, map::PAGE, PRESENT | WRITE | UNCACHED | LARGE | NO_EXECUTE)?;
    map_pages(ram, FAULT_PORT, FAULT_PORT, map::PAGE, PRESENT | WRITE | UNCACHED | LARGE | NO_EXECUTE)?;
    map_pages(ram, map::ECAM, map::ECAM, map::ECAM_LEN + map::BARS_LEN, data | UNCACHED)?;
    map_pages(ram, map::FIB, map::FIB, fib, PRESENT | USER | LARGE | NO_EXECUTE)
}

/// Maps the neighbour table of a group, which is only read, and the member's desk.
fn map_group(ram: &GuestRam, neighbours: u64) -> Result<()> {
    let read = PRESENT | USER | LARGE | NO_EXECUTE;
    map_pages(ram, map::NEIGHBOURS, map::NEIGHBOURS, neighbours, read)?;
    map_pages(ram, map::DESK, map::DESK, Desk::LEN as u64, read | WRITE)
}

/// Maps `[from, from + len)` to physical `to` in 2 MiB pages.
fn map_pages(ram: &GuestRam, from: u64, to: u64, len: u64, flags: u64) -> Result<()> {
    let end = (DIRECTORY_COUNT + MORE_COUNT) << 30;
    ensure!(from + len <= end, "guest memory reaches beyond what the page tables can map");
    for page in 0..len.div_ceil(map::PAGE) {
        let number = from / map::PAGE + page;
        let entry = directory(number / PAGES_A_GIB) + 8 * (number % PAGES_A_GIB);
        put(ram, entry, (to + page * map::PAGE) | flags)?;
    }
    Ok(())
}

/// Returns the address of the page directory of a GiB.
const fn directory(gib: u64) -> u64 {
    match gib.checked_sub(DIRECTORY_COUNT) {
        None => DIRECTORIES + 0x1000 * gib,
        Some(more) => MORE_DIRECTORIES + 0x1000 * more,
    }
}

fn write_descriptor_tables(ram: &GuestRam) -> Result<()> {
    let plain =
        [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00cf_f300_0000_ffff, 0x00af_fb00_0000_ffff];
    for (index, entry) in (0..).zip(plain) {
        put(ram, GDT + 8 * index, entry)?;
    }
    for vcpu in 0..MAX_VCPUS {
        let tss = TSS + TSS_STRIDE * vcpu as u64;
        let descriptor = GDT + u64::from(tss_selector(vcpu));
        put(ram, descriptor, 0x67 | (tss & 0xff_ffff) << 16 | 0x8b << 40 | (tss >> 24 & 0xff) << 56)?;
        put(ram, descriptor + 8, tss >> 32)?;
        put(ram, tss + 4, RING0_STACKS + RING0_STACK * (vcpu as u64 + 1))?;
    }
    let stubs = stubs();
    ram.memory.write_slice(stubs.code, GuestAddress(STUBS)).context("cannot write the stubs")?;
    for vector in 0..=255u64 {
        let entry = match vector {
            13 => stubs.halt,
            0..=31 => stubs.faults + 16 * vector,
            PEER_VECTOR => stubs.peer,
            PIN_VECTOR..PIN_VECTORS_END => stubs.pins + PIN_STRIDE * (vector - PIN_VECTOR),
            _ => stubs.interrupt,
        };
        write_gate(ram, vector, STUBS + entry)?;
    }
    Ok(())
}

/// Writes an interrupt gate: ring 0 code, interrupts disabled on entry, not callable from ring 3.
fn write_gate(ram: &GuestRam, vector: u64, handler: u64) -> Result<()> {
    let low =
        (handler & 0xffff) | u64::from(KERNEL_CODE) << 16 | 0x8e00 << 32 | (handler >> 16 & 0xffff) << 48;
    put(ram, IDT + 16 * vector, low)?;
    put(ram, IDT + 16 * vector + 8, handler >> 32)
}

#[cfg(test)]
mod tests;
