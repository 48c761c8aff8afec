//! The device's end: takes chains from the available ring and returns them through the used ring. It trusts none of the
//! driver's words, and reads each of them once.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use arrayvec::ArrayVec;

use super::burst::{Burst, Chain};
use super::notify;
use super::shared::{Descriptor, INDIRECT, NEXT, Shared, WRITE};
use super::walk::{Direction, Walk};
use super::{Broken, Features, Layout, LayoutError};
use crate::regions::RegionCache;
use crate::{BURST, Regions};

/// Placeholder for a descriptor number. In a ring that has been in use a chain can begin anywhere; the first available
/// entry says where.
const UNKNOWN: u16 = u16::MAX;
/// Distance that an index moves before a declined event index is renewed.
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
    /// With IN_ORDER: the descriptor at which the next chain begins; [`UNKNOWN`] until the first chain was seen.
    head: u16,
    /// Used index of the next chain to return.
    used: u16,
    /// Used index that the driver sees.
    published: u16,
    /// Available index at which the event index that declines kicks was last written.
    declined: u16,
    armed: bool,
    broken: Option<Broken>,
}

impl DeviceQueue {
    /// Creates a queue that the driver has just set up: both indices are 0. Kicks are enabled until [`Self::disarm`].
    pub fn new(memory: impl Into<Regions>, layout: &Layout, features: Features) -> Result<Self, LayoutError> {
        Self::resume(memory, layout, features, 0)
    }

    /// Creates a queue of which a device has already taken and returned `index` chains (modulo 65536).
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

    /// Creates a queue that another device has served, which may have died at any moment: continues at the used index.
    /// Chains that the dead device took and did not return are taken again.
    ///
    /// A device that was killed cannot report its position, so the used index is all that is known. A split ring has it
    /// in memory; a packed ring would need a word from the party that kept its wrap counters.
    pub fn take_over(
        memory: impl Into<Regions>,
        layout: &Layout,
        features: Features,
    ) -> Result<Self, LayoutError> {
        let memory = memory.into();
        let index = Shared::map(&memory, layout, features)?.used_index().load(Acquire);
        // Index 0 may follow 65536 chains of several descriptors each: the first entry says where the next one begins.
        Ok(Self { head: UNKNOWN, ..Self::resume(memory, layout, features, index)? })
    }

    /// Returns the number of entries.
    pub const fn size(&self) -> u16 {
        self.shared.size()
    }

    /// Returns the negotiated features that this queue uses.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Returns the available index of the next chain: the argument for [`Self::resume`] if no chain is outstanding.
    pub const fn index(&self) -> u16 {
        self.next
    }

    /// Returns the reason why the queue stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Stops the queue.
    #[cold]
    fn fail<T>(&mut self, reason: Broken) -> Result<T, Broken> {
        self.seen = self.next;
        Err(*self.broken.get_or_insert(reason))
    }

    /// Counts the waiting chains; reads the driver's index only if fewer than `wanted` are known.
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
        // Chains that are not yet returned still occupy their entries.
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

    /// Takes up to `max` (at most [`BURST`]) chains that the device is to read. Empties the burst first; returns how
    /// many chains it holds afterwards. An error stops the queue; chains taken before it may still be returned.
    ///
    /// Whatever the driver wrote, a call reads a bounded number of descriptors and entries, and shows at least one
    /// chain if one waits; the rest comes with the next call, in order ([`Burst::is_cut`]).
    #[inline]
    pub fn take_readable(&mut self, max: usize, burst: &mut Burst) -> Result<usize, Broken> {
        self.take::<0>(max, burst, Direction::Readable)
    }

    /// As [`Self::take_readable`], for chains that the device is to write.
    #[inline]
    pub fn take_writable(&mut self, max: usize, burst: &mut Burst) -> Result<usize, Broken> {
        self.take::<WRITE>(max, burst, Direction::Writable)
    }

    /// As [`Self::take_readable`], for chains that may have buffers of both kinds: requests with room for a reply.
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

    /// Takes a chain of any shape. Returns false if the burst has no room for it (it is taken next time) or the queue
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
                self.memory.cache(walked.last);
                burst.chains.push(walked.chain);
                self.head = head.wrapping_add(walked.entries) & shared.mask();
                self.next = self.next.wrapping_add(1);
                Ok(true)
            }
            Err(reason) => self.stop(reason, burst).map(|_| false),
        }
    }

    /// Stops the queue; chains taken before are still shown.
    #[cold]
    fn stop(&mut self, reason: Broken, burst: &Burst) -> Result<usize, Broken> {
        self.seen = self.next;
        self.broken.get_or_insert(reason);
        if burst.is_empty() { Err(reason) } else { Ok(burst.len()) }
    }

    /// Puts the chains of `burst` from number `keep` on back, as if they had never been taken. Valid only for the burst
    /// that was taken last, before anything else is taken.
    pub fn give_back(&mut self, burst: &mut Burst, keep: usize) {
        if let Some(first) = burst.chains.get(keep) {
            self.head = first.head;
            self.next = self.next.wrapping_sub((burst.len() - keep) as u16);
            burst.chains.truncate(keep);
        }
    }

    /// Returns a chain into which the device wrote `written` octets. Chains must be returned in the order of taking if
    /// IN_ORDER was negotiated, otherwise in any order. The driver sees it after [`Self::publish`].
    #[inline(always)]
    pub fn complete(&mut self, chain: &Chain, written: u32) {
        self.shared.set_used_entry(self.used, chain.head, written);
        self.used = self.used.wrapping_add(1);
    }

    /// Returns several chains, each with the number of octets that the device wrote into it.
    #[inline(always)]
    pub fn complete_each<'a>(&mut self, chains: impl Iterator<Item = (&'a Chain, u32)>) {
        let (shared, mut used) = (self.shared, self.used);
        for (chain, written) in chains {
            shared.set_used_entry(used, chain.head, written);
            used = used.wrapping_add(1);
        }
        self.used = used;
    }

    /// Returns all chains of a burst that the device only read; with IN_ORDER this takes one used entry.
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

    /// Prefetches `n` used entries for writing.
    #[inline(always)]
    pub fn prefetch_used(&self, n: usize) {
        self.shared.prefetch_used_write(self.used, n as u16);
    }

    /// Publishes the returned chains; returns true if the driver wants an interrupt.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.used);
        if old == new {
            return false;
        }
        self.published = new;
        self.renew();
        notify::publish(self.shared.used_index(), &self.shared.interrupt_suppression(), old, new)
    }

    /// An event index that declines kicks expires when the available index wraps around; renews it while we poll.
    #[inline(always)]
    fn renew(&mut self) {
        if !self.armed && self.features.event_idx && self.next.wrapping_sub(self.declined) >= RENEW {
            self.disarm();
        }
    }

    /// Asks for a kick when the next chain becomes available; returns true if one is available already, in which case
    /// the caller must not sleep. A broken queue yields no more chains, so it returns false.
    pub fn arm(&mut self) -> bool {
        self.armed = true;
        let waiting = notify::arm(self.shared.available_index(), &self.shared.kick_suppression(), self.next);
        waiting && self.broken.is_none()
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        self.armed = false;
        self.declined = self.next;
        self.shared.kick_suppression().disable(self.next);
    }
}

/// Fast path: a chain of one buffer in a near range, without a table. `None` for any other chain, including one with an
/// invalid address.
#[inline(always)]
fn simple<const FLAGS: u16>(near: &RegionCache, head: u16, descriptor: Descriptor) -> Option<Chain> {
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
