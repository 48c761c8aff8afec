//! The next hops of a table, and the groups of them: by value and by number.
//!
//! A route has one number, that of a next hop or of a group. A group has numbers of next hops in its buckets; so a next hop
//! is one place in the table, however many routes and groups lead to it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use router::NextHop;

use crate::Error;
use crate::retired::Retired;
use crate::shares;
use crate::word::{self, DOWN, MOST_BITS};

/// Maximum number of next hops of a group.
pub const MOST_WAYS: usize = 64;

/// One of the next hops of a route that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The next hop: a gateway, or the destinations themselves behind a NIC.
    pub next_hop: NextHop,
    /// Its part of the flows, in relation to those of the others; at least 1.
    pub weight: u8,
}

impl Way {
    /// Returns true if packets can be sent on by it.
    pub(crate) fn leads_on(&self) -> bool {
        self.next_hop.leads_on() && self.next_hop != NextHop::Group
    }
}

/// The places of a table's next hops and buckets.
pub(crate) trait Places: Copy {
    /// A next hop as the table has it.
    type Hop: Copy + Ord;
    /// Number of places for next hops and groups; number 0 is "no route".
    const MOST: usize;

    /// Stores a next hop; the word that says its kind is the last one.
    fn put(&self, number: u32, hop: Self::Hop);

    /// Returns the word of a place that says its kind.
    fn kind(&self, number: u32) -> &AtomicU64;

    /// Returns the buckets of all groups.
    fn buckets(&self) -> &[AtomicU64];
}

/// What a number stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value<H> {
    /// Nothing: number 0.
    Nothing,
    Hop(H),
    /// Numbers of next hops, in their order, with weights.
    Group(Vec<(u32, u8)>),
}

/// Buckets of a group.
#[derive(Clone, Copy)]
struct Block {
    first: u32,
    bits: u32,
}

/// All numbers of a table. Unused ones keep their value, and stay in `numbers`, until they are reclaimed.
pub(crate) struct Hops<P: Places> {
    places: P,
    numbers: BTreeMap<Value<P::Hop>, u32>,
    values: Vec<Value<P::Hop>>,
    /// Routes and groups that have each number.
    users: Vec<u32>,
    free: Vec<u32>,
    retired: Retired,
    /// Buckets of each group.
    blocks: BTreeMap<u32, Block>,
    /// Free blocks by size, and the number of buckets that were ever in use.
    free_blocks: [Vec<u32>; MOST_BITS as usize + 1],
    used: usize,
    /// Number of groups that each next hop is in.
    memberships: BTreeMap<u32, u32>,
}

impl<P: Places> Hops<P> {
    pub(crate) fn new(places: P) -> Self {
        Self {
            places,
            numbers: BTreeMap::new(),
            values: alloc::vec![Value::Nothing],
            users: alloc::vec![0],
            free: Vec::new(),
            retired: Retired::default(),
            blocks: BTreeMap::new(),
            free_blocks: [const { Vec::new() }; MOST_BITS as usize + 1],
            used: 0,
            memberships: BTreeMap::new(),
        }
    }

    /// Returns how many numbers are out of use but may still be read.
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Returns the next hops that have a number, or had one that may still be read, from `first` to before `end`.
    pub(crate) fn between(&self, first: P::Hop, end: P::Hop) -> impl Iterator<Item = P::Hop> {
        self.numbers.range(Value::Hop(first)..Value::Hop(end)).filter_map(|(value, _)| match value {
            Value::Hop(hop) => Some(*hop),
            Value::Nothing | Value::Group(_) => None,
        })
    }

    /// Returns a number for this next hop, and adds one user to it.
    pub(crate) fn take(&mut self, hop: P::Hop) -> Result<u32, Error> {
        let value = Value::Hop(hop);
        if let Some(number) = self.known(&value) {
            return Ok(number);
        }
        let number = self.fresh(&value)?;
        self.places.put(number, hop);
        Ok(number)
    }

