//! The memory of one descriptor ring: every access to it is in this file.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::{Descriptor, Layout, LayoutError, after};
use crate::{Region, prefetch};

/// A mapped ring. All accesses are atomic, so that the other party may change this memory in any way at any time.
/// Callers keep positions below the number of entries; a larger position counts as 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    descriptors: NonNull<u64>,
    entries: u16,
}

// SAFETY: `Shared` is an address of memory that outlives it (`Region::new`); all access is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps a ring after checking its length, alignment and bounds.
    pub(super) fn map(region: &Region, layout: &Layout) -> Result<Self, LayoutError> {
        let octets = u32::from(layout.entries) * super::DESCRIPTOR;
        let layout = Layout::new(layout.base, octets)?;
        let descriptors = area(region, layout.base, u64::from(octets), u64::from(super::DESCRIPTOR))?.cast();
        Ok(Self { descriptors, entries: layout.entries })
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(super) const fn entries(&self) -> u16 {
        self.entries
    }

    /// Writes a descriptor.
    #[inline(always)]
    pub(super) fn set_descriptor(&self, position: u16, descriptor: Descriptor) {
        let [address, rest] = self.words(position);
        address.store(descriptor.address, Relaxed);
        rest.store(descriptor.rest, Relaxed);
    }

    /// Reads the second word only; writes made before it was stored are visible afterwards (acquire).
    #[inline(always)]
    pub(super) fn rest(&self, position: u16) -> u64 {
        #[cfg(any(test, fuzzing))]
        crate::concurrent_stores::before_read();
        self.words(position)[1].load(Acquire)
    }

    /// Writes second words only, each at a distance from a position, after all earlier writes (release). Ignores those
    /// that are more than a ring away.
    #[inline(always)]
    pub(super) fn set_rests(&self, from: u16, rests: impl Iterator<Item = (usize, u64)>) {
        let (entries, from) = (usize::from(self.entries), usize::from(from));
        for (n, rest) in rests {
            let sum = from.saturating_add(n);
            let at = if sum < entries { sum } else { sum - entries };
            if at < entries {
                // SAFETY: by the check before.
                unsafe { self.words_at(at)[1].store(rest, Release) };
            }
        }
    }

    #[inline(always)]
    fn words(&self, position: u16) -> [&AtomicU64; 2] {
        let at = if position < self.entries { usize::from(position) } else { 0 };
        // SAFETY: `at` is less than the number of entries.
        unsafe { self.words_at(at) }
    }

    /// # Safety
    /// `at` must be less than the number of entries.
    #[inline(always)]
    unsafe fn words_at(&self, at: usize) -> [&AtomicU64; 2] {
        // SAFETY: `map` checked that 16 * entries octets are mapped, aligned to 16; 2 * at + 1 < 2 * entries.
        unsafe { [0, 1].map(|word| AtomicU64::from_ptr(self.descriptors.as_ptr().add(2 * at + word))) }
    }

    /// Returns the `n` positions (at most a ring) from `from` on, in two ranges: up to the end of the ring, and from
    /// its start. All positions are less than the number of entries.
    #[inline(always)]
    pub(super) fn runs(self, from: u16, n: usize) -> [Range<u16>; 2] {
        let from = from.min(self.entries);
        let n = n.min(usize::from(self.entries)) as u16;
        let first = n.min(self.entries - from);
        [from..from + first, 0..n - first]
    }

    /// Reads the `n` descriptors (at most a ring) from a position on, each word once.
    #[inline(always)]
    pub(super) fn descriptors(self, from: u16, n: usize) -> impl Iterator<Item = Descriptor> {
        let (entries, from) = (usize::from(self.entries), usize::from(from));
        let n = if from < entries { n.min(entries) } else { 0 };
        (0..n).map(move |i| {
            // Each place is computed from the first one instead of the one before: a chain of dependent additions would
            // take longer than all the rest of the loop.
            let at = if from + i < entries { from + i } else { from + i - entries };
            // SAFETY: from < entries and i < n <= entries, so from + i is less than twice that.
            let words = unsafe { self.words_at(at) };
            let [address, rest] = words.map(|word| {
                #[cfg(any(test, fuzzing))]
                crate::concurrent_stores::before_read();
                word.load(Relaxed)
            });
            Descriptor { address, rest }
        })
    }

    /// Prefetches the `n` (at most a ring) descriptors from `position` on for reading.
    #[inline(always)]
    pub(super) fn prefetch(&self, position: u16, n: u16) {
        self.each_line(position, n, prefetch::read);
    }

    /// Prefetches the `n` (at most a ring) descriptors from `position` on for writing.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, position: u16, n: u16) {
        self.each_line(position, n, prefetch::write);
    }

    /// Calls `hint` for each cache line of the `n` descriptors from `position` on; stops at the end of the ring.
    #[inline(always)]
    fn each_line(&self, position: u16, n: u16, mut hint: impl FnMut(*const u64)) {
        let to = (u32::from(position) + u32::from(n)).min(u32::from(self.entries)) as usize;
        let mut at = usize::from(position);
        while at < to {
            hint(self.descriptors.as_ptr().wrapping_add(2 * at));
            at += 4;
        }
    }

    /// Returns the position `n` after another one.
    #[inline(always)]
    pub(super) const fn after(&self, position: u16, n: u16) -> u16 {
        after(position, n, self.entries)
    }

    /// Returns the distance from one position to another.
    #[inline(always)]
    pub(super) const fn distance(&self, from: u16, to: u16) -> u16 {
        super::distance(from, to, self.entries)
    }
}

/// Translates an area's guest-physical address to an address in this process, after checking bounds and alignment.
pub(super) fn area(region: &Region, at: u64, octets: u64, align: u64) -> Result<NonNull<u8>, LayoutError> {
    if !at.is_multiple_of(align) {
        return Err(LayoutError::Alignment(at));
    }
    let here = region.translate(at, octets).ok_or(LayoutError::Outside(at))?;
    if !(here as u64).is_multiple_of(align) {
        return Err(LayoutError::Alignment(at));
    }
    NonNull::new(here).ok_or(LayoutError::Outside(at))
}
