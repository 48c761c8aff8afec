//! The memory in which the frames of one socket lie, shared with the kernel: a file without a name, so that who opens the
//! socket and who serves it can be two processes.
//!
//! ```text
//!   | receive chunks ...                     | transmit chunks ...                    |
//!     each: 256 octets for XDP programs, frame   each: frame
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ring::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, ftruncate, memfd_create};

use super::rings::Mapping;

/// Octets that the kernel leaves free before each frame that it receives (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: u32 = 256;
/// Octets of a huge page, if the host has some to give.
const HUGE: u64 = 2 << 20;

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Octets of a chunk: 2048 or 4096.
    pub(super) chunk: u32,
    /// Chunks for frames that come.
    pub(super) receive: u32,
    /// Chunks for frames that go.
    pub(super) transmit: u32,
}

impl Layout {
    /// For frames of at most `frame` octets, and as many as fit into rings of this size.
    pub(super) fn new(frame: u32, ring: u32) -> Self {
        let chunk = if frame + HEADROOM <= 2048 { 2048 } else { 4096 };
        Self { chunk, receive: ring, transmit: ring }
    }

    /// Octets of all chunks.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.chunk) * (u64::from(self.receive) + u64::from(self.transmit))
    }

    /// The chunk that an address lies in, as the fill ring wants it.
    #[inline]
    pub(super) fn chunk_of(&self, address: u64) -> u64 {
        address & !u64::from(self.chunk - 1)
    }

    /// Addresses of the chunks for frames that come.
    pub(super) fn receive_chunks(&self) -> impl Iterator<Item = u64> {
        let chunk = u64::from(self.chunk);
        (0..u64::from(self.receive)).map(move |n| n * chunk)
    }

    /// Addresses of the chunks for frames that go.
    pub(super) fn transmit_chunks(&self) -> impl Iterator<Item = u64> {
        let (chunk, first) = (u64::from(self.chunk), u64::from(self.receive));
        (0..u64::from(self.transmit)).map(move |n| (first + n) * chunk)
    }

    /// Whether frames that go may lie at this address, which the kernel gave back.
    #[inline]
    pub(super) fn is_transmit(&self, address: u64) -> bool {
        let first = u64::from(self.receive) * u64::from(self.chunk);
        (first..self.len()).contains(&address)
    }
}

/// New memory for this layout, of huge pages if the host grants them.
pub(super) fn create(layout: Layout) -> io::Result<OwnedFd> {
    let huge = layout.len().next_multiple_of(HUGE);
    file(MemfdFlags::HUGETLB, huge).or_else(|_| file(MemfdFlags::empty(), layout.len()))
}

fn file(flags: MemfdFlags, len: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(c"ringroad-xdp", flags | MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len)?;
    // Takes the pages now, so that none is missing later.
    fallocate(&file, FallocateFlags::empty(), 0, len)?;
    Ok(file)
}

/// The memory, mapped here.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Mapping,
    pub(super) layout: Layout,
}

impl Umem {
    /// Maps what [`create`] made, as a whole: of huge pages the kernel gives back none but whole ones.
    pub(super) fn map(file: &OwnedFd, layout: Layout) -> io::Result<Self> {
        let octets = fstat(file)?.st_size as u64;
        if octets < layout.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = usize::try_from(octets).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { mapping: Mapping::new(file.as_fd(), 0, len)?, layout })
    }

    /// Its first octet here, for the kernel to find the pages.
    pub(super) fn address(&self) -> u64 {
        self.mapping.base() as u64
    }

    /// The octets `[address, address + len)`, if they lie inside.
    #[inline]
    pub(super) fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'_>> {
        let end = address.checked_add(u64::from(len))?;
        if end > self.layout.len() {
            return None;
        }
        // SAFETY: the range lies in the mapping, which is no shorter than its chunks, which lives as long as `self` and which nothing refers to but by `Bytes`.
        Some(unsafe { Bytes::from_raw(self.mapping.base().add(address as usize), len) })
    }
}

#[cfg(test)]
mod tests;
