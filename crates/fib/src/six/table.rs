//! The reader's side of the IPv6 table.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use router::{CHOICES, NextHop, Refusal, Routes6};

use super::layout::{Entry, HOP_WORDS, Kind, Memory, NODE, ROOT_BITS};
use crate::word::{self, CONNECTED, DOWN, GATEWAY, GATEWAY6, KIND_SHIFT, LOCAL, NIC_SHIFT, REFUSED};

/// A table as its readers see it.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    memory: Memory<'a>,
}

/// State between two steps of a lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    destination: u128,
    entry: Entry,
    /// Bits of the destination that led to the entry.
    depth: u8,
}

/// Encodes a next hop in three words. They are written before the first entry refers to them, and but for the mark of one that
/// is down not changed before the last reader has left those that did.
#[cfg(feature = "rib")]
pub(crate) fn pack(next_hop: NextHop) -> [u64; 3] {
    let first = |kind: u64, nic: u8| kind << KIND_SHIFT | u64::from(nic) << NIC_SHIFT;
    match next_hop {
        // A group is no next hop.
        NextHop::None | NextHop::Group => [0; 3],
        NextHop::Refused(refusal) => [first(REFUSED, 0), 0, refusal.number().into()],
        NextHop::Local => [first(LOCAL, 0), 0, 0],
        NextHop::Connected { nic } => [first(CONNECTED, nic), 0, 0],
        NextHop::Gateway { nic, gateway } => [first(GATEWAY, nic), 0, gateway.into()],
        NextHop::Gateway6 { nic, gateway } => [first(GATEWAY6, nic), (gateway >> 64) as u64, gateway as u64],
    }
}

/// Decodes a next hop.
pub(crate) fn unpack([first, high, low]: [u64; 3]) -> NextHop {
    let nic = (first >> NIC_SHIFT) as u8;
    match first >> KIND_SHIFT {
        REFUSED => NextHop::Refused(Refusal::numbered(low as u32)),
        word::GROUP => NextHop::Group,
        LOCAL => NextHop::Local,
        CONNECTED => NextHop::Connected { nic },
        GATEWAY => NextHop::Gateway { nic, gateway: low as u32 },
        GATEWAY6 => NextHop::Gateway6 { nic, gateway: u128::from(high) << 64 | u128::from(low) },
        _ => NextHop::None,
    }
}

impl<'a> Table<'a> {
    /// Creates a reader of this memory.
    pub const fn new(memory: Memory<'a>) -> Self {
        Self { memory }
    }

    /// Returns the first word of a next hop or group.
    #[inline(always)]
    fn kind(&self, index: u32) -> Option<u64> {
        self.memory.next_hops.get(index as usize * HOP_WORDS).map(|word| word.load(Acquire))
    }

    /// Returns the bucket that a hash selects in the group with this number; `None`: it is no group.
    #[inline(always)]
    fn bucket(&self, index: u32, hash: u32) -> Option<u64> {
        let group = self.kind(index)?;
        let bucket = || self.memory.buckets.get(word::bucket(group, hash));
        word::is_group(group).then(|| bucket().map_or(0, |bucket| bucket.load(Relaxed)))
    }

    #[inline(always)]
    fn is_down(&self, number: u32) -> bool {
        self.kind(number).is_none_or(|word| word & DOWN != 0)
    }

    /// Returns the place of the entry that a node has for the destination.
    #[inline(always)]
    fn place(step: &Step) -> usize {
        let byte = (step.destination << step.depth >> 120) as usize;
        step.entry.number() * NODE + byte
    }

    /// Prefetches what the next step, or [`Routes6::found`], reads.
    #[inline(always)]
    fn prefetch(&self, step: &Step) {
        match step.entry.kind() {
            Kind::Leaf => {}
            Kind::Node => {
                if let Some(word) = self.memory.nodes.get(Self::place(step)) {
                    ring::prefetch::read(word);
                }
            }
            Kind::List | Kind::Wide => {
                // The search begins in the middle.
                let at = step.entry.number();
                for at in [at, at + step.entry.count() / 2] {
                    if let Some(word) = self.memory.ranges.get(at) {
                        ring::prefetch::read(word);
                    }
                }
            }
        }
    }

    /// Returns the next hop in a list of words: that of the last interval that begins at the key or before.
    #[inline(always)]
    fn search(&self, step: &Step) -> u32 {
        let key = (step.destination << step.depth >> 96) as u32;
        let (mut at, mut left) = (step.entry.number(), step.entry.count());
        let word = |at: usize| self.memory.ranges.get(at).map_or(0, |word| word.load(Relaxed));
        while left > 1 {
            let half = left / 2;
            let before = (word(at + half) >> 32) as u32 <= key;
            at = if before { at + half } else { at };
            left = if before { left - half } else { half };
        }
        word(at) as u32
    }

    /// Searches a list of ranges whose borders take two words each.
    #[inline(never)]
    fn search_wide(&self, step: &Step) -> u32 {
        let key = step.destination as u64;
        let (first, mut at, mut left) = (step.entry.number(), 0, step.entry.count());
        let word = |at: usize| self.memory.ranges.get(first + at).map_or(0, |word| word.load(Relaxed));
        while left > 1 {
            let half = left / 2;
            if word(2 * (at + half)) <= key {
                (at, left) = (at + half, left - half);
            } else {
                left = half;
            }
        }
        word(2 * at + 1) as u32
    }

    #[inline(always)]
    fn or_default(&self, number: u32) -> u32 {
        match number {
            0 => self.memory.header.default_route.load(Relaxed),
            number => number,
        }
    }
}

impl Routes6 for Table<'_> {
    type Step = Step;

    /// The six nodes from depth 16 to depth 56.
    const STEPS: usize = 6;

    #[inline(always)]
    fn first(&self, destination: u128) -> Step {
        let entry = Entry(self.memory.root[(destination >> 112) as usize].load(Acquire));
        let step = Step { destination, entry, depth: ROOT_BITS };
        self.prefetch(&step);
        step
    }

    #[inline(always)]
    fn is_done(&self, step: Step) -> bool {
        step.entry.kind() != Kind::Node
    }

    #[inline(always)]
    fn next(&self, step: Step) -> Step {
        if self.is_done(step) {
            return step;
        }
        // A correct table has no node out of range: it reads as "no route".
        let word = self.memory.nodes.get(Self::place(&step)).map_or(0, |word| word.load(Acquire));
        let step = Step { entry: Entry(word), depth: step.depth + 8, ..step };
        self.prefetch(&step);
        step
    }

    #[inline(always)]
    fn found(&self, step: Step) -> u32 {
        self.or_default(match step.entry.kind() {
            Kind::Leaf => step.entry.number() as u32,
            Kind::List => self.search(&step),
            Kind::Wide => self.search_wide(&step),
            // A correct table has no such chain of nodes.
            Kind::Node => 0,
        })
    }

    fn next_hop(&self, index: u32) -> NextHop {
        let at = index as usize * HOP_WORDS;
        let Some(words) = self.memory.next_hops.get(at..at + 3) else { return NextHop::None };
        unpack([0, 1, 2].map(|word| words[word].load(Relaxed)))
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
        let group = self.kind(index).unwrap_or(0);
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
