//! The writer's side of the IPv6 table: keeps all routes, and replaces the parts of the table that a change concerns.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

use router::NextHop;

use super::layout::{
    Entry, HOP_WORDS, KEY_BITS, Kind, MAGIC, Memory, NEXT_HOPS, NODE, NODE_BITS, ROOT_BITS, WIDE_DEPTH,
};
use super::list::{Interval, intervals};
use super::store::Store;
use super::table::{Table, pack, unpack};
use crate::Error;
use crate::hops::{Hops, Places, Way};
use crate::readers::oldest;

/// Maximum number of intervals of a list with keys of 32 bits: four cache lines, of which a search reads at most three.
pub(crate) const MOST_INTERVALS: usize = 32;
/// Number of routes up to which a node becomes a list again.
const FEW: usize = MOST_INTERVALS / 4;

/// All routes of an IPv6 table.
pub struct Rib<'a> {
    memory: Memory<'a>,
    /// Next hop of each route, by (prefix, length).
    routes: BTreeMap<(u128, u8), u32>,
    next_hops: Hops<Memory<'a>>,
    store: Store<'a>,
    epoch: u32,
}

/// An entry to be replaced: its word, and the prefix that it stands for.
#[derive(Clone, Copy)]
struct Place<'a> {
    word: &'a AtomicU64,
    prefix: u128,
    depth: u8,
}

impl<'a> Rib<'a> {
    /// Creates an empty table in memory that is zero.
    pub fn new(memory: Memory<'a>) -> Self {
        memory.header.nodes.store((memory.nodes.len() / NODE) as u32, Relaxed);
        memory.header.ranges.store(memory.ranges.len() as u32, Relaxed);
        memory.header.magic.store(MAGIC, Release);
        Self {
            memory,
            routes: BTreeMap::new(),
            next_hops: Hops::new(memory),
            store: Store::new(memory),
            epoch: 0,
        }
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the number of nodes, and of words of ranges, that have ever been in use.
    pub const fn used(&self) -> (usize, usize) {
        self.store.used()
    }

    /// Adds a route, or changes the next hop of an existing one.
    ///
    /// # Errors
    /// The prefix is not valid, or the table is full; then it is unchanged.
    pub fn add(&mut self, prefix: u128, len: u8, next_hop: NextHop) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.next_hops.take(pack(next_hop))?;
        self.install((prefix, len), number)
    }

    /// Adds a route with several next hops, as [`crate::Rib::add_ways`] does.
    ///
    /// # Errors
    /// The prefix or a next hop is not valid, or the table is full; then it is unchanged.
    pub fn add_ways(&mut self, prefix: u128, len: u8, ways: &[Way]) -> Result<(), Error> {
        check(prefix, len)?;
        if !ways.iter().all(Way::leads_on) {
            return Err(Error::Ways);
        }
        let words: Vec<([u64; 3], u8)> = ways.iter().map(|way| (pack(way.next_hop), way.weight)).collect();
        let like = self.routes.get(&(prefix, len)).copied();
        let number = self.next_hops.take_group(&words, like, self.epoch)?;
        self.install((prefix, len), number)
    }

    /// Sets which next hops of groups are down, as [`crate::Rib::set_down`] does.
    pub fn set_down(&self, is_down: impl Fn(u32, NextHop) -> bool) -> usize {
        self.next_hops.set_down(|number, words| is_down(number, unpack(words)))
    }

    /// Adds a route that has this number, or changes the number of an existing one.
    fn install(&mut self, (prefix, len): (u128, u8), number: u32) -> Result<(), Error> {
        let old = self.routes.insert((prefix, len), number);
        if let Err(error) = self.refresh(prefix, len) {
            match old {
                Some(old) => self.routes.insert((prefix, len), old),
                None => self.routes.remove(&(prefix, len)),
            };
            self.next_hops.give(number, self.epoch);
            return Err(error);
        }
        if let Some(old) = old {
            self.next_hops.give(old, self.epoch);
        }
        Ok(())
    }

