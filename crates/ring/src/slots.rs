//! Frame slots of our own: one allocation, cut into equal pieces that many threads may fill at the same time.

extern crate alloc;

use alloc::boxed::Box;
use core::cell::UnsafeCell;

use crate::Bytes;

/// Size of a cache line in octets.
const LINE: usize = 64;

/// Unit of the allocation. Aligned to a word only: for that alignment the allocator hands out untouched zero pages, but
/// it clears memory itself if it must be aligned to a cache line.
type Word = UnsafeCell<u64>;

/// Equal pieces of memory, each starting on a cache line.
///
/// Their distance is one line more than their length: at a distance of exactly 2048 octets the first lines of all slots
/// would share two sets of the first-level cache and evict each other.
pub struct Slots {
    words: Box<[Word]>,
    /// Octets before the first slot, which begins on a cache line.
    start: usize,
    count: usize,
    octets: usize,
}

// SAFETY: the memory is reached only through `Bytes`, whose accesses are copies that may tear but stay in bounds.
unsafe impl Sync for Slots {}

impl Slots {
    /// Allocates `count` zeroed slots of `octets` octets each (rounded up to whole cache lines).
    pub fn new(count: usize, octets: usize) -> Self {
        let octets = octets.next_multiple_of(LINE);
        let words = Box::new_zeroed_slice((count * (octets + LINE) + LINE) / size_of::<Word>());
        // The allocator zeroes lazily, so that slots which no frame ever reaches take no physical memory.
        // SAFETY: all zeros is a value of `Word`.
        let words: Box<[Word]> = unsafe { words.assume_init() };
        let start = words.as_ptr().addr().next_multiple_of(LINE) - words.as_ptr().addr();
        Self { words, start, count, octets }
    }

    /// Returns the number of slots.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the size of a slot in octets.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Returns the first `len` octets of slot `index`; `None` if there is no such slot or it is shorter.
    #[inline(always)]
    pub fn get(&self, index: usize, len: usize) -> Option<Bytes<'_>> {
        if index >= self.count || len > self.octets {
            return None;
        }
        let offset = self.start + index * (self.octets + LINE);
        // SAFETY: offset + len lies in the allocation, because index < count, len <= octets and start < LINE; the
        // pointer comes from the whole box and the words are `UnsafeCell`s, so it may be written; the box outlives
        // `'_`, and no reference to its content is ever made.
        Some(unsafe { Bytes::from_raw(self.words.as_ptr().cast::<u8>().cast_mut().add(offset), len as u32) })
    }
}

#[cfg(test)]
mod tests;
