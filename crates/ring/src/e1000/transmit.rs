//! The driver's end of a transmit ring.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Acquire;

use super::csb::RingWords;
use super::shared::Shared;
use super::{Broken, Csb, Descriptor, Layout, LayoutError, tx};
use crate::Region;
use crate::split::notify;

/// State that a [`TxDriver`] keeps for one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct TxSlot<T: Copy> {
    /// Initialized if [`LAST`] is set in `marks`.
    token: MaybeUninit<T>,
    marks: u8,
}

/// The descriptor is the last of its frame: the token is the frame's.
const LAST: u8 = 1 << 0;
/// The device reports completion of this descriptor (RS).
const REPORTS: u8 = 1 << 1;

impl<T: Copy> TxSlot<T> {
    /// The slot of a descriptor that is not in use.
    pub const EMPTY: Self = Self { token: MaybeUninit::uninit(), marks: 0 };
}

/// A transmit ring as its driver sees it. A token is the driver's own data about a frame, which it gets back when the
/// frame was sent. The caller provides the private storage: one [`TxSlot`] for each entry.
///
/// With a [block](Csb) the device returns frames up to the head in the block. Without, it returns them up to the last
/// descriptor with [`tx::RS`] in which it has set DD; RS may be set on every frame or only on some.
#[derive(Debug)]
pub struct TxDriver<'a, T: Copy> {
    shared: Shared,
    block: Option<RingWords>,
    /// Exactly `shared.entries()` slots; those of the `used` descriptors from `first` on are in use.
    slots: &'a mut [TxSlot<T>],
    /// Position of the first outstanding descriptor, one that the device has not returned.
    first: u16,
    /// Position of the next descriptor to write: `used` after `first`.
    next: u16,
    /// Number of outstanding descriptors.
    used: u16,
    /// Number of outstanding descriptors, counted from the end, that are not yet published.
    pending: u16,
    /// The tail that the device sees.
    published: u16,
    broken: Option<Broken>,
}

impl<'a, T: Copy> TxDriver<'a, T> {
    /// Creates a ring that starts at position 0. The caller must have cleared the block.
    pub fn new(
        region: Region,
        layout: &Layout,
        csb: Option<Csb>,
        slots: &'a mut [TxSlot<T>],
    ) -> Result<Self, LayoutError> {
        let shared = Shared::map(&region, layout)?;
        if slots.len() != usize::from(shared.entries()) {
            return Err(LayoutError::Storage(slots.len()));
        }
        let block = csb.map(|csb| csb.transmit());
        Ok(Self { shared, block, slots, first: 0, next: 0, used: 0, pending: 0, published: 0, broken: None })
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> u16 {
        self.shared.entries()
    }

    /// Returns how many descriptors can be pushed now.
    #[inline(always)]
    pub const fn free(&self) -> usize {
        (self.shared.entries() - 1 - self.used) as usize
    }

    /// Writes one descriptor, with a token if it is the last of its frame; returns false if the ring is full. The
    /// device sees it after [`Self::publish`]. A caller that sends a frame of several descriptors checks [`Self::free`]
    /// first.
    #[inline(always)]
    pub fn push(&mut self, descriptor: Descriptor, token: Option<T>) -> bool {
        if self.free() == 0 {
            return false;
        }
        self.write(self.next, descriptor, token);
        self.next = self.shared.after(self.next, 1);
        self.used += 1;
        self.pending += 1;
        true
    }

    /// Writes frames of one descriptor each until they or the ring's free entries are exhausted; returns how many.
    /// Costs half as much as pushing them one by one.
    #[inline(always)]
    pub fn push_frames(&mut self, frames: impl IntoIterator<Item = (Descriptor, T)>) -> usize {
        let (mut n, mut frames) = (0, frames.into_iter());
        'all: for run in self.shared.runs(self.next, self.free()) {
            for position in run {
                let Some((descriptor, token)) = frames.next() else { break 'all };
                self.write(position, descriptor, Some(token));
                n += 1;
            }
        }
        self.next = self.shared.after(self.next, n);
        self.used += n;
        self.pending += n;
        usize::from(n)
    }

    /// Writes a descriptor and its slot.
    #[inline(always)]
    fn write(&mut self, position: u16, descriptor: Descriptor, token: Option<T>) {
        self.shared.set_descriptor(position, descriptor);
        let marks = if descriptor.command() & tx::RS != 0 { REPORTS } else { 0 };
        let slot = match token {
            Some(token) => TxSlot { token: MaybeUninit::new(token), marks: marks | LAST },
            None => TxSlot { token: MaybeUninit::uninit(), marks },
        };
        // SAFETY: `new` checked that there is a slot for each entry; positions are less than that.
        unsafe { *self.slots.get_unchecked_mut(usize::from(position)) = slot };
    }

    /// Publishes the pushed descriptors, once a batch; returns true if the device wants a kick, which is a write of
    /// [`Self::tail`] to TDT. Without a block it always does.
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

    /// Returns the value that a kick writes to TDT.
    #[inline(always)]
    pub const fn tail(&self) -> u32 {
        self.published as u32
    }

    /// Takes back frames that were sent, at most about `max` descriptors of them; returns how many descriptors became
    /// free.
    #[inline(always)]
    pub fn reclaim(&mut self, max: usize, take: impl FnMut(T)) -> Result<usize, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let returned = match &self.block {
            None => self.reported(max),
            Some(block) => {
                let head = block.head().load(Acquire);
                let returned = self.shared.distance(self.first, head);
                if head >= self.entries() || returned > self.used - self.pending {
                    return Err(*self.broken.insert(Broken::Index));
                }
                returned.min(max.min(usize::from(u16::MAX)) as u16)
            }
        };
        self.take(returned, take);
        Ok(usize::from(returned))
    }

