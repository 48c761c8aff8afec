//! Loads kernel, initramfs, command line and tables into a guest's memory, as the boot protocol specifies
//! (`Documentation/arch/x86/boot.rst` of the kernel), for an entry in 64-bit mode.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail, ensure};
use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::elf::Elf;
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use vm_memory::{Bytes, GuestAddress};

use super::{acpi, mp_table};
use crate::memory::GuestRam;

pub(super) const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
/// Number of GiB that are mapped for the kernel until it has page tables of its own.
const GIBS: u64 = 4;
pub(super) const ZERO_PAGE: u64 = 0x7000;
pub(super) const GDT: u64 = 0x8000;
/// Descriptors that the protocol requires: __BOOT_CS is 0x10, __BOOT_DS is 0x18.
pub(super) const GDT_ENTRIES: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
/// Top of the initial stack of the first CPU.
pub(super) const STACK_TOP: u64 = 0x1_0000;
const COMMAND_LINE: u64 = 0x2_0000;
/// Added before the file's command line: interrupt routes are in the MP table.
const OWN_WORDS: &str = "acpi=noirq";
/// End of RAM below 640 KiB, whose last KiB belongs to the firmware.
const LOW_RAM: u64 = 0x9_fc00;
const ACPI_TABLES: u64 = 0xe_0000;
const MP_TABLE: u64 = 0xf_0000;
const HIGH_RAM: u64 = 0x10_0000;
const PAGE: u64 = 0x1000;

/// Offset of a bzImage's 64-bit entry from its start.
const ENTRY_64: u64 = 0x200;
/// Bit of `xloadflags`: there is such an entry.
const HAS_ENTRY_64: u16 = 1;
/// Bit of `loadflags`: the kernel is to be loaded at 1 MiB.
const LOADED_HIGH: u8 = 1;
/// Type of boot loaders without an assigned number.
const OTHER_LOADER: u8 = 0xff;
const BOOT_FLAG: u16 = 0xaa55;
const MAGIC: u32 = u32::from_le_bytes(*b"HdrS");
/// Maximum octets of the command line of kernels that do not tell.
const COMMAND_LINE_DEFAULT: u32 = 255;

const RAM: u32 = 1;
const RESERVED: u32 = 2;

/// Files to be loaded.
#[derive(Debug)]
pub(super) struct Images<'a> {
    pub(super) kernel: &'a mut File,
    pub(super) initrd: Option<&'a mut File>,
    pub(super) append: &'a str,
}

