//! The writer's side: keeps all routes, and writes the table so that for each address a reader sees either the old or
//! the new route, never anything else.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use router::NextHop;

use crate::hops::{Hops, Places, Way};
use crate::layout::{DEPTH_SHIFT, GATEWAYS6, GROUP, IS_GROUP, MAGIC, Memory, NEXT_HOPS, NUMBER};
use crate::readers::oldest;
use crate::retired::Retired;
use crate::table::{Table, pack, pack_by_number, unpack};

/// Reason why a route cannot be changed. The table is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The prefix is longer than its address (32 or 128 bits), or has bits set after its length.
    Prefix,
    /// There is no such route.
    Absent,
    /// The table has no group left for another /24 network with longer prefixes.
    Groups,
    /// An IPv6 table has no node or range left for another part of the addresses.
    Nodes,
    /// The table has no number left for another next hop.
    NextHops,
    /// The table has no buckets left for another group of next hops.
    Buckets,
    /// The next hops of a route are not 1 to [`MOST_WAYS`](crate::MOST_WAYS) ways on, each with a weight.
    Ways,
    /// No number is free at present; some will be when the last reader has left an old epoch, or was fenced.
    Waiting,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Prefix => "a prefix is not longer than its address, and has no bits set behind its length",
            Self::Absent => "there is no such route",
            Self::Groups => "the route table is full: too many networks with prefixes longer than /24",
            Self::Nodes => "the route table is full: too many IPv6 prefixes that lie apart from each other",
            Self::NextHops => "the route table is full: too many different next hops",
            Self::Buckets => "the route table is full: too many different groups of next hops",
            Self::Ways => "a route has 1 to 64 next hops that lead on, each with a weight of at least 1",
            Self::Waiting => {
                "the route table is full until its readers have left what was removed: try again"
            }
        })
    }
}

impl core::error::Error for Error {}

/// All routes of a table.
pub struct Rib<'a> {
    memory: Memory<'a>,
    /// Next hop of each route, by (prefix, length).
    routes: BTreeMap<(u32, u8), u32>,
    next_hops: Hops<Memory<'a>>,
    groups: Groups,
    pub(crate) epoch: u32,
}

/// The groups of the second table.
struct Groups {
    count: u32,
    /// Number of prefixes longer than /24 in each.
    users: Vec<u32>,
    free: Vec<u32>,
    retired: Retired,
    /// Retired group of each /24, by its first 24 bits.
    homes: BTreeMap<u32, u32>,
}