    /// Returns a number for the group of these next hops, and adds one user to it. `like` is the number of a group whose flows
    /// should stay where they are. A single next hop needs no group.
    pub(crate) fn take_group(
        &mut self,
        ways: &[(P::Hop, u8)],
        like: Option<u32>,
        epoch: u32,
    ) -> Result<u32, Error> {
        let members = self.take_members(ways, epoch)?;
        if let [(only, _)] = members[..] {
            return Ok(only);
        }
        let value = Value::Group(members.clone());
        if let Some(number) = self.known(&value) {
            // The group has its own users of them.
            self.give_members(&members, epoch);
            return Ok(number);
        }
        let made = self.make_group(&value, &members, like);
        if made.is_err() {
            self.give_members(&members, epoch);
        }
        made
    }

    /// Takes the numbers of all next hops of a group, each once, in their order.
    fn take_members(&mut self, ways: &[(P::Hop, u8)], epoch: u32) -> Result<Vec<(u32, u8)>, Error> {
        let usable = (1..=MOST_WAYS).contains(&ways.len()) && ways.iter().all(|(_, weight)| *weight > 0);
        if !usable {
            return Err(Error::Ways);
        }
        let mut members: Vec<(u32, u8)> = Vec::new();
        for (hop, weight) in ways {
            match self.take(*hop) {
                Ok(number) => match members.iter_mut().find(|(known, _)| *known == number) {
                    Some((_, sum)) => {
                        *sum = sum.saturating_add(*weight);
                        self.give(number, epoch);
                    }
                    None => members.push((number, *weight)),
                },
                Err(error) => {
                    self.give_members(&members, epoch);
                    return Err(error);
                }
            }
        }
        members.sort_unstable();
        Ok(members)
    }

    fn give_members(&mut self, members: &[(u32, u8)], epoch: u32) {
        members.iter().for_each(|(number, _)| self.give(*number, epoch));
    }

    fn make_group(
        &mut self,
        value: &Value<P::Hop>,
        members: &[(u32, u8)],
        like: Option<u32>,
    ) -> Result<u32, Error> {
        let weights: Vec<u8> = members.iter().map(|(_, weight)| *weight).collect();
        let bits = shares::bits(&weights);
        let first = self.take_block(bits)?;
        let number = match self.fresh(value) {
            Ok(number) => number,
            Err(error) => {
                self.give_block(Block { first, bits });
                return Err(error);
            }
        };
        let owners = shares::assign(&weights, &self.before(members, like, bits));
        let choices = shares::with_substitutes(&weights, &owners);
        for (bucket, choices) in self.places.buckets()[first as usize..].iter().zip(choices) {
            let number = |at: Option<usize>| at.map_or(0, |at| u64::from(members[at].0));
            let word = choices.iter().rev().fold(0_u64, |word, at| word << 16 | number(*at));
            bucket.store(word, Relaxed);
        }
        members.iter().for_each(|(member, _)| *self.memberships.entry(*member).or_default() += 1);
        self.blocks.insert(number, Block { first, bits });
        self.places.kind(number).store(word::group(first, bits), Release);
        Ok(number)
    }

    /// Returns which of the members had each of 2^bits buckets in the group `like`.
    fn before(&self, members: &[(u32, u8)], like: Option<u32>, bits: u32) -> Vec<Option<usize>> {
        let Some(old) = like.and_then(|number| self.blocks.get(&number)) else {
            return alloc::vec![None; 1 << bits];
        };
        let owner = |bucket: usize| {
            let at = old.first as usize + (bucket << old.bits >> bits);
            let number = word::choice(self.places.buckets()[at].load(Relaxed), 0);
            members.iter().position(|(member, _)| *member == number)
        };
        (0..1 << bits).map(owner).collect()
    }

