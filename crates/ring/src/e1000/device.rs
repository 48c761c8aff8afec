//! The device's end of a ring. It trusts none of the driver's words, and reads each of them once.

use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::csb::RingWords;
use super::shared::Shared;
use super::{Broken, Csb, Descriptor, HeadTail, Layout, LayoutError};
use crate::Region;
use crate::split::notify;

/// A ring as its device sees it; `E` is the pointer by which the [`HeadTail`] are shared, such as an `Arc`.
///
/// 1. [`ready`](Self::ready) counts the waiting descriptors, [`descriptors`](Self::descriptors) reads them.
/// 2. [`take`](Self::take) moves on over those that are used; several takes may be outstanding.
/// 3. [`write_back`](Self::write_back) writes a descriptor's second word.
/// 4. [`release`](Self::release) and [`publish`](Self::publish) move the head over the oldest descriptors taken,
///    once a burst.
#[derive(Debug)]
pub struct DeviceRing<E: Deref<Target = HeadTail>> {
    shared: Shared,
    region: Region,
    ends: E,
    block: Option<RingWords>,
    /// Position of the next descriptor to take.
    next: u16,
    /// Descriptors from `next` on that the driver is known to have published.
    waiting: u16,
    /// Position of the first descriptor that is not yet released.
    done: u16,
    /// The head as the driver sees it.
    published: u16,
    broken: Option<Broken>,
}

impl<E: Deref<Target = HeadTail>> DeviceRing<E> {
    /// Creates the device's end of a transmit ring; it starts at the head of `ends`, with the driver's block if it has
    /// one.
    pub fn transmit(region: Region, layout: &Layout, ends: E, csb: Option<Csb>) -> Result<Self, LayoutError> {
        Self::new(region, layout, ends, csb.map(|csb| csb.transmit()))
    }

    /// Creates the device's end of a receive ring; arguments as for [`Self::transmit`].
    pub fn receive(region: Region, layout: &Layout, ends: E, csb: Option<Csb>) -> Result<Self, LayoutError> {
        Self::new(region, layout, ends, csb.map(|csb| csb.receive()))
    }

    fn new(region: Region, layout: &Layout, ends: E, block: Option<RingWords>) -> Result<Self, LayoutError> {
        let shared = Shared::map(&region, layout)?;
        let head = ends.head();
        if head >= shared.entries() {
            return Err(LayoutError::Head(head));
        }
        if let Some(block) = &block {
            block.head().store(head, Release);
        }
        let (next, done, published) = (head, head, head);
        Ok(Self { shared, region, ends, block, next, waiting: 0, done, published, broken: None })
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> u16 {
        self.shared.entries()
    }

    /// Returns the guest's memory, in which all buffers must lie.
    #[inline(always)]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Returns true if the driver uses a status block.
    #[inline(always)]
    pub const fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Returns the position of the next descriptor to take.
    #[inline(always)]
    pub const fn next(&self) -> u16 {
        self.next
    }

    /// Returns the reason why the ring stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Stops the ring: no descriptor waits any more. Descriptors already taken may still be written back.
    #[cold]
    pub fn fail(&mut self, reason: Broken) -> Broken {
        self.waiting = 0;
        *self.broken.get_or_insert(reason)
    }

    /// Counts the waiting descriptors; reads the driver's tail only if fewer than `wanted` are known.
    #[inline(always)]
    pub fn ready(&mut self, wanted: usize) -> Result<usize, Broken> {
        if usize::from(self.waiting) >= wanted {
            return Ok(usize::from(self.waiting));
        }
        self.look()
    }

    #[inline(always)]
    fn look(&mut self) -> Result<usize, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let tail = self.tail();
        if tail >= self.entries() {
            return Err(self.fail(Broken::Index));
        }
        let waiting = self.shared.distance(self.next, tail);
        // Descriptors that are not yet released still occupy their entries.
        let taken = self.shared.distance(self.done, self.next);
        if u32::from(waiting) + u32::from(taken) >= u32::from(self.entries()) {
            return Err(self.fail(Broken::Index));
        }
        self.waiting = waiting;
        Ok(usize::from(waiting))
    }

