//! The driver's end of a receive ring.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Acquire;

use super::csb::RingWords;
use super::shared::Shared;
use super::{Broken, Csb, Descriptor, Layout, LayoutError, Received, rx};
use crate::Region;
use crate::split::notify;

/// A receive ring as its driver sees it. A token is the driver's own data about a buffer, which it gets back with the
/// buffer. The caller provides the private storage: one place for a token for each entry.
///
/// With a [block](Csb) the device returns buffers up to the head in the block; without, those whose descriptor has DD.
#[derive(Debug)]
pub struct RxDriver<'a, T: Copy> {
    shared: Shared,
    block: Option<RingWords>,
    /// Exactly `shared.entries()` places; those of the `used` buffers from `first` on are initialized.
    tokens: &'a mut [MaybeUninit<T>],
    /// Position of the first outstanding buffer, one that the device has not returned.
    first: u16,
    /// Position of the next descriptor to write: `used` after `first`.
    next: u16,
    /// Number of outstanding buffers.
    used: u16,
    /// Number of outstanding buffers, counted from the end, that are not yet published.
    pending: u16,
    /// Number of outstanding buffers, counted from `first`, that the block has reported as returned.
    known: u16,
    /// The tail that the device sees.
    published: u16,
    broken: Option<Broken>,
}

impl<'a, T: Copy> RxDriver<'a, T> {
    /// Creates a ring that starts at position 0. The caller must have cleared the block.
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
        let (used, pending, known) = (0, 0, 0);
        Ok(Self {
            shared,
            block,
            tokens,
            first: 0,
            next: 0,
            used,
            pending,
            known,
            published: 0,
            broken: None,
        })
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> u16 {
        self.shared.entries()
    }

    /// Returns how many buffers can be posted now.
    #[inline(always)]
    pub const fn free(&self) -> usize {
        (self.shared.entries() - 1 - self.used) as usize
    }

    /// Posts the buffer at a guest-physical address, whose size is set by RCTL; returns false if the ring is full. The
    /// device sees it after [`Self::publish`].
    #[inline(always)]
    pub fn push(&mut self, token: T, address: u64) -> bool {
        self.push_buffers(core::iter::once((token, address))) == 1
    }

    /// Posts buffers, given as pairs of token and address, until they or the ring's free entries are exhausted; returns
    /// how many. Costs half as much as pushing them one by one.
    #[inline(always)]
    pub fn push_buffers(&mut self, buffers: impl IntoIterator<Item = (T, u64)>) -> usize {
        let (mut n, mut buffers) = (0, buffers.into_iter());
        'all: for run in self.shared.runs(self.next, self.free()) {
            for position in run {
                let Some((token, address)) = buffers.next() else { break 'all };
                self.shared.set_descriptor(position, Descriptor::buffer(address));
                // SAFETY: `new` checked that there is a place for each entry; positions are less than that.
                unsafe { *self.tokens.get_unchecked_mut(usize::from(position)) = MaybeUninit::new(token) };
                n += 1;
            }
        }
        self.next = self.shared.after(self.next, n);
        self.used += n;
        self.pending += n;
        usize::from(n)
    }

    /// Publishes the posted buffers, once for many of them; returns true if the device wants a kick, which is a write
    /// of [`Self::tail`] to RDT. Without a block it always does.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.next);
        if old == new {
            return false;
        }
        self.published = new;
        self.pending = 0;
        match &self.block {
            None => true,
            Some(block) => notify::publish(block.tail(), &block.kick_suppression(), old, new),
        }
    }

    /// Returns the value that a kick writes to RDT.
    #[inline(always)]
    pub const fn tail(&self) -> u32 {
        self.published as u32
    }

    /// Takes back up to `max` returned buffers, each with the device's write-back. A frame that is longer than a buffer
    /// fills several, the last of which has [`rx::EOP`]. Without a block, buffers of an incomplete frame may come back
    /// before its last one does.
    #[inline(always)]
    pub fn pop(&mut self, max: usize, mut take: impl FnMut(T, Received)) -> Result<usize, Broken> {
        let count = usize::from(self.used_ready(max)?).min(max);
        // With a block the head covers only buffers that are done, so that DD need not be checked.
        let looks = self.block.is_none();
        let mut popped = 0;
        'all: for run in self.shared.runs(self.first, count) {
            for position in run {
                let received = Received::from_rest(self.shared.rest(position));
                if looks && received.status & rx::DD == 0 {
                    break 'all;
                }
                popped += 1;
                take(self.token(position), received);
            }
        }
        self.first = self.shared.after(self.first, popped);
        self.used -= popped;
        self.known = self.known.saturating_sub(popped);
        Ok(usize::from(popped))
    }

    /// Returns how many buffers the device may have returned. With a block: those known to be returned; the device's
    /// head is read only if they are fewer than `wanted`. Without a block: all published buffers.
    #[inline(always)]
    fn used_ready(&mut self, wanted: usize) -> Result<u16, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let Some(block) = &self.block else { return Ok(self.used - self.pending) };
        if usize::from(self.known) >= wanted {
            return Ok(self.known);
        }
        let head = block.head().load(Acquire);
        let returned = self.shared.distance(self.first, head);
        if head >= self.entries() || returned > self.used - self.pending {
            return Err(*self.broken.insert(Broken::Index));
        }
        self.known = returned;
        Ok(returned)
    }

    /// Returns the token of an outstanding buffer.
    #[inline(always)]
    fn token(&self, position: u16) -> T {
        // SAFETY: `new` checked that there is a place for each entry, and positions are less than that; `push`
        // initialized the places of all outstanding buffers.
        unsafe { self.tokens.get_unchecked(usize::from(position)).assume_init() }
    }

    /// Prefetches the memory that the next [`Self::pop`] of up to `max` will read, as far as it is known: descriptors,
    /// and, by calling `hint` with tokens, the caller's buffers. Reads no memory that the device writes.
    #[inline(always)]
    pub fn prefetch_next(&self, max: usize, mut hint: impl FnMut(T)) {
        let known = if self.block.is_some() { self.known } else { self.used - self.pending };
        let n = usize::from(known).min(max) as u16;
        self.shared.prefetch(self.first, n);
        for position in self.shared.runs(self.first, n.into()).into_iter().flatten() {
            hint(self.token(position));
        }
    }

    /// Prefetches the descriptors of `n` buffers that will be posted soon.
    #[inline(always)]
    pub fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_write(self.next, n.min(self.free()) as u16);
    }

    /// Asks for an interrupt when the next frame arrives; returns true if one has arrived already, in which case the
    /// caller must not sleep. Without a block the caller unmasks the interrupt first.
    pub fn arm(&mut self) -> bool {
        let returned = match &self.block {
            None => {
                let posted = self.used > self.pending;
                posted && Received::from_rest(self.shared.rest(self.first)).status & rx::DD != 0
            }
            Some(block) => notify::arm(block.head(), &block.interrupt_suppression(), self.first),
        };
        returned && self.broken.is_none()
    }

    /// Declines interrupts, for a driver that polls. With a block, interrupts of a new ring are enabled.
    pub fn disarm(&mut self) {
        if let Some(block) = &self.block {
            block.interrupt_suppression().disable(self.first);
        }
    }

    /// Returns the reason why the ring stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }
}
