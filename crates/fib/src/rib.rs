//! The writer's side: keeps all routes, and writes the table so that a reader sees for each address either what was
//! or what is, never anything else.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use router::NextHop;

use crate::layout::{DEPTH_SHIFT, GROUP, IS_GROUP, Memory, NEXT_HOPS, NUMBER};
use crate::table::pack;

/// Why a route cannot be changed. The table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The prefix is longer than 32 bits, or has bits behind its length.
    Prefix,
    /// There is no such route.
    Absent,
    /// The table has no group left for another network of prefixes longer than /24.
    Groups,
    /// The table has no place left for another next hop.
    NextHops,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Prefix => "a prefix has at most 32 bits, and none set behind its length",
            Self::Absent => "there is no such route",
            Self::Groups => "the route table is full: too many networks with prefixes longer than /24",
            Self::NextHops => "the route table is full: too many different next hops",
        })
    }
}

impl core::error::Error for Error {}

/// All routes of a table.
pub struct Rib<'a> {
    memory: Memory<'a>,
    /// Next hop of each route, by (prefix, length).
    routes: BTreeMap<(u32, u8), u32>,
    next_hops: NextHops,
    groups: Groups,
    epoch: u32,
}

/// The next hops in use, by value and by number.
struct NextHops {
    numbers: BTreeMap<u64, u32>,
    values: Vec<u64>,
    users: Vec<u32>,
    free: Vec<u32>,
    retired: VecDeque<(u32, u32)>,
}

/// The groups of the second table.
struct Groups {
    count: u32,
    /// Prefixes longer than /24 in each.
    users: Vec<u32>,
    free: Vec<u32>,
    retired: VecDeque<(u32, u32)>,
}

impl<'a> Rib<'a> {
    /// An empty table in memory that is zero.
    pub fn new(memory: Memory<'a>) -> Self {
        let count = (memory.tbl8.len() / GROUP).min(NUMBER as usize) as u32;
        Self {
            memory,
            routes: BTreeMap::new(),
            next_hops: NextHops {
                numbers: BTreeMap::new(),
                values: alloc::vec![0],
                users: alloc::vec![0],
                free: Vec::new(),
                retired: VecDeque::new(),
            },
            groups: Groups { count, users: Vec::new(), free: Vec::new(), retired: VecDeque::new() },
            epoch: 0,
        }
    }

    /// Routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Adds a route, or gives an existing one another next hop.
    pub fn add(&mut self, prefix: u32, len: u8, next_hop: NextHop) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.next_hops.take(pack(next_hop), &self.memory)?;
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

    /// Takes a route away.
    pub fn remove(&mut self, prefix: u32, len: u8) -> Result<(), Error> {
        check(prefix, len)?;
        let number = self.routes.remove(&(prefix, len)).ok_or(Error::Absent)?;
        let cover = self.cover(prefix, len);
        self.unwrite(prefix, len, cover);
        self.next_hops.give(number, self.epoch);
        Ok(())
    }

    /// Shows readers that a batch of changes is done; returns the new epoch.
    pub fn publish(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.memory.header.epoch.store(self.epoch, Release);
        self.epoch
    }

    /// What was taken out of use before `oldest`, the oldest epoch that a reader may still be in, can be used again.
    pub fn reclaim(&mut self, oldest: u32) {
        let Groups { retired, free, .. } = &mut self.groups;
        let memory = self.memory;
        drain_older(retired, oldest, |group| {
            group_of(&memory, group).iter().for_each(|word| word.store(0, Relaxed));
            free.push(group);
        });
        let NextHops { retired, free, .. } = &mut self.next_hops;
        drain_older(retired, oldest, |number| free.push(number));
    }

    /// The entry of the longest route that covers a prefix and is shorter; 0 if there is none but the default one.
    ///
    /// Walks back in the order of (prefix, length): what covers a prefix stands before it, and from a route that does
    /// not cover it the next candidate is at most as long as the bits both have in common.
    fn cover(&self, prefix: u32, len: u8) -> u32 {
        let mut before = (prefix, len);
        while let Some((&(other, shorter), &number)) = self.routes.range(..before).next_back() {
            let common = (prefix ^ other).leading_zeros() as u8;
            if shorter <= common && shorter < len {
                return if shorter == 0 { 0 } else { entry(number, shorter) };
            }
            // One more than `common`, since the bound of a range is not part of it. The prefix cut to it may be
            // larger than `other`, never larger than `before`.
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
            // No long prefix is left: all entries are the same.
            place.store(group_of(&self.memory, group)[0].load(Relaxed), Release);
            self.groups.retired.push_back((self.epoch, group));
        }
    }

    /// Changes all entries of a prefix of /24 or shorter, those in groups too.
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

    /// The group for a long prefix; a new one is filled before readers can find it.
    fn group(&mut self, prefix: u32) -> Result<u32, Error> {
        let place = &self.memory.tbl24[(prefix >> 8) as usize];
        let old = place.load(Relaxed);
        if old & IS_GROUP != 0 {
            return Ok(old & NUMBER);
        }
        let group = self.groups.take()?;
        group_of(&self.memory, group).iter().for_each(|word| word.store(old, Relaxed));
        place.store(IS_GROUP | group, Release);
        Ok(group)
    }
}

impl NextHops {
    /// A number for this next hop, with one more user.
    fn take(&mut self, value: u64, memory: &Memory<'_>) -> Result<u32, Error> {
        if let Some(number) = self.numbers.get(&value) {
            self.users[*number as usize] += 1;
            return Ok(*number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.users.len() < NEXT_HOPS => {
                self.users.push(0);
                self.values.push(value);
                self.users.len() as u32 - 1
            }
            None => return Err(Error::NextHops),
        };
        memory.next_hops[number as usize].store(value, Release);
        self.numbers.insert(value, number);
        self.users[number as usize] = 1;
        self.values[number as usize] = value;
        Ok(number)
    }

    /// One user less; the number is used again when no reader can have it any more.
    fn give(&mut self, number: u32, epoch: u32) {
        let users = &mut self.users[number as usize];
        *users -= 1;
        if *users == 0 {
            self.numbers.remove(&self.values[number as usize]);
            self.retired.push_back((epoch, number));
        }
    }
}

impl Groups {
    fn take(&mut self) -> Result<u32, Error> {
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        if self.users.len() as u32 == self.count {
            return Err(Error::Groups);
        }
        self.users.push(0);
        Ok(self.users.len() as u32 - 1)
    }
}

/// Takes the front of a queue that was retired before epoch `oldest` (modulo 2^32).
fn drain_older(retired: &mut VecDeque<(u32, u32)>, oldest: u32, mut reuse: impl FnMut(u32)) {
    while let Some((epoch, number)) = retired.front().copied()
        && (oldest.wrapping_sub(epoch) as i32) > 0
    {
        retired.pop_front();
        reuse(number);
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

/// The entries of a long prefix in its group.
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
