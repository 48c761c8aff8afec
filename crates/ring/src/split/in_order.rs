//! The driver's end of an IN_ORDER queue of single buffers or indirect tables: the fastest kind of split ring.
//!
//! Benefits of IN_ORDER: entry `i` of every ring is descriptor `i`, so the available ring is written only once, at the
//! start; the tokens lie in order in a private array, so the buffers of the next burst are known and can be prefetched
//! before the device's words are read; and buffers that the device only read are taken back by its index alone. In a
//! model of the whole path this gains a large part of the rate over the general [`Driver`](super::Driver), whether the
//! two cores are near each other or far.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use super::driver::{DriverQueue, Indices, indirect};
use super::shared::{Descriptor, Shared, WRITE};
use super::{Broken, Features, Layout, LayoutError};
use crate::Region;

/// An IN_ORDER queue whose chains are single descriptors. The caller provides the private storage: one place for a
/// token for each entry.
#[derive(Debug)]
pub struct InOrderDriver<'a, T: Copy> {
    shared: Shared,
    /// Exactly `shared.size()` places. Those from `last` up to (not including) `next` are initialized.
    tokens: &'a mut [MaybeUninit<T>],
    indirect: bool,
    indices: Indices,
}

impl<'a, T: Copy> InOrderDriver<'a, T> {
    /// Creates a queue whose shared memory is zero. `features.in_order` must be true.
    pub fn new(
        region: Region,
        layout: &Layout,
        features: Features,
        tokens: &'a mut [MaybeUninit<T>],
    ) -> Result<Self, LayoutError> {
        Self::starting_at(region, layout, features, tokens, 0)
    }

    /// As [`Self::new`], with both indices at `index`.
    pub fn starting_at(
        region: Region,
        layout: &Layout,
        features: Features,
        tokens: &'a mut [MaybeUninit<T>],
        index: u16,
    ) -> Result<Self, LayoutError> {
        let shared = Shared::map(&region.into(), layout, features)?;
        if tokens.len() != usize::from(shared.size()) {
            return Err(LayoutError::Storage(tokens.len()));
        }
        if !features.in_order {
            return Err(LayoutError::Features);
        }
        for entry in 0..shared.size() {
            shared.available_entry(entry).store(entry, Relaxed);
        }
        Ok(Self { shared, tokens, indirect: features.indirect, indices: Indices::starting_at(index) })
    }

    #[inline(always)]
    fn push_one(&mut self, token: T, descriptor: Descriptor) -> bool {
        if self.free() == 0 {
            return false;
        }
        let entry = self.indices.next;
        self.shared.set_descriptor(entry, descriptor);
        // SAFETY: `new` checked that there are mask + 1 places.
        let place = unsafe { self.tokens.get_unchecked_mut(usize::from(entry & self.shared.mask())) };
        *place = MaybeUninit::new(token);
        self.indices.next = entry.wrapping_add(1);
        true
    }

    /// Returns the token of an entry from `last` up to `seen`.
    #[inline(always)]
    fn token(&self, entry: u16) -> T {
        // SAFETY: `new` checked that there are mask + 1 places; `Indices` keeps last <= seen <= published <= next, and
        // `push` initialized the places from `last` up to `next`.
        unsafe { self.tokens.get_unchecked(usize::from(entry & self.shared.mask())).assume_init() }
    }
}

impl<T: Copy> DriverQueue<T> for InOrderDriver<'_, T> {
    fn size(&self) -> u16 {
        self.shared.size()
    }

    #[inline(always)]
    fn free(&self) -> usize {
        usize::from(self.shared.size() - self.indices.next.wrapping_sub(self.indices.last))
    }

    #[inline(always)]
    fn push(&mut self, token: T, address: u64, len: u32, writable: bool) -> bool {
        let flags = if writable { WRITE } else { 0 };
        self.push_one(token, Descriptor { address, len, flags, next: 0 })
    }

    fn push_table(&mut self, token: T, table: u64, entries: u16) -> bool {
        let fits = self.indirect && (1..=self.shared.size()).contains(&entries);
        fits && self.push_one(token, indirect(table, entries))
    }

    #[inline(always)]
    fn publish(&mut self) -> bool {
        self.indices.publish(&self.shared)
    }

    #[inline(always)]
    fn used_ready(&mut self, wanted: usize) -> usize {
        self.indices.used_ready(self.shared.used_index(), wanted)
    }

    /// Requires a used entry for each buffer: a device that returns writable buffers by one entry for a batch does not
    /// say how much it wrote to each, so it stops the queue.
    #[inline(always)]
    fn pop(&mut self, max: usize, mut take: impl FnMut(T, u32)) -> Result<usize, Broken> {
        let count = self.used_ready(max).min(max);
        let first = self.indices.last;
        for popped in 0..count {
            let entry = first.wrapping_add(popped as u16);
            let (id, written) = self.shared.used_entry(entry);
            if id != u32::from(entry & self.shared.mask()) {
                self.indices.fail(Broken::Order);
                return self.indices.outcome(popped);
            }
            let token = self.token(entry);
            self.indices.last = entry.wrapping_add(1);
            take(token, written);
        }
        self.indices.outcome(count)
    }

    /// Reads no used entry: in order, the index is sufficient.
    #[inline(always)]
    fn reclaim(&mut self, max: usize, mut take: impl FnMut(T)) -> Result<usize, Broken> {
        let count = self.used_ready(max).min(max);
        for _ in 0..count {
            let token = self.token(self.indices.last);
            self.indices.last = self.indices.last.wrapping_add(1);
            take(token);
        }
        self.indices.outcome(count)
    }

    #[inline(always)]
    fn prefetch_next(&self, max: usize, mut hint: impl FnMut(T)) {
        let known = usize::from(self.indices.seen.wrapping_sub(self.indices.last)).min(max) as u16;
        self.shared.prefetch_used(self.indices.last, known);
        for entry in 0..known {
            hint(self.token(self.indices.last.wrapping_add(entry)));
        }
    }

    #[inline(always)]
    fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_descriptors_write(self.indices.next, n.min(self.free()) as u16);
    }

    fn arm(&mut self) -> bool {
        self.indices.arm(&self.shared)
    }

    fn arm_delayed(&mut self) -> bool {
        self.indices.arm_delayed(&self.shared)
    }

    fn disarm(&mut self) {
        self.indices.disarm(&self.shared);
    }

    fn broken(&self) -> Option<Broken> {
        self.indices.broken
    }
}
