//! The device's end: takes chains out of the available ring, returns them by the used ring. Nothing that the driver
//! writes is trusted, and each word of it is read once.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use arrayvec::ArrayVec;

use super::burst::{Burst, Chain};
use super::notify;
use super::shared::{Descriptor, INDIRECT, NEXT, Shared, WRITE};
use super::walk::{Direction, Walk};
use super::{Broken, Features, Layout, LayoutError};
use crate::regions::Near;
use crate::{BURST, Regions};

/// No descriptor's number. A chain can begin anywhere in a ring that has been in use; the first available entry says
/// where.
const UNKNOWN: u16 = u16::MAX;
/// How far an index moves before a declined event wish is renewed.
const RENEW: u16 = 0x4000;

/// One queue as its device sees it.
///
/// 1. [`take_readable`](Self::take_readable) (or `_writable`, `_mixed`) gathers chains into a [`Burst`].
/// 2. [`complete`](Self::complete) or [`complete_all`](Self::complete_all) writes used entries.
/// 3. [`publish`](Self::publish) shows them to the driver, once a burst.
#[derive(Debug)]
pub struct DeviceQueue {
    shared: Shared,
    memory: Regions,
    features: Features,
    /// Available index of the next chain to take.
    next: u16,
    /// Available index as it was read last.
    seen: u16,
    /// With IN_ORDER: the descriptor at which the next chain begins; [`UNKNOWN`] until the first one was seen.
    head: u16,
    /// Used index of the next chain to return.
    used: u16,
    /// Used index as the driver sees it.
    published: u16,
    /// Where the wish for no kick was written last.
    declined: u16,
    armed: bool,
    broken: Option<Broken>,
}

impl DeviceQueue {
    /// A queue that the driver has just set up: both indices are 0. Kicks are wanted until [`Self::disarm`].
    pub fn new(memory: impl Into<Regions>, layout: &Layout, features: Features) -> Result<Self, LayoutError> {
        Self::resume(memory, layout, features, 0)
    }

    /// A queue of which a device has already taken and returned `index` chains (modulo 65536).
    pub fn resume(
        memory: impl Into<Regions>,
        layout: &Layout,
        features: Features,
        index: u16,
    ) -> Result<Self, LayoutError> {
        let memory = memory.into();
        let shared = Shared::map(&memory, layout, features)?;
        Ok(Self {
            shared,
            memory,
            features,
            next: index,
            seen: index,
            head: if index == 0 { 0 } else { UNKNOWN },
            used: index,
            published: index,
            declined: index,
            armed: true,
            broken: None,
        })
    }

    /// A queue that another device has served, which may have died at any moment: goes on where the used index stands. What
    /// that device took and did not return is taken once more.
    ///
    /// A device that was killed cannot be asked how far it was, so the used index is all that is known. A split ring has it in
    /// memory; a packed one would need a word from whoever kept its wrap counters.
    pub fn take_over(
        memory: impl Into<Regions>,
        layout: &Layout,
        features: Features,
    ) -> Result<Self, LayoutError> {
        let memory = memory.into();
        let index = Shared::map(&memory, layout, features)?.used_index().load(Acquire);
        // Index 0 may be that of 65536 chains, of which each had several descriptors: the first entry says where it begins.
        Ok(Self { head: UNKNOWN, ..Self::resume(memory, layout, features, index)? })
    }

    /// Entries.
    pub const fn size(&self) -> u16 {
        self.shared.size()
    }

    /// The features it works with.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Available index of the next chain: what [`Self::resume`] needs when nothing is outstanding.
    pub const fn index(&self) -> u16 {
        self.next
    }

    /// Why the queue stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Stops the queue.
    #[cold]
    fn fail<T>(&mut self, reason: Broken) -> Result<T, Broken> {
        self.seen = self.next;
        Err(*self.broken.get_or_insert(reason))
    }

    /// How many chains wait; looks at the driver's index only when fewer than `wanted` are known of.
    #[inline(always)]
    pub fn ready(&mut self, wanted: usize) -> Result<usize, Broken> {
        let known = self.seen.wrapping_sub(self.next);
        if usize::from(known) >= wanted {
            return Ok(usize::from(known));
        }
        self.look()
    }