impl<'a> Rib<'a> {
    /// Creates an empty table in memory that is zero.
    pub fn new(memory: Memory<'a>) -> Self {
        memory.header.magic.store(MAGIC, Release);
        let count = (memory.tbl8.len() / GROUP).min(NUMBER as usize) as u32;
        Self {
            memory,
            routes: BTreeMap::new(),
            next_hops: Hops::new(memory),
            groups: Groups {
                count,
                users: Vec::new(),
                free: Vec::new(),
                retired: Retired::default(),
                homes: BTreeMap::new(),
            },
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

    /// Adds a route, or changes the next hop of an existing one.
    pub fn add(&mut self, prefix: u32, len: u8, next_hop: NextHop) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.next_hops.take(self.word(next_hop)?)?;
        self.install((prefix, len), number)
    }

    /// Adds a route with several next hops, over which flows are spread, or changes those of an existing one. Flows stay where
    /// they are as far as the weights permit it.
    ///
    /// # Errors
    /// The prefix or a next hop is not valid, or the table is full; then it is unchanged.
    pub fn add_ways(&mut self, prefix: u32, len: u8, ways: &[Way]) -> Result<(), Error> {
        check(prefix, len)?;
        let word = |way: &Way| -> Result<(u64, u8), Error> {
            let next_hop = Some(way.next_hop).filter(|_| way.leads_on()).ok_or(Error::Ways)?;
            Ok((self.word(next_hop)?, way.weight))
        };
        let words = ways.iter().map(word).collect::<Result<Vec<_>, Error>>()?;
        let like = self.routes.get(&(prefix, len)).copied();
        let number = self.next_hops.take_group(&words, like, self.epoch)?;
        self.install((prefix, len), number)
    }

    /// Adds a route that has this number, or changes the number of an existing one.
    fn install(&mut self, (prefix, len): (u32, u8), number: u32) -> Result<(), Error> {
        let old = self.routes.get(&(prefix, len)).copied();
        if let Err(error) = self.write(prefix, len, entry(number, len), old.is_none()) {
            self.next_hops.give(number, self.epoch);
            return Err(error);
        }
        self.routes.insert((prefix, len), number);
        if let Some(old) = old {
            self.next_hops.give(old, self.epoch);
        }
        Ok(())
    }

    /// Sets for each next hop of a group, which has this number, whether it is down: its flows move to other next hops of their
    /// groups, and those of others stay. Each change is one word, however many routes there are. Returns the number of changes.
    pub fn set_down(&self, is_down: impl Fn(u32, NextHop) -> bool) -> usize {
        let header = self.memory.header;
        self.next_hops.set_down(|number, word| is_down(number, unpack(word, header)))
    }

    /// Returns the word of a next hop. The address of an IPv6 gateway gets a place in the header, which it keeps as long as a next
    /// hop refers to it.
    fn word(&self, next_hop: NextHop) -> Result<u64, Error> {
        let NextHop::Gateway6 { nic, gateway } = next_hop else { return Ok(pack(next_hop)) };
        let places = &self.memory.header.gateways6;
        let place_of = |words: [u64; 2]| {
            places.iter().position(|place| place.each_ref().map(|word| word.load(Relaxed)) == words)
        };
        let words = [(gateway >> 64) as u64, gateway as u64];
        let number = match (place_of(words), place_of([0, 0])) {
            (Some(known), _) => known,
            (None, Some(free)) => {
                // Nothing refers to it yet.
                places[free].iter().zip(words).for_each(|(place, word)| place.store(word, Release));
                free
            }
            (None, None) if self.next_hops.retired() > 0 => return Err(Error::Waiting),
            (None, None) => return Err(Error::NextHops),
        };
        Ok(pack_by_number(nic, number as u32))
    }

    /// Clears the places of IPv6 gateways to which no next hop refers, not even one that may still be read.
    fn free_gateways6(&self) {
        let mut used = [false; GATEWAYS6];
        for hop in self.next_hops.between(pack_by_number(0, 0), pack_by_number(u8::MAX, u32::MAX)) {
            if let Some(used) = used.get_mut(hop as u32 as usize) {
                *used = true;
            }
        }
        let places = self.memory.header.gateways6.iter().zip(used);
        for word in places.filter(|(_, used)| !used).flat_map(|(place, _)| place) {
            if word.load(Relaxed) != 0 {
                word.store(0, Release);
            }
        }
    }

    /// Returns a reader of the table.
    pub fn reader(&self) -> Table<'a> {
        Table::new(self.memory)
    }

