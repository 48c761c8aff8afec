//! Frame memory of one socket (UMEM), shared with the kernel: an anonymous file, so that the socket can be
//! opened and served by two processes.
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

/// Octets that the kernel reserves before each received frame (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: u32 = 256;
/// Octets of the largest chunk: a page.
pub(super) const LARGEST_CHUNK: u32 = 4096;
/// Octets of a huge page, which is used if the host has free ones.
const HUGE: u64 = 2 << 20;

/// Division of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Octets of a chunk: 2048 or 4096.
    pub(super) chunk: u32,
    /// Number of chunks in which a frame may lie; more than 1: only with XDP_USE_SG.
    pub(super) pieces: u32,
    /// Number of chunks for received frames.
    pub(super) receive: u32,
    /// Number of chunks for transmitted frames.
    pub(super) transmit: u32,
}

impl Layout {
    /// Returns the layout for frames of at most `frame` octets, and rings of this size.
    pub(super) fn new(frame: u32, ring: u32) -> Self {
        let chunk = if frame + HEADROOM <= 2048 { 2048 } else { LARGEST_CHUNK };
        Self { chunk, pieces: pieces(frame), receive: ring, transmit: ring }
    }

    /// Returns true if a frame may lie in several chunks.
    #[inline]
    pub(super) const fn is_in_pieces(&self) -> bool {
        self.pieces > 1
    }

    /// Returns the octets of the longest frame that can be received.
    pub(super) const fn longest(&self) -> u32 {
        self.pieces * (self.chunk - HEADROOM)
    }

    /// Returns the octets of all chunks.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.chunk) * (u64::from(self.receive) + u64::from(self.transmit))
    }

    /// Returns the chunk that contains an address, as the fill ring expects it.
    #[inline]
    pub(super) fn chunk_of(&self, address: u64) -> u64 {
        address & !u64::from(self.chunk - 1)
    }

    /// Returns the addresses of the receive chunks.
    pub(super) fn receive_chunks(&self) -> impl Iterator<Item = u64> {
        let chunk = u64::from(self.chunk);
        (0..u64::from(self.receive)).map(move |n| n * chunk)
    }

    /// Returns the addresses of the transmit chunks.
    pub(super) fn transmit_chunks(&self) -> impl Iterator<Item = u64> {
        let (chunk, first) = (u64::from(self.chunk), u64::from(self.receive));
        (0..u64::from(self.transmit)).map(move |n| (first + n) * chunk)
    }

    /// Returns true if this address, returned by the kernel, is in a transmit chunk.
    #[inline]
    pub(super) fn is_transmit(&self, address: u64) -> bool {
        let first = u64::from(self.receive) * u64::from(self.chunk);
        (first..self.len()).contains(&address)
    }
}

/// Returns the number of chunks in which a received frame of at most `frame` octets lies.
pub(super) const fn pieces(frame: u32) -> u32 {
    frame.div_ceil(LARGEST_CHUNK - HEADROOM)
}

/// Creates memory for this layout, in huge pages if the host grants them.
pub(super) fn create(layout: Layout) -> io::Result<OwnedFd> {
    let huge = layout.len().next_multiple_of(HUGE);
    file(MemfdFlags::HUGETLB, huge).or_else(|_| file(MemfdFlags::empty(), layout.len()))
}

fn file(flags: MemfdFlags, len: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(c"ringroad-xdp", flags | MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len)?;
    // Allocates the pages now, so that none is missing later.
    fallocate(&file, FallocateFlags::empty(), 0, len)?;
    Ok(file)
}

/// The memory, mapped into this process.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Mapping,
    pub(super) layout: Layout,
}

impl Umem {
    /// Maps the whole of what [`create`] made: huge pages can only be unmapped as a whole.
    pub(super) fn map(file: &OwnedFd, layout: Layout) -> io::Result<Self> {
        let octets = fstat(file)?.st_size as u64;
        if octets < layout.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = usize::try_from(octets).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { mapping: Mapping::new(file.as_fd(), 0, len)?, layout })
    }

    /// Returns its address in this process, by which the kernel finds the pages.
    pub(super) fn address(&self) -> u64 {
        self.mapping.base() as u64
    }

    /// Returns the octets `[address, address + len)`, if they are inside.
    #[inline]
    pub(super) fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'_>> {
        let end = address.checked_add(u64::from(len))?;
        if end > self.layout.len() {
            return None;
        }
        // SAFETY: the range is inside the mapping, which is at least as long as its chunks, lives as long as
        // `self`, and is only accessed by `Bytes`.
        Some(unsafe { Bytes::from_raw(self.mapping.base().add(address as usize), len) })
    }
}

#[cfg(test)]
mod tests;
