//! The reader's side.
//! The reader's side of the table.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use router::{CHOICES, NextHop, NoRoutes6, Refusal, Routes};

use crate::layout::{GROUP, Header, IS_GROUP, Memory, NUMBER};
use crate::word::{self, CONNECTED, DOWN, GATEWAY, GATEWAY6, KIND_SHIFT, LOCAL, NIC_SHIFT, REFUSED};

/// A table as its readers see it.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    memory: Memory<'a>,
}

/// State between the two steps of a lookup: an entry of the first table, and the destination that selects the
/// entry of its group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    entry: u32,
    destination: u32,
}

/// Encodes a next hop in one word, so that it changes atomically for all readers.
#[cfg(feature = "rib")]
pub(crate) fn pack(next_hop: NextHop) -> u64 {
    match next_hop {
        // A group is no next hop.
        NextHop::None | NextHop::Group => 0,
        NextHop::Local => LOCAL << KIND_SHIFT,
        NextHop::Connected { nic } => CONNECTED << KIND_SHIFT | u64::from(nic) << NIC_SHIFT,
        NextHop::Gateway { nic, gateway } => {
            GATEWAY << KIND_SHIFT | u64::from(nic) << NIC_SHIFT | u64::from(gateway)
        }
        NextHop::Refused(refusal) => REFUSED << KIND_SHIFT | u64::from(refusal.number()),
        // Its address does not fit: see `pack_by_number`.
        NextHop::Gateway6 { .. } => 0,
    }
}

/// Encodes a next hop whose IPv6 gateway has this number in the header.
#[cfg(feature = "rib")]
pub(crate) const fn pack_by_number(nic: u8, number: u32) -> u64 {
    GATEWAY6 << KIND_SHIFT | (nic as u64) << NIC_SHIFT | number as u64
}

/// Decodes a next hop.
pub(crate) fn unpack(word: u64, header: &Header) -> NextHop {
    let nic = (word >> NIC_SHIFT) as u8;
    match word >> KIND_SHIFT {
        LOCAL => NextHop::Local,
        CONNECTED => NextHop::Connected { nic },
        GATEWAY => NextHop::Gateway { nic, gateway: word as u32 },
        REFUSED => NextHop::Refused(Refusal::numbered(word as u32)),
        word::GROUP => NextHop::Group,
        GATEWAY6 => match header.gateways6.get(word as u32 as usize) {
            Some([high, low]) => {
                let words = [high, low].map(|word| u128::from(word.load(Relaxed)));
                NextHop::Gateway6 { nic, gateway: words[0] << 64 | words[1] }
            }
            None => NextHop::None,
        },
        _ => NextHop::None,
    }
}

impl<'a> Table<'a> {
    /// Creates a reader of this memory.
    pub const fn new(memory: Memory<'a>) -> Self {
        Self { memory }
    }

    /// Returns the bucket that a hash selects in the group with this number; `None`: it is no group.
    #[inline(always)]
    fn bucket(&self, index: u32, hash: u32) -> Option<u64> {
        let group = self.memory.next_hops.get(index as usize)?.load(Acquire);
        let bucket = || self.memory.buckets.get(word::bucket(group, hash));
        word::is_group(group).then(|| bucket().map_or(0, |bucket| bucket.load(Relaxed)))
    }

    #[inline(always)]
    fn is_down(&self, number: u32) -> bool {
        self.memory.next_hops.get(number as usize).is_none_or(|word| word.load(Relaxed) & DOWN != 0)
    }

    fn group_entry(&self, step: Step) -> usize {
        (step.entry & NUMBER) as usize * GROUP + (step.destination & 0xff) as usize
    }

    #[inline(always)]
    fn or_default(&self, entry: u32) -> u32 {
        match entry & NUMBER {
            0 => self.memory.header.default_route.load(Relaxed),
            number => number,
        }
    }
}

impl Routes for Table<'_> {
    type Step = Step;
    type Six = NoRoutes6;

    fn six(&self) -> NoRoutes6 {
        NoRoutes6
    }

    #[inline(always)]
    fn prefetch(&self, destination: u32) {
        ring::prefetch::read(&raw const self.memory.tbl24[(destination >> 8) as usize]);
    }

    #[inline(always)]
    fn first(&self, destination: u32) -> Step {
        let step = Step { entry: self.memory.tbl24[(destination >> 8) as usize].load(Acquire), destination };
        if step.entry & IS_GROUP != 0
            && let Some(entry) = self.memory.tbl8.get(self.group_entry(step))
        {
            ring::prefetch::read(entry);
        }
        step
    }

    #[inline(always)]
    fn second(&self, step: Step) -> u32 {
        if step.entry & IS_GROUP == 0 {
            return self.or_default(step.entry);
        }
        // A correct table has no group number out of range: it reads as "no route".
        self.or_default(self.memory.tbl8.get(self.group_entry(step)).map_or(0, |entry| entry.load(Relaxed)))
    }

    fn next_hop(&self, index: u32) -> NextHop {
        self.memory
            .next_hops
            .get(index as usize)
            .map_or(NextHop::None, |word| unpack(word.load(Relaxed), self.memory.header))
    }

    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        match self.bucket(index, hash) {
            Some(bucket) => word::choices(bucket, |number| self.is_down(number)),
            None => [index, 0, 0, 0],
        }
    }

    #[inline(always)]
    fn member(&self, index: u32, hash: u32) -> u32 {
        let bucket = self.bucket(index, hash);
        bucket.map_or(index, |bucket| word::first_choice(bucket, |number| self.is_down(number)))
    }

    fn leads_by(&self, index: u32, nic: u8) -> bool {
        let group = self.memory.next_hops.get(index as usize).map_or(0, |word| word.load(Acquire));
        if !word::is_group(group) {
            return self.next_hop(index).is_behind(nic);
        }
        let Some(buckets) = self.memory.buckets.get(word::buckets(group)) else { return false };
        buckets.iter().any(|bucket| self.next_hop(word::choice(bucket.load(Relaxed), 0)).is_behind(nic))
    }

    #[inline(always)]
    fn epoch(&self) -> u32 {
        self.memory.header.epoch.load(Acquire)
    }
}