    /// Removes a route.
    pub fn remove(&mut self, prefix: u32, len: u8) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.routes.remove(&(prefix, len)).ok_or(Error::Absent)?;
        let cover = self.cover(prefix, len);
        self.unwrite(prefix, len, cover);
        self.next_hops.give(number, self.epoch);
        Ok(())
    }

    /// Returns the prefix and the length of the longest route that has an address.
    pub fn route_of(&self, ip: u32) -> Option<(u32, u8)> {
        let mut by_length = (0..=32).rev().map(|len| (ip & mask(len), len));
        by_length.find(|route| self.routes.contains_key(route))
    }

    /// Tells readers that an IPv6 table lies in the same memory, at this offset in octets.
    pub fn announce_six(&self, at: u64) {
        self.memory.header.six_at.store(at, Release);
    }

    /// Publishes a batch of changes to readers; returns the new epoch, which is never [`OFFLINE`](crate::OFFLINE).
    pub fn publish(&mut self) -> u32 {
        self.follow(self.next_epoch());
        self.epoch
    }

    /// Returns the epoch that will be published next.
    pub const fn next_epoch(&self) -> u32 {
        let next = self.epoch.wrapping_add(1);
        if next == 0 { 1 } else { next }
    }

    /// Takes over the epoch of another table whose readers read this one too, as [`crate::six::Rib::follow`] does.
    pub fn follow(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.memory.header.epoch.store(epoch, Release);
    }

    /// Returns the epoch that was published last; 0: none yet.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns how many groups and next hops are out of use but may still be read.
    pub fn retired(&self) -> usize {
        self.groups.retired.len() + self.next_hops.retired()
    }

    /// Reclaims numbers that no reader can have any more. `readers` yields the word of each running reader: the epoch
    /// it uses, or [`OFFLINE`](crate::OFFLINE). Leave out a reader that was stopped, fenced or has not started.
    pub fn reclaim_for(&mut self, readers: impl IntoIterator<Item = u32>) {
        // After the removals, before the words: a reader that is seen offline here sees the removals when it comes
        // back, because it publishes its epoch and executes a fence before it looks anything up.
        fence(SeqCst);
        self.reclaim(oldest(self.epoch, readers));
    }

    /// Reclaims numbers that went out of use before `oldest`, the oldest epoch that a reader may still be in.
    pub fn reclaim(&mut self, oldest: u32) {
        let Groups { retired, free, homes, .. } = &mut self.groups;
        let memory = self.memory;
        retired.drain_older(oldest, |group, home| {
            group_of(&memory, group).iter().for_each(|word| word.store(0, Relaxed));
            homes.remove(&home);
            free.push(group);
        });
        self.next_hops.reclaim(oldest, self.epoch);
        self.free_gateways6();
    }

    /// Returns the entry of the longest shorter route that covers a prefix; 0 if there is none but the default route.
    ///
    /// Walks back in the order of (prefix, length): routes that cover a prefix precede it, and after a route that does
    /// not cover it the next candidate is at most as long as the common bits of both.
    fn cover(&self, prefix: u32, len: u8) -> u32 {
        let mut before = (prefix, len);
        while let Some((&(other, shorter), &number)) = self.routes.range(..before).next_back() {
            let common = (prefix ^ other).leading_zeros() as u8;
            if shorter <= common && shorter < len {
                return if shorter == 0 { 0 } else { entry(number, shorter) };
            }
            // One more than `common`, because the upper bound of a range is exclusive. The prefix truncated to it may
            // be larger than `other`, but never larger than `before`.
            before = (prefix & mask(common), common + 1).min((other, shorter));
        }
        0
    }

    fn write(&mut self, prefix: u32, len: u8, new: u32, is_new: bool) -> Result<(), Error> {
        match len {
            0 => self.memory.header.default_route.store(new & NUMBER, Release),
            1..=24 => self.each_short(prefix, len, |old| if depth(old) <= len { new } else { old }),
            _ => {
                let group = self.group(prefix)?;
                self.groups.users[group as usize] += u32::from(is_new);
                for word in &group_of(&self.memory, group)[range(prefix, len)] {
                    if depth(word.load(Relaxed)) <= len {
                        word.store(new, Release);
                    }
                }
            }
        }
        Ok(())
    }

    fn unwrite(&mut self, prefix: u32, len: u8, cover: u32) {
        match len {
            0 => self.memory.header.default_route.store(0, Release),
            1..=24 => self.each_short(prefix, len, |old| if depth(old) == len { cover } else { old }),
            _ => self.unwrite_long(prefix, len, cover),
        }
    }

    fn unwrite_long(&mut self, prefix: u32, len: u8, cover: u32) {
        let place = &self.memory.tbl24[(prefix >> 8) as usize];
        let group = place.load(Relaxed) & NUMBER;
        for word in &group_of(&self.memory, group)[range(prefix, len)] {
            if depth(word.load(Relaxed)) == len {
                word.store(cover, Release);
            }
        }
        let users = &mut self.groups.users[group as usize];
        *users -= 1;
        if *users == 0 {
            // No long prefix is left: all entries are equal.
            place.store(group_of(&self.memory, group)[0].load(Relaxed), Release);
            self.groups.retire(group, prefix >> 8, self.epoch);
        }
    }

    /// Changes all entries of a prefix of /24 or shorter, including those in groups.
    fn each_short(&self, prefix: u32, len: u8, change: impl Fn(u32) -> u32) {
        let first = (prefix >> 8) as usize;
        for place in &self.memory.tbl24[first..first + (1 << (24 - u32::from(len)))] {
            let old = place.load(Relaxed);
            if old & IS_GROUP != 0 {
                group_of(&self.memory, old & NUMBER).iter().for_each(|word| update(word, &change));
            } else {
                update(place, &change);
            }
        }
    }

    /// Returns the group for a long prefix; a new group is filled before readers can find it.
    fn group(&mut self, prefix: u32) -> Result<u32, Error> {
        let place = &self.memory.tbl24[(prefix >> 8) as usize];
        let old = place.load(Relaxed);
        if old & IS_GROUP != 0 {
            return Ok(old & NUMBER);
        }
        let group = self.groups.take(prefix >> 8)?;
        group_of(&self.memory, group).iter().for_each(|word| word.store(old, Release));
        place.store(IS_GROUP | group, Release);
        Ok(group)
    }
}

