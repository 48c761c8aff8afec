//! The driver's end for any order of completion, with descriptor chains and indirect tables.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU16, Ordering::Acquire, Ordering::Relaxed};

use super::notify::{self, Suppression};
use super::shared::{Descriptor, INDIRECT, NEXT, Shared, WRITE};
use super::{Broken, Features, Layout, LayoutError};
use crate::Region;

/// One buffer that is lent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Guest-physical address.
    pub address: u64,
    /// Length in octets.
    pub len: u32,
    /// True if the device writes it (otherwise the device reads it).
    pub writable: bool,
}

impl Segment {
    /// Returns the two words of its entry in an indirect table. `next` is the number of the following entry, if there
    /// is one.
    #[inline(always)]
    pub const fn words(self, next: Option<u16>) -> [u64; 2] {
        let write = if self.writable { WRITE } else { 0 };
        let (flags, next) = match next {
            Some(next) => (write | NEXT, next),
            None => (write, 0),
        };
        [self.address, Descriptor { address: self.address, len: self.len, flags, next }.rest()]
    }
}

/// The driver's end of a queue, whatever its kind, as far as a network driver needs it. A token is the driver's own
/// data about a buffer, which it gets back with the buffer.
pub trait DriverQueue<T: Copy> {
    /// Returns the number of entries.
    fn size(&self) -> u16;

    /// Returns how many calls of [`Self::push`] will succeed now.
    fn free(&self) -> usize;

    /// Lends the device one buffer of `len` octets at guest-physical `address`; returns false if the queue is full. The
    /// device sees it after [`Self::publish`].
    fn push(&mut self, token: T, address: u64, len: u32, writable: bool) -> bool;

    /// Lends the device a chain through an indirect table of `entries` descriptors ([`Segment::words`]) that the caller
    /// has written to guest-physical `table`, where it must stay until the token comes back. Returns false if indirect
    /// tables were not negotiated, the queue is full, or the table has no entry or more entries than the queue.
    fn push_table(&mut self, token: T, table: u64, entries: u16) -> bool;

    /// Publishes the pushed buffers, once a batch; returns true if the device wants a kick.
    fn publish(&mut self) -> bool;

    /// Counts the returned buffers; reads the device's index only if fewer than `wanted` are known.
    fn used_ready(&mut self, wanted: usize) -> usize;

    /// Takes back up to `max` buffers, each with the number of octets that the device claims to have written. That
    /// number is not checked: it may be larger than the buffer.
    fn pop(&mut self, max: usize, take: impl FnMut(T, u32)) -> Result<usize, Broken>;

    /// As [`Self::pop`], for buffers that the device only read.
    fn reclaim(&mut self, max: usize, take: impl FnMut(T)) -> Result<usize, Broken>;

    /// Prefetches the memory that the next `pop` of up to `max` will read, as far as it is known: used entries, and, by
    /// calling `hint` with tokens, the caller's buffers. Reads no memory that the device writes.
    fn prefetch_next(&self, max: usize, hint: impl FnMut(T));

    /// Prefetches the ring memory for `n` buffers that will be pushed soon.
    fn prefetch_push(&self, n: usize);

    /// Asks for an interrupt when the next buffer comes back; returns true if one is back already, in which case the
    /// caller must not sleep.
    fn arm(&mut self) -> bool;

    /// Asks for an interrupt when three quarters of the outstanding buffers have come back, so that one interrupt
    /// covers many (seed paper 004, "Virtio-net and delayed notifications (2)"; Linux's driver does the same). Meant
    /// for buffers that the device is sure to return soon: those that it sends, not those that it fills. Without
    /// VIRTIO_F_EVENT_IDX the interrupt comes with the next buffer.
    fn arm_delayed(&mut self) -> bool;

    /// Declines interrupts, for a driver that polls. Interrupts of a new queue are enabled.
    fn disarm(&mut self);

    /// Returns the reason why the queue stopped, if it did.
    fn broken(&self) -> Option<Broken>;
}

/// Ring indices as a driver keeps them.
#[derive(Debug)]
pub(super) struct Indices {
    /// Available index of the next push.
    pub(super) next: u16,
    /// Available index that the device sees.
    pub(super) published: u16,
    /// Used index of the next pop.
    pub(super) last: u16,
    /// Used index as it was read last.
    pub(super) seen: u16,
    /// Used index at which the event index that declines interrupts was last written.
    declined: u16,
    armed: bool,
    pub(super) broken: Option<Broken>,
}

/// Distance that an index moves before a declined event index is renewed.
const RENEW: u16 = 0x4000;

impl Indices {
    pub(super) const fn starting_at(index: u16) -> Self {
        let (next, published, last, seen) = (index, index, index, index);
        Self { next, published, last, seen, declined: index, armed: true, broken: None }
    }

    /// Counts the known returned buffers; reads the device's index if they are fewer than `wanted`.
    #[inline(always)]
    pub(super) fn used_ready(&mut self, used_index: &AtomicU16, wanted: usize) -> usize {
        let known = usize::from(self.seen.wrapping_sub(self.last));
        if known >= wanted { known } else { self.look(used_index) }
    }