    /// Takes 2^bits buckets: those of the smallest free block that has as many, or some that were never in use.
    fn take_block(&mut self, bits: u32) -> Result<u32, Error> {
        let free = (bits..=MOST_BITS).find_map(|size| Some((self.free_blocks[size as usize].pop()?, size)));
        if let Some((first, size)) = free {
            (bits..size).for_each(|half| self.free_blocks[half as usize].push(first + (1 << half)));
            return Ok(first);
        }
        let first = self.used.next_multiple_of(1 << bits);
        if first + (1 << bits) > self.places.buckets().len() {
            return Err(if self.retired.len() > 0 { Error::Waiting } else { Error::Buckets });
        }
        while self.used < first {
            let bits = self.used.trailing_zeros();
            self.give_block(Block { first: self.used as u32, bits });
            self.used += 1 << bits;
        }
        self.used = first + (1 << bits);
        Ok(first as u32)
    }

    /// Returns a block. Two free halves of a larger one become that one, so that groups of all sizes find room.
    fn give_block(&mut self, Block { mut first, mut bits }: Block) {
        while bits < MOST_BITS {
            let free = &mut self.free_blocks[bits as usize];
            let Some(other) = free.iter().position(|half| *half == first ^ 1 << bits) else { break };
            free.swap_remove(other);
            first &= !(1 << bits);
            bits += 1;
        }
        self.free_blocks[bits as usize].push(first);
    }

    /// Returns the number of a known value, and adds one user to it.
    fn known(&mut self, value: &Value<P::Hop>) -> Option<u32> {
        let number = *self.numbers.get(value)?;
        // A retired one that may still be read still has the same meaning.
        self.retired.revive(number);
        self.users[number as usize] += 1;
        Some(number)
    }

    /// Returns a number for a new value, with one user.
    fn fresh(&mut self, value: &Value<P::Hop>) -> Result<u32, Error> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.users.len() < P::MOST => {
                self.users.push(0);
                self.values.push(Value::Nothing);
                self.users.len() as u32 - 1
            }
            None if self.retired.len() > 0 => return Err(Error::Waiting),
            None => return Err(Error::NextHops),
        };
        self.numbers.insert(value.clone(), number);
        self.users[number as usize] = 1;
        self.values[number as usize] = value.clone();
        Ok(number)
    }

    /// Removes one user; an unused number is reused when no reader can have it any more.
    pub(crate) fn give(&mut self, number: u32, epoch: u32) {
        let users = &mut self.users[number as usize];
        *users -= 1;
        if *users == 0 {
            self.retired.retire(number, 0, epoch);
        }
    }

    /// Reclaims the numbers that were retired before epoch `oldest`. The next hops of groups among them are out of use from
    /// `epoch` on.
    pub(crate) fn reclaim(&mut self, oldest: u32, epoch: u32) {
        let mut gone = Vec::new();
        let Self { retired, free, numbers, values, .. } = self;
        retired.drain_older(oldest, |number, _| {
            let value = core::mem::replace(&mut values[number as usize], Value::Nothing);
            numbers.remove(&value);
            free.push(number);
            if let Value::Group(members) = value {
                gone.push((number, members));
            }
        });
        for (number, members) in gone {
            if let Some(block) = self.blocks.remove(&number) {
                self.give_block(block);
            }
            members.iter().for_each(|(member, _)| self.leave(*member));
            self.give_members(&members, epoch);
        }
    }

    /// Removes a next hop from one group.
    fn leave(&mut self, member: u32) {
        let count = self.memberships.entry(member).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.memberships.remove(&member);
        }
    }

    /// Sets for each next hop that is in a group whether it is down; returns how many have changed, each by one word.
    pub(crate) fn set_down(&self, is_down: impl Fn(u32, P::Hop) -> bool) -> usize {
        let changed = self.memberships.keys().filter(|number| {
            let Value::Hop(hop) = self.values[**number as usize] else { return false };
            let kind = self.places.kind(**number);
            let old = kind.load(Relaxed);
            let new = if is_down(**number, hop) { old | DOWN } else { old & !DOWN };
            kind.store(new, Release);
            new != old
        });
        changed.count()
    }
}