    /// Counts the descriptors up to the last one that the device has reported as done.
    #[inline(always)]
    fn reported(&self, max: usize) -> u16 {
        let (published, mut done) = (self.used - self.pending, 0);
        let runs = self.shared.runs(self.first, published.into());
        for (position, count) in runs.into_iter().flatten().zip(1..) {
            if self.slot(position).marks & REPORTS != 0 {
                if self.shared.rest(position) >> 32 & u64::from(tx::DD) == 0 {
                    break;
                }
                done = count;
                if usize::from(done) >= max {
                    break;
                }
            }
        }
        done
    }

    /// Takes back the `n` oldest descriptors, which are in use.
    #[inline(always)]
    fn take(&mut self, n: u16, mut take: impl FnMut(T)) {
        for run in self.shared.runs(self.first, n.into()) {
            for position in run {
                let slot = self.slot(position);
                if slot.marks & LAST != 0 {
                    // SAFETY: the slot is in use, and `write` set the token together with the mark.
                    take(unsafe { slot.token.assume_init() });
                }
            }
        }
        self.first = self.shared.after(self.first, n);
        self.used -= n;
    }

    #[inline(always)]
    fn slot(&self, position: u16) -> TxSlot<T> {
        // SAFETY: `new` checked that there is a slot for each entry; positions are less than that.
        unsafe { *self.slots.get_unchecked(usize::from(position)) }
    }

    /// Prefetches `n` descriptors that will be pushed soon.
    #[inline(always)]
    pub fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_write(self.next, n.min(self.free()) as u16);
    }

    /// Asks for an interrupt when the next frame has been sent; returns true if one has been already, in which case the
    /// caller must not sleep. Without a block the caller unmasks the interrupt first.
    pub fn arm(&mut self) -> bool {
        let returned = match &self.block {
            None => self.reported(1) > 0,
            Some(block) => notify::arm(block.head(), &block.interrupt_suppression(), self.first),
        };
        returned && self.broken.is_none()
    }

    /// Declines interrupts. With a block, interrupts of a new ring are enabled.
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