    /// Returns the driver's position as the driver claims it, unchecked.
    #[inline(always)]
    fn tail(&self) -> u16 {
        match &self.block {
            None => self.ends.tail(),
            Some(block) => {
                let tail = block.tail().load(Acquire);
                // Reads of the register must show this tail too.
                self.ends.set_tail(tail);
                tail
            }
        }
    }

    /// Reads the next `n` waiting descriptors, each once.
    #[inline(always)]
    pub fn descriptors(&self, n: usize) -> impl Iterator<Item = Descriptor> + use<E> {
        self.descriptors_from(0, n)
    }

    /// As [`Self::descriptors`], but skips the first `skip` waiting descriptors.
    #[inline(always)]
    pub fn descriptors_from(&self, skip: usize, n: usize) -> impl Iterator<Item = Descriptor> + use<E> {
        let skip = skip.min(usize::from(self.waiting));
        let (first, n) = (self.shared.after(self.next, skip as u16), n.min(usize::from(self.waiting) - skip));
        self.shared.descriptors(first, n)
    }

    /// Prefetches `n` descriptors for reading, from `skip` after the next one on.
    #[inline(always)]
    pub fn prefetch(&self, skip: usize, n: usize) {
        let entries = usize::from(self.entries());
        self.shared.prefetch(self.shared.after(self.next, skip.min(entries) as u16), n.min(entries) as u16);
    }

    /// Prefetches `n` descriptors for reading and writing, from `skip` after the next one on.
    #[inline(always)]
    pub fn prefetch_write(&self, skip: usize, n: usize) {
        let entries = usize::from(self.entries());
        self.shared
            .prefetch_write(self.shared.after(self.next, skip.min(entries) as u16), n.min(entries) as u16);
    }

    /// Takes the next `n` waiting descriptors: the device owns them until it releases them.
    #[inline(always)]
    pub fn take(&mut self, n: usize) {
        let n = n.min(usize::from(self.waiting)) as u16;
        self.waiting -= n;
        self.next = self.shared.after(self.next, n);
    }

    /// Writes the second word of the descriptor that is `n` (less than a ring) after `position`, after all earlier
    /// writes. In a ring without block, a word with DD immediately tells the driver that the descriptor is done.
    #[inline(always)]
    pub fn write_back(&mut self, position: u16, n: usize, rest: u64) {
        self.write_each_back(position, core::iter::once((n, rest)));
    }

    /// As [`Self::write_back`], for several words: each with its distance (less than a ring) after `position`.
    #[inline(always)]
    pub fn write_each_back(&mut self, position: u16, words: impl Iterator<Item = (usize, u64)>) {
        self.shared.set_rests(position, words);
    }

    /// Releases the `n` oldest descriptors that were taken and not yet released. The caller must publish before the
    /// driver has posted all of them again, because a head that moved by a whole ring looks like one that did not move.
    #[inline(always)]
    pub fn release(&mut self, n: usize) {
        let taken = self.shared.distance(self.done, self.next);
        self.done = self.shared.after(self.done, n.min(usize::from(taken)) as u16);
    }

    /// Publishes the head; returns true if the driver wants an interrupt. Without a block it always returns true: then
    /// the driver's interrupt mask decides.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.done);
        if old == new {
            return false;
        }
        self.published = new;
        self.ends.set_head(new);
        match &self.block {
            None => true,
            Some(block) => notify::publish(block.head(), &block.interrupt_suppression(), old, new),
        }
    }

    /// Asks for a kick when the next descriptor is published; returns true if one waits already, in which case the
    /// caller must not sleep. A broken ring yields no more descriptors, so it returns false.
    pub fn arm(&mut self) -> bool {
        let waiting = match &self.block {
            None => self.ends.tail() != self.next,
            Some(block) => notify::arm(block.tail(), &block.kick_suppression(), self.next),
        };
        waiting && self.broken.is_none()
    }

    /// Declines kicks, for a device that polls. Without a block, each write of the tail register is a kick all the
    /// same.
    pub fn disarm(&mut self) {
        if let Some(block) = &self.block {
            block.kick_suppression().disable(self.next);
        }
    }
}