    #[inline(always)]
    fn look(&mut self, used_index: &AtomicU16) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let index = used_index.load(Acquire);
        let returned = index.wrapping_sub(self.last);
        if returned > self.published.wrapping_sub(self.last) {
            self.fail(Broken::Index);
            return 0;
        }
        self.seen = index;
        usize::from(returned)
    }

    /// Stops the queue.
    #[cold]
    pub(super) fn fail(&mut self, reason: Broken) {
        self.seen = self.last;
        self.broken.get_or_insert(reason);
    }

    /// Returns the result of a call that took back `count` buffers.
    #[inline(always)]
    pub(super) fn outcome(&self, count: usize) -> Result<usize, Broken> {
        match self.broken {
            Some(reason) if count == 0 => Err(reason),
            _ => Ok(count),
        }
    }

    #[inline(always)]
    pub(super) fn publish(&mut self, shared: &Shared) -> bool {
        let (old, new) = (self.published, self.next);
        if old == new {
            return false;
        }
        self.published = new;
        let fading = !self.armed && self.last.wrapping_sub(self.declined) >= RENEW;
        if fading && matches!(shared.interrupt_suppression(), Suppression::Event(_)) {
            self.disarm(shared);
        }
        notify::publish(shared.available_index(), &shared.kick_suppression(), old, new)
    }

    pub(super) fn arm(&mut self, shared: &Shared) -> bool {
        self.arm_after(shared, 1)
    }

    /// As [`DriverQueue::arm_delayed`].
    pub(super) fn arm_delayed(&mut self, shared: &Shared) -> bool {
        let lent = self.published.wrapping_sub(self.last);
        // At most 32768.
        let many = (u32::from(lent) * 3 / 4) as u16;
        self.arm_after(shared, many.max(1))
    }

    fn arm_after(&mut self, shared: &Shared, count: u16) -> bool {
        self.armed = true;
        let waiting =
            notify::arm_after(shared.used_index(), &shared.interrupt_suppression(), self.last, count);
        waiting && self.broken.is_none()
    }

    pub(super) fn disarm(&mut self, shared: &Shared) {
        self.armed = false;
        self.declined = self.last;
        shared.interrupt_suppression().disable(self.last);
    }
}

/// Creates a descriptor that refers to an indirect table.
pub(super) fn indirect(table: u64, entries: u16) -> Descriptor {
    Descriptor { address: table, len: 16 * u32::from(entries), flags: INDIRECT, next: 0 }
}

/// State that a [`Driver`] keeps for one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Slot<T: Copy> {
    token: MaybeUninit<T>,
    /// Number of descriptors of the outstanding chain that begins here; 0 if none does. The token is initialized if it
    /// is not 0.
    entries: u16,
    /// Next descriptor of the chain.
    next: u16,
    /// Element of the stack of free descriptors, which is stored in the slots (unrelated to this descriptor).
    free: u16,
}

impl<T: Copy> Slot<T> {
    /// The slot of a queue that is not yet in use.
    pub const EMPTY: Self = Self { token: MaybeUninit::uninit(), entries: 0, next: 0, free: 0 };
}

/// A driver for queues with any order of completion. The caller provides the private storage: one [`Slot`] for each
/// entry.
#[derive(Debug)]
pub struct Driver<'a, T: Copy> {
    shared: Shared,
    region: Region,
    indirect: bool,
    /// Exactly `shared.size()` slots.
    slots: &'a mut [Slot<T>],
    /// Number of valid elements of the stack.
    free: u16,
    indices: Indices,
}

impl<'a, T: Copy> Driver<'a, T> {
    /// Creates a queue whose shared memory is zero. `features.in_order` must be false.
    pub fn new(
        region: Region,
        layout: &Layout,
        features: Features,
        slots: &'a mut [Slot<T>],
    ) -> Result<Self, LayoutError> {
        Self::starting_at(region, layout, features, slots, 0)
    }

    /// As [`Self::new`], with both indices at `index`.
    pub fn starting_at(
        region: Region,
        layout: &Layout,
        features: Features,
        slots: &'a mut [Slot<T>],
        index: u16,
    ) -> Result<Self, LayoutError> {
        let shared = Shared::map(&region.into(), layout, features)?;
        if slots.len() != usize::from(shared.size()) {
            return Err(LayoutError::Storage(slots.len()));
        }
        if features.in_order {
            return Err(LayoutError::Features);
        }
        for (slot, free) in slots.iter_mut().zip((0..shared.size()).rev()) {
            *slot = Slot { free, ..Slot::EMPTY };
        }
        let indices = Indices::starting_at(index);
        Ok(Self { shared, region, indirect: features.indirect, slots, free: shared.size(), indices })
    }