    /// Returns a reader of the table.
    pub fn reader(&self) -> Table<'a> {
        Table::new(self.memory)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// There is no such route, or no room for the new lists; then the table is unchanged.
    pub fn remove(&mut self, prefix: u128, len: u8) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.routes.remove(&(prefix, len)).ok_or(Error::Absent)?;
        if let Err(error) = self.refresh(prefix, len) {
            self.routes.insert((prefix, len), number);
            return Err(error);
        }
        self.next_hops.give(number, self.epoch);
        Ok(())
    }

    /// Returns the prefix and the length of the longest route that has an address.
    pub fn route_of(&self, ip: u128) -> Option<(u128, u8)> {
        let mut by_length = (0..=128).rev().map(|len| (ip & mask(len), len));
        by_length.find(|route| self.routes.contains_key(route))
    }

    /// Publishes a batch of changes to readers; returns the new epoch, which is never [`OFFLINE`](crate::OFFLINE).
    pub fn publish(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        self.memory.header.epoch.store(self.epoch, Release);
        self.epoch
    }

    /// Takes over the epoch of the IPv4 table whose readers read this one too: changes from now on belong to it, and
    /// readers see it. To be called before a change, and after the publication of it by [`crate::Rib::publish`].
    pub fn follow(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.memory.header.epoch.store(epoch, Release);
    }

    /// Returns the epoch that was published last; 0: none yet.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns how many nodes, lists and next hops are out of use but may still be read.
    pub fn retired(&self) -> usize {
        self.store.retired() + self.next_hops.retired()
    }

    /// Reclaims what no reader can have any more. `readers` yields the word of each running reader: the epoch it uses, or
    /// [`OFFLINE`](crate::OFFLINE). Leave out a reader that was stopped, fenced or has not started.
    pub fn reclaim_for(&mut self, readers: impl IntoIterator<Item = u32>) {
        // After the removals, before the words, as for the IPv4 table.
        fence(SeqCst);
        self.reclaim(oldest(self.epoch, readers));
    }

    /// Reclaims what went out of use before `oldest`, the oldest epoch that a reader may still be in.
    pub fn reclaim(&mut self, oldest: u32) {
        self.store.reclaim(oldest);
        self.next_hops.reclaim(oldest, self.epoch);
    }

    /// Rebuilds the entries that a changed route concerns: all of them first, so that an error leaves the table unchanged.
    fn refresh(&mut self, prefix: u128, len: u8) -> Result<(), Error> {
        if len == 0 {
            let number = self.routes.get(&(0, 0)).copied().unwrap_or(0);
            self.memory.header.default_route.store(number, Release);
            return Ok(());
        }
        let places = self.places(prefix, len);
        let mut built = Vec::with_capacity(places.len());
        for place in &places {
            match self.build(place.prefix, place.depth) {
                Ok(entry) => built.push(entry),
                Err(error) => {
                    built.into_iter().for_each(|entry| self.store.give_back(entry));
                    return Err(error);
                }
            }
        }
        for (place, entry) in places.into_iter().zip(built) {
            let old = Entry(place.word.load(Relaxed));
            if old == entry {
                continue;
            }
            place.word.store(entry.0, Release);
            self.store.retire(old, self.epoch);
        }
        Ok(())
    }

    /// Returns the entries that a route concerns: one, unless the route is shorter than the entry's prefix.
    fn places(&self, prefix: u128, len: u8) -> Vec<Place<'a>> {
        let (mut words, mut depth): (&'a [AtomicU64], u8) = (&self.memory.root[..], ROOT_BITS);
        loop {
            let bits = if depth == ROOT_BITS { ROOT_BITS } else { NODE_BITS };
            let first = (prefix << (depth - bits) >> (128 - bits)) as usize;
            let count = 1 << depth.saturating_sub(len);
            let one = |n: usize| {
                let prefix = prefix & mask(depth) | (n as u128) << (128 - depth);
                Place { word: &words[first + n], prefix, depth }
            };
            let entry = Entry(words[first].load(Relaxed));
            if len <= depth || entry.kind() != Kind::Node || self.is_small(prefix & mask(depth), depth) {
                return (0..count).map(one).collect();
            }
            let node = entry.number() * NODE;
            (words, depth) = (&self.memory.nodes[node..node + NODE], depth + NODE_BITS);
        }
    }

    /// Returns true if so few routes are below a prefix that a list is enough for them.
    fn is_small(&self, prefix: u128, depth: u8) -> bool {
        let mut longest = 0;
        let few =
            self.below(prefix, depth).take(FEW + 1).inspect(|((_, len), _)| longest = longest.max(*len));
        few.count() <= FEW && longest <= depth + KEY_BITS
    }

    /// Returns the routes that are longer than a prefix and below it, in their order.
    fn below(&self, prefix: u128, depth: u8) -> impl Iterator<Item = ((u128, u8), u32)> {
        let range = (prefix, depth + 1)..=(prefix | !mask(depth), 128);
        // Shorter routes with the same first address precede them, those of the last address are all longer.
        self.routes
            .range(range)
            .map(|(key, number)| (*key, *number))
            .filter(move |((_, len), _)| *len > depth)
    }

    /// Builds the entry for a prefix of `depth` bits; nothing leads to it yet.
    fn build(&mut self, prefix: u128, depth: u8) -> Result<Entry, Error> {
        let cover = self.cover(prefix, depth);
        let mut longest = 0;
        let routes = self.below(prefix, depth).inspect(|((_, len), _)| longest = longest.max(*len));
        let spans = routes.map(|((first, len), number)| (first, first | !mask(len), number));
        let found: Vec<Interval> = if depth == WIDE_DEPTH {
            intervals((prefix, prefix | !mask(depth)), cover, spans)
        } else {
            // A list is not tried for more routes, although neighbouring ones may have the same next hop.
            let spans = spans.take(MOST_INTERVALS + 1).collect::<Vec<_>>();
            intervals((prefix, prefix | !mask(depth)), cover, spans.into_iter())
        };
        if let [(_, only)] = found[..]
            && (depth == WIDE_DEPTH || self.is_complete(prefix, depth))
        {
            return Ok(Entry::new(Kind::Leaf, only, 0));
        }
        if depth == WIDE_DEPTH {
            let words: Vec<u64> = found.iter().flat_map(|(at, hop)| [*at as u64, u64::from(*hop)]).collect();
            return self.store.list(Kind::Wide, &words, found.len());
        }
        if found.len() <= MOST_INTERVALS && longest <= depth + KEY_BITS && self.is_complete(prefix, depth) {
            let key = |at: u128| (at << depth >> 96) as u64;
            let words: Vec<u64> = found.iter().map(|(at, hop)| key(*at) << 32 | u64::from(*hop)).collect();
            return self.store.list(Kind::List, &words, found.len());
        }
        self.build_node(prefix, depth)
    }

    /// Returns true if the routes below a prefix are not more than [`Rib::build`] looks at.
    fn is_complete(&self, prefix: u128, depth: u8) -> bool {
        self.below(prefix, depth).take(MOST_INTERVALS + 2).count() <= MOST_INTERVALS + 1
    }

    fn build_node(&mut self, prefix: u128, depth: u8) -> Result<Entry, Error> {
        let depth = depth + NODE_BITS;
        let mut entries = Vec::with_capacity(NODE);
        for n in 0..NODE as u128 {
            match self.build(prefix | n << (128 - depth), depth) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    entries.into_iter().for_each(|entry| self.store.give_back(entry));
                    return Err(error);
                }
            }
        }
        let node = self.store.node(&entries);
        if node.is_err() {
            entries.into_iter().for_each(|entry| self.store.give_back(entry));
        }
        node
    }

    /// Returns the next hop of the longest route of at most `depth` bits that covers a prefix; 0 if there is none but the
    /// default route.
    ///
    /// Walks back in the order of (prefix, length), as [`crate::Rib`] does.
    fn cover(&self, prefix: u128, depth: u8) -> u32 {
        let mut before = (prefix, depth + 1);
        while let Some((&(other, len), &number)) = self.routes.range(..before).next_back() {
            let common = (prefix ^ other).leading_zeros() as u8;
            if len <= common && len <= depth {
                return if len == 0 { 0 } else { number };
            }
            // One more than `common`, because the upper bound of a range is exclusive.
            before = (prefix & mask(common), common + 1).min((other, len));
        }
        0
    }
}

impl Places for Memory<'_> {
    type Hop = [u64; 3];
    const MOST: usize = NEXT_HOPS;

    fn put(&self, number: u32, hop: [u64; 3]) {
        let first = number as usize * HOP_WORDS;
        for word in [2, 1, 0] {
            self.next_hops[first + word].store(hop[word], Release);
        }
    }

    fn kind(&self, number: u32) -> &AtomicU64 {
        &self.next_hops[number as usize * HOP_WORDS]
    }

    fn buckets(&self) -> &[AtomicU64] {
        self.buckets
    }
}

const fn mask(len: u8) -> u128 {
    match len {
        0 => 0,
        1..=127 => u128::MAX << (128 - len),
        _ => u128::MAX,
    }
}

fn check(prefix: u128, len: u8) -> Result<(), Error> {
    if len > 128 || prefix & !mask(len) != 0 { Err(Error::Prefix) } else { Ok(()) }
}