/// Loads everything; returns the entry address of the first CPU.
///
/// # Errors
/// One line: what is wrong with a file, or what does not fit.
pub(super) fn load(ram: &GuestRam, images: Images<'_>, vcpus: u8) -> Result<u64> {
    let (entry, header, end) = load_kernel(ram, images.kernel)?;
    let mut params = boot_params { hdr: header, acpi_rsdp_addr: ACPI_TABLES, ..boot_params::default() };
    load_command_line(ram, images.append, &mut params.hdr)?;
    if let Some(initrd) = images.initrd {
        load_initrd(ram, initrd, end, &mut params.hdr).context("cannot load the initramfs")?;
    }
    let regions = [
        (0, LOW_RAM, RAM),
        (LOW_RAM, 0xa_0000, RESERVED),
        (ACPI_TABLES, HIGH_RAM, RESERVED),
        (HIGH_RAM, ram.len() as u64, RAM),
    ];
    for (place, (from, to, kind)) in params.e820_table.iter_mut().zip(regions) {
        *place = boot_e820_entry { addr: from, size: to - from, r#type: kind };
    }
    params.e820_entries = regions.len() as u8;
    put(ram, ZERO_PAGE, &params)?;
    put_octets(ram, ACPI_TABLES, &acpi::tables(ACPI_TABLES, vcpus))?;
    put_octets(ram, MP_TABLE, &mp_table::table(MP_TABLE as u32, vcpus))?;
    write_page_tables(ram)?;
    put(ram, GDT, &GDT_ENTRIES)?;
    Ok(entry)
}

fn put<T: vm_memory::ByteValued>(ram: &GuestRam, address: u64, value: &T) -> Result<()> {
    put_octets(ram, address, value.as_slice())
}

fn put_octets(ram: &GuestRam, address: u64, octets: &[u8]) -> Result<()> {
    ram.memory.write_slice(octets, GuestAddress(address)).context("cannot write to guest RAM")
}

/// Loads the kernel; returns its entry, its header, and the end of the memory that it needs until it has
/// examined its memory map.
fn load_kernel(ram: &GuestRam, kernel: &mut File) -> Result<(u64, setup_header, u64)> {
    let mut magic = [0; 4];
    kernel.rewind().and_then(|()| kernel.read_exact(&mut magic)).context("the kernel cannot be read")?;
    if magic == *b"\x7fELF" {
        return load_elf(ram, kernel);
    }
    let too_large = "no bzImage that fits into the router's memory";
    let KernelLoaderResult { kernel_load, setup_header, kernel_end, .. } =
        BzImage::load(&ram.memory, None, kernel, Some(GuestAddress(HIGH_RAM))).context(too_large)?;
    let header = setup_header.context("a kernel without a header")?;
    let (version, flags, init_size) = (header.version, header.xloadflags, header.init_size);
    ensure!(
        version >= 0x20c && flags & HAS_ENTRY_64 != 0,
        "the kernel has no 64-bit entry (boot protocol {:#x}): one for x86-64 from 3.8 on is wanted",
        { version }
    );
    let needed = kernel_end.max(header.pref_address.saturating_add(init_size.into()));
    ensure!(
        needed <= ram.len() as u64,
        "the kernel unpacks itself up to {} MiB: give the router more memory",
        needed >> 20
    );
    Ok((kernel_load.0 + ENTRY_64, header, needed))
}

/// Loads a `vmlinux`, whose entry is in its ELF header.
fn load_elf(ram: &GuestRam, kernel: &mut File) -> Result<(u64, setup_header, u64)> {
    kernel.rewind().context("the kernel cannot be read")?;
    let loaded = Elf::load(&ram.memory, None, kernel, Some(GuestAddress(HIGH_RAM)))
        .context("no ELF kernel that fits into the router's memory")?;
    let (entry, end) = (loaded.kernel_load.0, loaded.kernel_end);
    ensure!(
        end <= ram.len() as u64,
        "the kernel takes memory up to {} MiB: give the router more memory",
        end >> 20
    );
    ensure!(entry < end, "the kernel is entered at {entry:#x}, where it does not lie: a vmlinux is wanted");
    let header = setup_header {
        boot_flag: BOOT_FLAG,
        header: MAGIC,
        version: 0x20c,
        loadflags: LOADED_HIGH,
        kernel_alignment: 0x100_0000,
        initrd_addr_max: i32::MAX as u32,
        cmdline_size: 2047,
        ..setup_header::default()
    };
    Ok((entry, header, end))
}

fn load_command_line(ram: &GuestRam, append: &str, header: &mut setup_header) -> Result<()> {
    let line = format!("{OWN_WORDS} {append}");
    let most = match header.cmdline_size {
        0 => COMMAND_LINE_DEFAULT,
        size => size,
    };
    ensure!(!line.contains('\0'), "the kernel's command line contains a zero octet");
    if line.len() > most as usize {
        bail!("the command line has {} octets, and the kernel takes {most}: shorten append", line.len());
    }
    put_octets(ram, COMMAND_LINE, line.as_bytes())?;
    put_octets(ram, COMMAND_LINE + line.len() as u64, &[0])?;
    header.cmd_line_ptr = COMMAND_LINE as u32;
    header.type_of_loader = OTHER_LOADER;
    Ok(())
}

/// Loads the initramfs at the top of the memory that the kernel can reach, so that the kernel has room to
/// grow.
fn load_initrd(ram: &GuestRam, initrd: &mut File, kernel_end: u64, header: &mut setup_header) -> Result<()> {
    let size = initrd.seek(SeekFrom::End(0)).context("it cannot be read")?;
    initrd.rewind().context("it cannot be read")?;
    let top = (ram.len() as u64).min(u64::from(header.initrd_addr_max) + 1);
    let start = top.checked_sub(size).map(|start| start & !(PAGE - 1)).filter(|start| *start >= kernel_end);
    let start = start.with_context(|| {
        format!(
            "its {} MiB do not fit beside the kernel: give the router more memory",
            size.div_ceil(1 << 20)
        )
    })?;
    ram.memory
        .read_exact_volatile_from(GuestAddress(start), initrd, size as usize)
        .context("it cannot be read")?;
    (header.ramdisk_image, header.ramdisk_size) = (start as u32, size as u32);
    Ok(())
}

/// Maps the first GiBs one to one, in pages of 2 MiB.
fn write_page_tables(ram: &GuestRam) -> Result<()> {
    const PRESENT_WRITE: u64 = 0b11;
    const LARGE: u64 = 1 << 7;
    put(ram, PML4, &(PDPT | PRESENT_WRITE))?;
    for gib in 0..GIBS {
        let directory = DIRECTORIES + PAGE * gib;
        put(ram, PDPT + 8 * gib, &(directory | PRESENT_WRITE))?;
        for entry in 0..512 {
            put(ram, directory + 8 * entry, &(gib << 30 | entry << 21 | LARGE | PRESENT_WRITE))?;
        }
    }
    Ok(())
}

#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../fuzz/bodies/linux_load.rs"]
pub(super) mod fuzzed;
#[cfg(test)]
mod tests;