    /// Lends the device a chain of buffers, the readable ones first; returns false if there are too few free
    /// descriptors, or no segment.
    pub fn push_chain(&mut self, token: T, segments: &[Segment]) -> bool {
        if segments.is_empty() || segments.len() > usize::from(self.free) {
            return false;
        }
        let head = self.slot(self.free - 1).free;
        for (i, segment) in segments.iter().enumerate() {
            self.free -= 1;
            let (entry, more) = (self.slot(self.free).free, i + 1 < segments.len());
            let next = if more { self.slot(self.free - 1).free } else { 0 };
            let flags = if segment.writable { WRITE } else { 0 } | if more { NEXT } else { 0 };
            let (address, len) = (segment.address, segment.len);
            self.shared.set_descriptor(entry, Descriptor { address, len, flags, next });
            self.slot_mut(entry).next = next;
        }
        self.make_available(head, token, segments.len() as u16);
        true
    }

    /// Lends the device a chain through an indirect table, which this writes to guest-physical `table` (16 octets for
    /// each segment) and which must stay there until the token comes back. Returns false if indirect tables were not
    /// negotiated, the queue is full, there is no segment, or the table does not lie in memory.
    pub fn push_indirect(&mut self, token: T, table: u64, segments: &[Segment]) -> bool {
        let octets = segments.len() as u64 * 16;
        let (Ok(len), true) = (u32::try_from(octets), self.indirect) else { return false };
        let Some(bytes) = self.region.bytes(table, len) else { return false };
        if segments.is_empty() || segments.len() > usize::from(self.shared.size()) || self.free == 0 {
            return false;
        }
        for (i, segment) in segments.iter().enumerate() {
            let [address, rest] = segment.words((i + 1 < segments.len()).then_some(i as u16 + 1));
            bytes.write(16 * i, address.to_le_bytes());
            bytes.write(16 * i + 8, rest.to_le_bytes());
        }
        self.push_one(token, Descriptor { address: table, len, flags: INDIRECT, next: 0 })
    }

    #[inline(always)]
    fn push_one(&mut self, token: T, descriptor: Descriptor) -> bool {
        if self.free == 0 {
            return false;
        }
        self.free -= 1;
        let head = self.slot(self.free).free;
        self.shared.set_descriptor(head, descriptor);
        self.make_available(head, token, 1);
        true
    }

    #[inline(always)]
    fn make_available(&mut self, head: u16, token: T, entries: u16) {
        let slot = self.slot_mut(head);
        slot.token = MaybeUninit::new(token);
        slot.entries = entries;
        self.shared.available_entry(self.indices.next).store(head, Relaxed);
        self.indices.next = self.indices.next.wrapping_add(1);
    }

    /// Takes one used entry; `None` if its id names no outstanding chain.
    #[inline(always)]
    fn take(&mut self, id: u32) -> Option<T> {
        let slot = self.slots.get_mut(id as usize)?;
        let entries = core::mem::take(&mut slot.entries);
        if entries == 0 {
            return None;
        }
        // SAFETY: `entries` was not 0, so `make_available` initialized the token.
        let token = unsafe { slot.token.assume_init() };
        let mut entry = id as u16;
        for _ in 0..entries {
            let free = self.free;
            self.slot_mut(free).free = entry;
            self.free += 1;
            entry = self.slot(entry).next;
        }
        Some(token)
    }

    #[inline(always)]
    fn slot(&self, entry: u16) -> &Slot<T> {
        // SAFETY: `new` checked that there are mask + 1 slots.
        unsafe { self.slots.get_unchecked(usize::from(entry & self.shared.mask())) }
    }

    #[inline(always)]
    fn slot_mut(&mut self, entry: u16) -> &mut Slot<T> {
        let entry = usize::from(entry & self.shared.mask());
        // SAFETY: `new` checked that there are mask + 1 slots.
        unsafe { self.slots.get_unchecked_mut(entry) }
    }
}

impl<T: Copy> DriverQueue<T> for Driver<'_, T> {
    fn size(&self) -> u16 {
        self.shared.size()
    }

    #[inline(always)]
    fn free(&self) -> usize {
        usize::from(self.free)
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

    #[inline(always)]
    fn pop(&mut self, max: usize, mut take: impl FnMut(T, u32)) -> Result<usize, Broken> {
        let count = self.used_ready(max).min(max);
        for popped in 0..count {
            let (id, written) = self.shared.used_entry(self.indices.last);
            let Some(token) = self.take(id) else {
                self.indices.fail(Broken::Entry);
                return self.indices.outcome(popped);
            };
            self.indices.last = self.indices.last.wrapping_add(1);
            take(token, written);
        }
        self.indices.outcome(count)
    }

    #[inline(always)]
    fn reclaim(&mut self, max: usize, mut take: impl FnMut(T)) -> Result<usize, Broken> {
        self.pop(max, |token, _| take(token))
    }

    /// Prefetches used entries only: the buffers are not known before those are read.
    #[inline(always)]
    fn prefetch_next(&self, max: usize, _hint: impl FnMut(T)) {
        let known = self.indices.seen.wrapping_sub(self.indices.last);
        self.shared.prefetch_used(self.indices.last, known.min(max.min(usize::from(u16::MAX)) as u16));
    }

    /// Prefetches available entries only: the descriptors are chosen too late.
    #[inline(always)]
    fn prefetch_push(&self, n: usize) {
        self.shared.prefetch_available_write(self.indices.next, n.min(self.free()) as u16);
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