    #[inline(always)]
    fn look(&mut self) -> Result<usize, Broken> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        let index = self.shared.available_index().load(Acquire);
        // Chains that are not yet returned still take their places in the ring.
        if index.wrapping_sub(self.published) > self.shared.size() {
            return self.fail(Broken::Index);
        }
        let waiting = index.wrapping_sub(self.next);
        if waiting > self.shared.size() {
            return self.fail(Broken::Index);
        }
        self.seen = index;
        Ok(usize::from(waiting))
    }

    /// Takes up to `max` (at most [`BURST`]) chains that the device is to read. The burst is emptied first; returns
    /// how many it holds. An error ends the queue; chains taken before it may still be returned.
    ///
    /// Whatever the driver wrote, a call reads a bounded number of descriptors and entries, and shows at least one chain
    /// where one waits; what is over comes with the next call, in order ([`Burst::is_cut`]).
    #[inline]
    pub fn take_readable(&mut self, max: usize, burst: &mut Burst) -> Result<usize, Broken> {
        self.take::<0>(max, burst, Direction::Readable)
    }

    /// As [`Self::take_readable`], chains that the device is to write.
    #[inline]
    pub fn take_writable(&mut self, max: usize, burst: &mut Burst) -> Result<usize, Broken> {
        self.take::<WRITE>(max, burst, Direction::Writable)
    }

    /// As [`Self::take_readable`], chains that may have buffers of both kinds: requests with room for an answer.
    #[inline(never)]
    pub fn take_mixed(&mut self, max: usize, burst: &mut Burst) -> Result<usize, Broken> {
        self.take::<0>(max, burst, Direction::Both)
    }

    #[inline(always)]
    fn take<const FLAGS: u16>(
        &mut self,
        max: usize,
        burst: &mut Burst,
        direction: Direction,
    ) -> Result<usize, Broken> {
        burst.clear();
        let max = max.min(BURST);
        let count = self.ready(max)?.min(max);
        if self.features.in_order {
            self.take_in_order::<FLAGS>(count, burst, direction)
        } else {
            self.take_by_the_book::<FLAGS>(count, burst, direction)
        }
    }

    #[inline(always)]
    fn take_in_order<const FLAGS: u16>(
        &mut self,
        count: usize,
        burst: &mut Burst,
        direction: Direction,
    ) -> Result<usize, Broken> {
        let (shared, near) = (self.shared, self.memory.near());
        if self.head == UNKNOWN && count > 0 {
            self.head = shared.available_entry(self.next).load(Relaxed);
            if self.head >= shared.size() {
                return self.stop(Broken::Entry, burst);
            }
        }
        shared.prefetch_descriptors(self.head.wrapping_add(count as u16), count as u16);
        while burst.len() < count {
            let (first, before) = (self.head, burst.len());
            burst.chains.extend((0..(count - before) as u16).map_while(|i| {
                let head = first.wrapping_add(i) & shared.mask();
                simple::<FLAGS>(&near, head, shared.descriptor(head))
            }));
            let taken = (burst.len() - before) as u16;
            self.head = first.wrapping_add(taken) & shared.mask();
            self.next = self.next.wrapping_add(taken);
            if burst.len() < count && !self.walk(self.head, burst, direction)? {
                break;
            }
        }
        Ok(burst.len())
    }

    #[inline(always)]
    fn take_by_the_book<const FLAGS: u16>(
        &mut self,
        count: usize,
        burst: &mut Burst,
        direction: Direction,
    ) -> Result<usize, Broken> {
        let (shared, near, first) = (self.shared, self.memory.near(), self.next);
        let heads: ArrayVec<u16, BURST> = (0..count as u16)
            .map(|entry| {
                let head = shared.available_entry(first.wrapping_add(entry)).load(Relaxed);
                shared.prefetch_descriptors(head, 1);
                head
            })
            .collect();
        while burst.len() < count {
            let before = burst.len();
            burst.chains.extend(heads[before..].iter().map_while(|&head| {
                (head <= shared.mask()).then(|| simple::<FLAGS>(&near, head, shared.descriptor(head)))?
            }));
            self.next = self.next.wrapping_add((burst.len() - before) as u16);
            if let Some(&head) = heads.get(burst.len())
                && !self.walk(head, burst, direction)?
            {
                break;
            }
        }
        Ok(burst.len())
    }

    /// Takes a chain of any shape. False if the burst has no place for it (it is taken next time) or the queue
    /// stopped.
    #[cold]
    #[inline(never)]
    fn walk(&mut self, head: u16, burst: &mut Burst, direction: Direction) -> Result<bool, Broken> {
        if !burst.takes_any() {
            burst.cut = true;
            return Ok(false);
        }
        let (shared, memory, features) = (self.shared, &self.memory, self.features);
        let Burst { segments, steps, .. } = burst;
        let walk = Walk { shared, memory, features, direction, segments, steps };
        match walk.chain(head) {
            Ok(walked) => {
                self.memory.visit(walked.last);
                burst.chains.push(walked.chain);
                self.head = head.wrapping_add(walked.entries) & shared.mask();
                self.next = self.next.wrapping_add(1);
                Ok(true)
            }
            Err(reason) => self.stop(reason, burst).map(|_| false),
        }
    }

    /// Stops the queue; what was taken before is still shown.
    #[cold]
    fn stop(&mut self, reason: Broken, burst: &Burst) -> Result<usize, Broken> {
        self.seen = self.next;
        self.broken.get_or_insert(reason);
        if burst.is_empty() { Err(reason) } else { Ok(burst.len()) }
    }

    /// Puts the chains of `burst` from number `keep` on back, as if they had never been taken. Only for the burst
    /// that was taken last, and before anything else is taken.
    pub fn give_back(&mut self, burst: &mut Burst, keep: usize) {
        if let Some(first) = burst.chains.get(keep) {
            self.head = first.head;
            self.next = self.next.wrapping_sub((burst.len() - keep) as u16);
            burst.chains.truncate(keep);
        }
    }

    /// Returns a chain into which `written` octets were written. In the order of taking where IN_ORDER was agreed
    /// on, otherwise in any order. The driver sees it after [`Self::publish`].
    #[inline(always)]
    pub fn complete(&mut self, chain: &Chain, written: u32) {
        self.shared.set_used_entry(self.used, chain.head, written);
        self.used = self.used.wrapping_add(1);
    }

    /// Returns several chains, each with the number of octets that were written into it.
    #[inline(always)]
    pub fn complete_each<'a>(&mut self, chains: impl Iterator<Item = (&'a Chain, u32)>) {
        let (shared, mut used) = (self.shared, self.used);
        for (chain, written) in chains {
            shared.set_used_entry(used, chain.head, written);
            used = used.wrapping_add(1);
        }
        self.used = used;
    }

    /// Returns all chains of a burst that the device only read; with IN_ORDER by one used entry.
    #[inline(always)]
    pub fn complete_all(&mut self, burst: &Burst) {
        match burst.chains.last() {
            Some(last) if self.features.in_order => {
                self.shared.set_used_entry(self.used, last.head, 0);
                self.used = self.used.wrapping_add(burst.len() as u16);
            }
            _ => self.complete_each(burst.chains.iter().map(|chain| (chain, 0))),
        }
    }

    /// Hints that `n` used entries will be written soon.
    #[inline(always)]
    pub fn prefetch_used(&self, n: usize) {
        self.shared.prefetch_used_write(self.used, n as u16);
    }

    /// Shows the driver what was returned; true if it wants an interrupt for it.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.used);
        if old == new {
            return false;
        }
        self.published = new;
        self.renew();
        notify::publish(self.shared.used_index(), &self.shared.interrupt_wish(), old, new)
    }

    /// A wish for no kick by index fades; renew it while we poll.
    #[inline(always)]
    fn renew(&mut self) {
        if !self.armed && self.features.event_idx && self.next.wrapping_sub(self.declined) >= RENEW {
            self.disarm();
        }
    }

    /// Asks for a kick when the next chain comes; true if one is there already, in which case the caller must not
    /// sleep. Nothing comes out of a broken queue any more.
    pub fn arm(&mut self) -> bool {
        self.armed = true;
        let waiting = notify::arm(self.shared.available_index(), &self.shared.kick_wish(), self.next);
        waiting && self.broken.is_none()
    }

    /// Asks for no kicks: we poll.
    pub fn disarm(&mut self) {
        self.armed = false;
        self.declined = self.next;
        self.shared.kick_wish().decline(self.next);
    }
}

/// The fast path: one buffer, no table, near. `None` if the chain is anything else, a wrong address included.
#[inline(always)]
fn simple<const FLAGS: u16>(near: &Near, head: u16, descriptor: Descriptor) -> Option<Chain> {
    if descriptor.flags & (NEXT | WRITE | INDIRECT) != FLAGS || descriptor.len == 0 {
        return None;
    }
    let only = near.bytes(descriptor.address, descriptor.len)?;
    let readable = u8::from(FLAGS & WRITE == 0);
    if readable == 1 {
        only.prefetch();
    } else {
        only.prefetch_write();
    }
    Some(Chain { only, head, start: 0, readable, writable: 1 - readable })
}
