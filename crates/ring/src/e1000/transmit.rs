//! The driver's end of a transmit ring.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Acquire;

use super::csb::Words;
use super::shared::Shared;
use super::{Broken, Csb, Descriptor, Layout, LayoutError, tx};
use crate::Region;
use crate::split::notify;

/// What a [`TxDriver`] keeps of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct TxSlot<T: Copy> {
    /// Set where `last` is.
    token: MaybeUninit<T>,
    /// Whether it is the last of its frame: then the token is the frame's.
    last: bool,
    /// Whether the device reports that it is done.
    reports: bool,
}

impl<T: Copy> TxSlot<T> {
    /// The slot of a descriptor that is not in use.
    pub const EMPTY: Self = Self { token: MaybeUninit::uninit(), last: false, reports: false };
}

/// A transmit ring as its driver sees it. A token is what the driver wants to know of a frame when it is sent. The
/// private storage is the caller's: one [`TxSlot`] for each entry.
///
/// With a [block](Csb) frames come back up to the head that is there. Without, they come back up to the last
/// descriptor with [`tx::RS`] in which the device has set DD: on each frame, or on some.
#[derive(Debug)]
pub struct TxDriver<'a, T: Copy> {
    shared: Shared,
    block: Option<Words>,
    /// Exactly `shared.entries()` slots; those from `first` up to (not including) `next` are in use.
    slots: &'a mut [TxSlot<T>],
    /// Position of the next descriptor to write.
    next: u16,
    /// The tail as the device sees it.
    published: u16,
    /// Position of the first descriptor that has not come back.
    first: u16,
    broken: Option<Broken>,
}

impl<'a, T: Copy> TxDriver<'a, T> {
    /// A ring that starts at position 0. A block must have been cleared.
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
        Ok(Self { shared, block, slots, next: 0, published: 0, first: 0, broken: None })
    }

    /// Entries.
    pub const fn entries(&self) -> u16 {
        self.shared.entries()
    }

    /// How many descriptors can be pushed now.
    #[inline(always)]
    pub const fn free(&self) -> usize {
        (self.shared.entries() - 1 - self.shared.distance(self.first, self.next)) as usize
    }

    /// How many descriptors were pushed and not yet published.
    #[inline(always)]
    pub const fn pending(&self) -> usize {
        self.shared.distance(self.published, self.next) as usize
    }

    /// How many descriptors have not come back, as far as is known.
    #[inline(always)]
    pub const fn outstanding(&self) -> usize {
        self.shared.distance(self.first, self.next) as usize
    }

    /// Writes one descriptor, with a token where it is the last of its frame; false if the ring is full. The device
    /// sees it after [`Self::publish`]. Who sends a frame of several descriptors asks [`Self::free`] before.
    #[inline(always)]
    pub fn push(&mut self, descriptor: Descriptor, token: Option<T>) -> bool {
        if self.free() == 0 {
            return false;
        }
        self.shared.set_descriptor(self.next, descriptor);
        let (last, reports) = (token.is_some(), descriptor.command() & tx::RS != 0);
        let token = token.map_or(MaybeUninit::uninit(), MaybeUninit::new);
        if let Some(slot) = self.slots.get_mut(usize::from(self.next)) {
            *slot = TxSlot { token, last, reports };
        }
        self.next = self.shared.after(self.next, 1);
        true
    }

    /// Shows the device what was pushed, once a batch; true if it wants a kick, which is [`Self::tail`] written to TDT.
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

    /// What a kick writes to TDT.
    #[inline(always)]
    pub const fn tail(&self) -> u32 {
        self.published as u32
    }

    /// Takes back frames that were sent, about `max` descriptors of them at most; returns how many descriptors are
    /// free again.
    #[inline(always)]
    pub fn reclaim(&mut self, max: usize, take: impl FnMut(T)) -> Result<usize, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let returned = match &self.block {
            None => self.reported(max),
            Some(block) => {
                let head = block.head().load(Acquire);
                let published = self.shared.distance(self.first, self.published);
                let returned = self.shared.distance(self.first, head);
                if head >= self.entries() || returned > published {
                    return Err(*self.broken.insert(Broken::Index));
                }
                usize::from(returned).min(max)
            }
        };
        self.take(returned, take);
        Ok(returned)
    }

    /// How many descriptors lie before the last one that is reported as done.
    #[inline(always)]
    fn reported(&self, max: usize) -> usize {
        let published = usize::from(self.shared.distance(self.first, self.published));
        let (mut position, mut done) = (self.first, 0);
        for count in 1..=published {
            let reports = self.slots.get(usize::from(position)).is_some_and(|slot| slot.reports);
            if reports {
                if self.shared.rest(position) >> 32 & u64::from(tx::DD) == 0 {
                    break;
                }
                done = count;
                if done >= max {
                    break;
                }
            }
            position = self.shared.after(position, 1);
        }
        done
    }

    #[inline(always)]
    fn take(&mut self, n: usize, mut take: impl FnMut(T)) {
        for _ in 0..n {
            if let Some(slot) = self.slots.get(usize::from(self.first))
                && slot.last
            {
                // SAFETY: the slot is in use, as `n` is at most the distance to `published`; `push` set the token
                // together with `last`.
                take(unsafe { slot.token.assume_init() });
            }
            self.first = self.shared.after(self.first, 1);
        }
    }

    /// Hints that `n` descriptors will be pushed soon.
    #[inline(always)]
    pub fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_write(self.next, n.min(self.free()) as u16);
    }

    /// Asks for an interrupt when the next frame was sent; true if one was already, in which case the caller must not
    /// sleep. Without a block the caller unmasks the interrupt before.
    pub fn arm(&mut self) -> bool {
        let returned = match &self.block {
            None => self.reported(1) > 0,
            Some(block) => notify::arm(block.head(), &block.interrupt_wish(), self.first),
        };
        returned && self.broken.is_none()
    }

    /// Asks for no interrupts. With a block, a new ring is armed.
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
