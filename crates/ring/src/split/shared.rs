//! The shared memory of one queue: every access to it is in this file.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::notify::Suppression;
use super::{Features, Layout, LayoutError, MAX_SIZE};
use crate::{Regions, prefetch};

/// The chain continues at `next`.
pub(super) const NEXT: u16 = 1;
/// The device writes the buffer; otherwise it reads it.
pub(super) const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub(super) const INDIRECT: u16 = 4;

/// A private copy of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

impl Descriptor {
    /// Decodes its two little-endian words.
    #[inline(always)]
    pub(super) const fn from_words(address: u64, rest: u64) -> Self {
        Self { address, len: rest as u32, flags: (rest >> 32) as u16, next: (rest >> 48) as u16 }
    }

    /// Encodes its second word.
    #[inline(always)]
    pub(super) const fn rest(self) -> u64 {
        self.len as u64 | (self.flags as u64) << 32 | (self.next as u64) << 48
    }
}

/// The three areas of a queue, mapped. All accesses are atomic (relaxed unless a name says otherwise), so that the
/// other party may change this memory in any way at any time. Entry numbers are taken modulo the size of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    descriptors: NonNull<u64>,
    available: NonNull<u16>,
    used: NonNull<u16>,
    mask: u16,
    event_idx: bool,
}

