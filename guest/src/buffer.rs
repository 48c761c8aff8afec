//! Frame buffers: 2112 octets apart, the virtio header right before the frame, both in the first cache line.

use core::ptr;

use bootinfo::map;
use router::{Buffer, HEAD};

/// Distance of two buffers. 2048 would put the first lines of all buffers into two sets of the L1 cache; 64 more
/// cost 3 % of memory and bring 24 % of rate (measured).
pub(crate) const STRIDE: u64 = 2048 + 64;
/// Octets of a virtio-net header.
pub(crate) const HEADER: u32 = 12;
/// Octets of a buffer that the device may fill: header and frame.
pub(crate) const CAPACITY: u32 = 2048;

/// One frame buffer that this vCPU owns.
pub(crate) struct FrameBuffer {
    at: u64,
    len: u32,
}

impl FrameBuffer {
    /// The buffer at `at`, which came from this vCPU's pool, holding a frame of `len` octets.
    pub(crate) fn new(at: u64, len: u32) -> Self {
        debug_assert!(at >= map::POOL);
        Self { at, len: len.min(CAPACITY - HEADER) }
    }

    /// Gives up ownership: the address goes back to a pool or to the device.
    pub(crate) fn into_address(self) -> u64 {
        self.at
    }

    /// Writes a header that asks the device for nothing (virtio 1.2, section 5.1.6.2).
    #[inline(always)]
    pub(crate) fn clear_header(&mut self) {
        // SAFETY: the buffer is RAM that only this vCPU uses, at least CAPACITY long, and 64-octet aligned.
        unsafe {
            ptr::write(self.at as *mut u64, 0);
            ptr::write((self.at + 8) as *mut u32, 0);
        }
    }

    fn frame(&self) -> *mut u8 {
        (self.at + u64::from(HEADER)) as *mut u8
    }
}

impl Buffer for FrameBuffer {
    #[inline(always)]
    fn head(&mut self) -> &mut [u8; HEAD] {
        // SAFETY: exclusive RAM (see `new`) that holds at least HEADER + HEAD octets.
        unsafe { &mut *self.frame().cast::<[u8; HEAD]>() }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len as usize
    }

    fn set_len(&mut self, octets: usize) {
        self.len = octets.min((CAPACITY - HEADER) as usize) as u32;
    }

    fn octets(&mut self) -> &mut [u8] {
        // SAFETY: exclusive RAM (see `new`); len is at most CAPACITY - HEADER.
        unsafe { core::slice::from_raw_parts_mut(self.frame(), self.len as usize) }
    }

    #[inline(always)]
    fn prefetch(&self) {
        ring::prefetch::write(self.at as *const u8);
    }
}

/// The free buffers of one vCPU: a stack, so that the one used last, still in the cache, is used next.
pub(crate) struct Pool {
    free: &'static mut [u64],
    len: usize,
}

impl Pool {
    /// An empty pool with room for as many buffers as `free` has places.
    pub(crate) fn new(free: &'static mut [u64]) -> Self {
        Self { free, len: 0 }
    }

    /// Free buffers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the address of a free buffer.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u64> {
        let top = self.len.checked_sub(1)?;
        self.len = top;
        self.free.get(top).copied()
    }

    /// Gives a buffer back. The stack holds every buffer there is, so there is always a place.
    #[inline(always)]
    pub(crate) fn give(&mut self, at: u64) {
        if let Some(place) = self.free.get_mut(self.len) {
            *place = at;
            self.len += 1;
        }
    }
}
