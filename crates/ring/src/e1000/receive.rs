//! The driver's end of a receive ring.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Acquire;

use super::csb::Words;
use super::shared::Shared;
use super::{Broken, Csb, Descriptor, Layout, LayoutError, Received, rx};
use crate::Region;
use crate::split::notify;

/// A receive ring as its driver sees it. A token is what the driver wants to know of a buffer when it comes back. The
/// private storage is the caller's: one place for a token for each entry.
///
/// With a [block](Csb) buffers come back up to the head that is there; without, those whose descriptor has DD.
#[derive(Debug)]
pub struct RxDriver<'a, T: Copy> {
    shared: Shared,
    block: Option<Words>,
    /// Exactly `shared.entries()` places; those from `first` up to (not including) `next` are set.
    tokens: &'a mut [MaybeUninit<T>],
    /// Position of the next descriptor to write.
    next: u16,
    /// The tail as the device sees it.
    published: u16,
    /// Position of the first buffer that has not come back.
    first: u16,
    /// The head as it was read last.
    seen: u16,
    broken: Option<Broken>,
}

impl<'a, T: Copy> RxDriver<'a, T> {
    /// A ring that starts at position 0. A block must have been cleared.
    pub fn new(
        region: Region,
        layout: &Layout,
        csb: Option<Csb>,
        tokens: &'a mut [MaybeUninit<T>],
    ) -> Result<Self, LayoutError> {
        let shared = Shared::map(&region, layout)?;
        if tokens.len() != usize::from(shared.entries()) {
            return Err(LayoutError::Storage(tokens.len()));
        }
        let block = csb.map(|csb| csb.receive());
        Ok(Self { shared, block, tokens, next: 0, published: 0, first: 0, seen: 0, broken: None })
    }

    /// Entries.
    pub const fn entries(&self) -> u16 {
        self.shared.entries()
    }

    /// How many buffers can be posted now.
    #[inline(always)]
    pub const fn free(&self) -> usize {
        (self.shared.entries() - 1 - self.shared.distance(self.first, self.next)) as usize
    }

    /// Posts the buffer at a guest-physical address, which has the size that RCTL says; false if the ring is full. The
    /// device sees it after [`Self::publish`].
    #[inline(always)]
    pub fn push(&mut self, token: T, address: u64) -> bool {
        if self.free() == 0 {
            return false;
        }
        self.shared.set_descriptor(self.next, Descriptor::buffer(address));
        if let Some(place) = self.tokens.get_mut(usize::from(self.next)) {
            *place = MaybeUninit::new(token);
        }
        self.next = self.shared.after(self.next, 1);
        true
    }

    /// Shows the device what was posted, once a lot; true if it wants a kick, which is [`Self::tail`] written to RDT.
    /// Without a block it always does.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.next);
        if old == new {
            return false;
        }
        self.published = new;
        match &self.block {
            None => true,
            Some(block) => notify::publish(block.tail(), &block.kick_wish(), old, new),
        }
    }

    /// What a kick writes to RDT.
    #[inline(always)]
    pub const fn tail(&self) -> u32 {
        self.published as u32
    }

    /// Takes up to `max` buffers back, each with what the device wrote about it. A frame that is longer than a buffer
    /// fills several, the last of which has [`rx::EOP`]. Without a block the buffers of a frame that is not yet
    /// complete may come back before its last one does.
    #[inline(always)]
    pub fn pop(&mut self, max: usize, mut take: impl FnMut(T, Received)) -> Result<usize, Broken> {
        let count = self.used_ready(max)?.min(max);
        for popped in 0..count {
            let received = Received::from_rest(self.shared.rest(self.first));
            if self.block.is_none() && received.status & rx::DD == 0 {
                return Ok(popped);
            }
            let token = self.token(self.first);
            self.first = self.shared.after(self.first, 1);
            take(token, received);
        }
        Ok(count)
    }

    /// How many buffers may have come back: with a block those that have, as far as is known, and the device's head is
    /// read only when they are fewer than `wanted`. Without, all that the device has.
    #[inline(always)]
    fn used_ready(&mut self, wanted: usize) -> Result<usize, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let Some(block) = &self.block else {
            return Ok(usize::from(self.shared.distance(self.first, self.published)));
        };
        let known = usize::from(self.shared.distance(self.first, self.seen));
        if known >= wanted {
            return Ok(known);
        }
        let head = block.head().load(Acquire);
        let returned = self.shared.distance(self.first, head);
        if head >= self.entries() || returned > self.shared.distance(self.first, self.published) {
            return Err(*self.broken.insert(Broken::Index));
        }
        self.seen = head;
        Ok(usize::from(returned))
    }

    /// The token of a position from `first` up to `published`.
    #[inline(always)]
    fn token(&self, position: u16) -> T {
        // SAFETY: `new` checked that there is a place for each entry, and positions are below that number; `push` set
        // the places from `first` up to `next`, before which `published` lies.
        unsafe { self.tokens.get_unchecked(usize::from(position)).assume_init() }
    }

    /// Hints at what the next [`Self::pop`] of up to `max` will read, as far as it is known: prefetches descriptors, and
    /// calls `hint` with tokens so that the caller can prefetch buffers. Reads nothing that the device writes.
    #[inline(always)]
    pub fn prefetch_next(&self, max: usize, mut hint: impl FnMut(T)) {
        let known = match &self.block {
            None => self.shared.distance(self.first, self.published),
            Some(_) => self.shared.distance(self.first, self.seen),
        };
        let n = usize::from(known).min(max) as u16;
        self.shared.prefetch(self.first, n);
        let mut position = self.first;
        for _ in 0..n {
            hint(self.token(position));
            position = self.shared.after(position, 1);
        }
    }

    /// Hints that `n` buffers will be posted soon.
    #[inline(always)]
    pub fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_write(self.next, n.min(self.free()) as u16);
    }

    /// Asks for an interrupt when the next frame comes; true if one has come already, in which case the caller must not
    /// sleep. Without a block the caller unmasks the interrupt before.
    pub fn arm(&mut self) -> bool {
        let returned = match &self.block {
            None => {
                let posted = self.first != self.published;
                posted && Received::from_rest(self.shared.rest(self.first)).status & rx::DD != 0
            }
            Some(block) => notify::arm(block.head(), &block.interrupt_wish(), self.first),
        };
        returned && self.broken.is_none()
    }

    /// Asks for no interrupts: we poll. With a block, a new ring is armed.
    pub fn disarm(&mut self) {
        if let Some(block) = &self.block {
            block.interrupt_wish().decline(self.first);
        }
    }

    /// Why the ring stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }
}