// SAFETY: `Shared` is a set of addresses of memory that outlives it (`Region::new`); all access is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps a queue after checking size, alignment and bounds.
    pub(super) fn map(memory: &Regions, layout: &Layout, features: Features) -> Result<Self, LayoutError> {
        let size = layout.size;
        if !size.is_power_of_two() || size > MAX_SIZE {
            return Err(LayoutError::Size(size));
        }
        let event = if features.event_idx { 2 } else { 0 };
        let entries = u64::from(size);
        Ok(Self {
            descriptors: area(memory, layout.descriptors, 16 * entries, 16)?.cast(),
            available: area(memory, layout.available, 4 + 2 * entries + event, 2)?.cast(),
            used: area(memory, layout.used, 4 + 8 * entries + event, 4)?.cast(),
            mask: size - 1,
            event_idx: features.event_idx,
        })
    }

    /// Returns the size minus 1.
    #[inline(always)]
    pub(super) const fn mask(&self) -> u16 {
        self.mask
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(super) const fn size(&self) -> u16 {
        self.mask + 1
    }

    /// Reads a descriptor, each of its words once.
    #[inline(always)]
    pub(super) fn descriptor(&self, entry: u16) -> Descriptor {
        #[cfg(test)]
        super::tests::count_read();
        let [address, rest] = self.descriptor_words(entry);
        let [address, rest] = [address, rest].map(|word| {
            #[cfg(any(test, fuzzing))]
            crate::concurrent_stores::before_read();
            word.load(Relaxed)
        });
        Descriptor::from_words(address, rest)
    }

    /// Writes a descriptor.
    #[inline(always)]
    pub(super) fn set_descriptor(&self, entry: u16, descriptor: Descriptor) {
        let [address, rest] = self.descriptor_words(entry);
        address.store(descriptor.address, Relaxed);
        rest.store(descriptor.rest(), Relaxed);
    }

    #[inline(always)]
    fn descriptor_words(&self, entry: u16) -> [&AtomicU64; 2] {
        let at = 2 * usize::from(entry & self.mask);
        // SAFETY: `map` checked that 16 * size octets are mapped, aligned to 16; at + 1 < 2 * size.
        unsafe { [0, 1].map(|word| AtomicU64::from_ptr(self.descriptors.as_ptr().add(at + word))) }
    }

    /// Returns an entry of the available ring.
    #[inline(always)]
    pub(super) fn available_entry(&self, entry: u16) -> &AtomicU16 {
        self.available_word(2 + usize::from(entry & self.mask))
    }

    /// Returns the available index: how many chains the driver has ever made available.
    #[inline(always)]
    pub(super) fn available_index(&self) -> &AtomicU16 {
        self.available_word(1)
    }

    /// Returns the driver's interrupt suppression word.
    #[inline(always)]
    pub(super) fn interrupt_suppression(&self) -> Suppression<'_, AtomicU16> {
        if self.event_idx {
            Suppression::Event(self.available_word(2 + usize::from(self.size())))
        } else {
            Suppression::Flag(self.available_word(0))
        }
    }

    #[inline(always)]
    fn available_word(&self, word: usize) -> &AtomicU16 {
        #[cfg(any(test, fuzzing))]
        crate::concurrent_stores::before_read();
        // SAFETY: `map` checked that 2 + size words (3 + size with events) are mapped and aligned; callers pass 0, 1,
        // 2 + (masked entry), or 2 + size where `event_idx` is set.
        unsafe { AtomicU16::from_ptr(self.available.as_ptr().add(word)) }
    }

    /// Reads the id and the length of a used entry.
    #[inline(always)]
    pub(super) fn used_entry(&self, entry: u16) -> (u32, u32) {
        let [id, len] = self.used_words(entry);
        (id.load(Relaxed), len.load(Relaxed))
    }

    /// Writes a used entry.
    #[inline(always)]
    pub(super) fn set_used_entry(&self, entry: u16, id: u16, written: u32) {
        let [word, len] = self.used_words(entry);
        word.store(u32::from(id), Relaxed);
        len.store(written, Relaxed);
    }

    #[inline(always)]
    fn used_words(&self, entry: u16) -> [&AtomicU32; 2] {
        let at = 1 + 2 * usize::from(entry & self.mask);
        // SAFETY: `map` checked that 4 + 8 * size octets are mapped, aligned to 4; at + 1 <= 2 * size.
        unsafe { [0, 1].map(|word| AtomicU32::from_ptr(self.used.as_ptr().cast::<u32>().add(at + word))) }
    }

    /// Returns the used index: how many chains the device has ever returned.
    #[inline(always)]
    pub(super) fn used_index(&self) -> &AtomicU16 {
        self.used_word(1)
    }

    /// Returns the device's kick suppression word.
    #[inline(always)]
    pub(super) fn kick_suppression(&self) -> Suppression<'_, AtomicU16> {
        if self.event_idx {
            Suppression::Event(self.used_word(2 + 4 * usize::from(self.size())))
        } else {
            Suppression::Flag(self.used_word(0))
        }
    }

    #[inline(always)]
    fn used_word(&self, word: usize) -> &AtomicU16 {
        // SAFETY: `map` checked that 2 + 4 * size words (one more with events) are mapped and aligned; callers pass
        // 0, 1, or 2 + 4 * size where `event_idx` is set.
        unsafe { AtomicU16::from_ptr(self.used.as_ptr().add(word)) }
    }

    /// Prefetches the `n` descriptors from `entry` on for reading.
    #[inline(always)]
    pub(super) fn prefetch_descriptors(&self, entry: u16, n: u16) {
        self.each_line(entry, n, 16, |at| prefetch::read(self.descriptors.as_ptr().wrapping_byte_add(at)));
    }

    /// Prefetches the `n` descriptors from `entry` on for writing.
    #[inline(always)]
    pub(super) fn prefetch_descriptors_write(&self, entry: u16, n: u16) {
        self.each_line(entry, n, 16, |at| prefetch::write(self.descriptors.as_ptr().wrapping_byte_add(at)));
    }

    /// Prefetches the `n` available entries from `entry` on for writing.
    #[inline(always)]
    pub(super) fn prefetch_available_write(&self, entry: u16, n: u16) {
        self.each_line(entry, n, 2, |at| prefetch::write(self.available.as_ptr().wrapping_byte_add(4 + at)));
    }

    /// Prefetches the `n` used entries from `entry` on for reading.
    #[inline(always)]
    pub(super) fn prefetch_used(&self, entry: u16, n: u16) {
        self.each_line(entry, n, 8, |at| prefetch::read(self.used.as_ptr().wrapping_byte_add(4 + at)));
    }

    /// Prefetches the `n` used entries from `entry` on for writing.
    #[inline(always)]
    pub(super) fn prefetch_used_write(&self, entry: u16, n: u16) {
        self.each_line(entry, n, 8, |at| prefetch::write(self.used.as_ptr().wrapping_byte_add(4 + at)));
    }

    /// Calls `hint` with the offset of each cache line of the `n` entries of `octets` from `entry` on; stops at the end
    /// of the ring.
    #[inline(always)]
    fn each_line(&self, entry: u16, n: u16, octets: usize, mut hint: impl FnMut(usize)) {
        let from = usize::from(entry & self.mask);
        let to = (from + usize::from(n)).min(usize::from(self.mask) + 1);
        let mut at = from * octets;
        while at < to * octets {
            hint(at);
            at += 64;
        }
    }
}

/// Translates an area's guest-physical address to an address in this process, after checking bounds and alignment.
fn area(memory: &Regions, at: u64, octets: u64, align: u64) -> Result<NonNull<u8>, LayoutError> {
    if !at.is_multiple_of(align) {
        return Err(LayoutError::Alignment(at));
    }
    let range = memory.find(at, octets).ok_or(LayoutError::Outside(at))?;
    let here = range.translate(at, octets).ok_or(LayoutError::Outside(at))?;
    if !(here as u64).is_multiple_of(align) {
        return Err(LayoutError::Alignment(at));
    }
    NonNull::new(here).ok_or(LayoutError::Outside(at))
}