impl Places for Memory<'_> {
    type Hop = u64;
    const MOST: usize = NEXT_HOPS;

    fn put(&self, number: u32, hop: u64) {
        self.kind(number).store(hop, Release);
    }

    fn kind(&self, number: u32) -> &AtomicU64 {
        &self.next_hops[number as usize]
    }

    fn buckets(&self) -> &[AtomicU64] {
        self.buckets
    }
}

impl Groups {
    /// Returns a group for the /24 `home`. The retired group of the same /24, if readers may still have it, is as good
    /// as a free one: a reader that still uses it looks up an address of that /24.
    fn take(&mut self, home: u32) -> Result<u32, Error> {
        if let Some(group) = self.homes.remove(&home) {
            self.retired.revive(group);
            return Ok(group);
        }
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        if self.users.len() as u32 == self.count {
            return Err(if self.retired.len() > 0 { Error::Waiting } else { Error::Groups });
        }
        self.users.push(0);
        Ok(self.users.len() as u32 - 1)
    }

    fn retire(&mut self, group: u32, home: u32, epoch: u32) {
        self.retired.retire(group, home, epoch);
        self.homes.insert(home, group);
    }
}

fn group_of<'a>(memory: &Memory<'a>, group: u32) -> &'a [AtomicU32] {
    let first = group as usize * GROUP;
    &memory.tbl8[first..first + GROUP]
}

fn update(word: &AtomicU32, change: impl Fn(u32) -> u32) {
    let old = word.load(Relaxed);
    let new = change(old);
    if new != old {
        word.store(new, Release);
    }
}

/// Returns the range of entries of a long prefix in its group.
fn range(prefix: u32, len: u8) -> Range<usize> {
    let first = (prefix & 0xff) as usize;
    first..first + (1 << (32 - u32::from(len)))
}

const fn mask(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len as u32) }
}

const fn entry(number: u32, len: u8) -> u32 {
    number | (len as u32) << DEPTH_SHIFT
}

const fn depth(entry: u32) -> u8 {
    (entry >> DEPTH_SHIFT & 0x3f) as u8
}

fn check(prefix: u32, len: u8) -> Result<(), Error> {
    if len > 32 || prefix & !mask(len) != 0 { Err(Error::Prefix) } else { Ok(()) }
}
