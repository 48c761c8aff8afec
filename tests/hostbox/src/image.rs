//! Extracts the kernel from a bzImage. Under software emulation most of a kernel's boot time is spent on decompressing itself,
//! and several times that under nested emulation; this host does it once.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;

/// Offsets in a bzImage (the kernel's `Documentation/arch/x86/boot.rst`): sectors of its set-up code, its magic word, and
/// offset (behind that code) and length of the compressed kernel.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
const PAYLOAD: (usize, usize) = (0x248, 0x24c);
const SECTOR: usize = 512;
/// Magic number of Debian's compression format.
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Octets behind the compressed kernel: its uncompressed length.
const TRAILER: usize = 4;

/// Offsets in the header of a 64-bit ELF file, and in that of a segment.
const SEGMENTS_AT: usize = 0x20;
const SECTIONS_AT: usize = 0x28;
const SEGMENT_COUNT: usize = 0x38;
const SECTION_COUNTS: usize = 0x3a;
const HEADER: usize = 0x40;
const SEGMENT: usize = 0x38;
const OFFSET: usize = 8;
const FILE_SIZE: usize = 0x20;
const ALIGNMENT: usize = 0x30;
/// Type of a segment with notes, which tell QEMU a kernel's entry point: notes have their own alignment, and none may be
/// missing.
const NOTE: u32 = 4;
/// Alignment of other segments: pages, instead of the larger pages that a kernel declares.
const PAGE: usize = 4096;

/// Extracts the kernel from a bzImage into an ELF file, without the debugging information.
///
/// # Errors
/// It is not a bzImage, is not compressed like Debian's, or there is no `xz`.
pub(crate) fn unpack(image: &Path, to: &Path) -> Result<()> {
    let image = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let packed = packed(&image).context("a kernel that is not packed as Debian does it")?;
    let file = to.with_extension("xz");
    fs::write(&file, packed).with_context(|| format!("cannot write {}", file.display()))?;
    let unpacked = Command::new("xz").args(["-dc", "--single-stream"]).arg(&file).output();
    fs::remove_file(&file)?;
    let unpacked = unpacked.context("cannot start `xz`")?;
    ensure!(unpacked.status.success(), "`xz` failed: {}", programs::last_line(&unpacked.stderr));
    let lean = lean(&unpacked.stdout).context("what is packed is no ELF file")?;
    fs::write(to, lean).with_context(|| format!("cannot write {}", to.display()))
}

/// Returns the compressed kernel.
fn packed(image: &[u8]) -> Option<&[u8]> {
    let (at, magic) = MAGIC;
    let payload = (word(image, PAYLOAD.0)? as usize, word(image, PAYLOAD.1)? as usize);
    let from = (usize::from(*image.get(SETUP_SECTORS)?) + 1) * SECTOR + payload.0;
    let packed = image.get(from..from + payload.1.checked_sub(TRAILER)?)?;
    (image.get(at..)?.starts_with(magic) && packed.starts_with(XZ)).then_some(packed)
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

fn double(octets: &[u8], at: usize) -> Option<usize> {
    Some(u64::from_le_bytes(octets.get(at..at + 8)?.try_into().ok()?) as usize)
}

/// Returns an ELF file with nothing but its segments, which end before their trailing zeros.
fn lean(elf: &[u8]) -> Option<Vec<u8>> {
    let table = double(elf, SEGMENTS_AT)?;
    let count = usize::from(u16::from_le_bytes(elf.get(SEGMENT_COUNT..SEGMENT_COUNT + 2)?.try_into().ok()?));
    let mut lean = elf.starts_with(b"\x7fELF").then(|| elf.get(..HEADER))??.to_vec();
    put(&mut lean, SEGMENTS_AT, HEADER);
    put(&mut lean, SECTIONS_AT, 0);
    // Number of sections, and index of the section with their names.
    lean.get_mut(SECTION_COUNTS + 2..SECTION_COUNTS + 6)?.fill(0);
    let segments: Vec<_> =
        (0..count).map(|n| elf.get(table + n * SEGMENT..)?.get(..SEGMENT)).collect::<Option<_>>()?;
    segments.iter().for_each(|segment| lean.extend_from_slice(segment));
    for (number, segment) in segments.iter().enumerate() {
        let (offset, size) = (double(segment, OFFSET)?, double(segment, FILE_SIZE)?);
        let octets = elf.get(offset..offset + size)?;
        let is_note = word(segment, 0)? == NOTE;
        let last = octets.iter().rposition(|octet| *octet != 0);
        let used = if is_note { size } else { last.map_or(0, |last| last + 1) };
        lean.resize(lean.len().next_multiple_of(PAGE), 0);
        let (here, head) = (lean.len(), HEADER + number * SEGMENT);
        lean.extend_from_slice(&octets[..used]);
        put(&mut lean, head + OFFSET, here);
        put(&mut lean, head + FILE_SIZE, used);
        if !is_note {
            put(&mut lean, head + ALIGNMENT, PAGE);
        }
    }
    Some(lean)
}

fn put(octets: &mut [u8], at: usize, value: usize) {
    if let Some(place) = octets.get_mut(at..at + 8) {
        place.copy_from_slice(&(value as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
