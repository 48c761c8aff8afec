//! The IPv6 next hops in use, by value and by number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Release;

use super::layout::{HOP_WORDS, Memory, NEXT_HOPS};
use crate::Error;
use crate::retired::Retired;

/// Numbers of next hops. Unused ones keep their value until they are reclaimed.
pub(crate) struct NextHops {
    numbers: BTreeMap<[u64; 3], u32>,
    values: Vec<[u64; 3]>,
    users: Vec<u32>,
    free: Vec<u32>,
    retired: Retired,
}

impl NextHops {
    pub(crate) fn new() -> Self {
        Self {
            numbers: BTreeMap::new(),
            values: alloc::vec![[0; 3]],
            users: alloc::vec![0],
            free: Vec::new(),
            retired: Retired::default(),
        }
    }

    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Returns a number for this next hop, and adds one user to it.
    pub(crate) fn take(&mut self, value: [u64; 3], memory: &Memory<'_>) -> Result<u32, Error> {
        if let Some(number) = self.numbers.get(&value) {
            // A retired next hop that may still be read still has the same meaning.
            self.retired.revive(*number);
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
            None if self.retired.len() > 0 => return Err(Error::Waiting),
            None => return Err(Error::NextHops),
        };
        let first = number as usize * HOP_WORDS;
        for (place, word) in memory.next_hops[first..].iter().zip(value) {
            place.store(word, Release);
        }
        self.numbers.insert(value, number);
        self.users[number as usize] = 1;
        self.values[number as usize] = value;
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

    /// Reclaims the numbers that were retired before epoch `oldest`.
    pub(crate) fn reclaim(&mut self, oldest: u32) {
        let Self { retired, free, numbers, values, .. } = self;
        retired.drain_older(oldest, |number, _| {
            numbers.remove(&values[number as usize]);
            free.push(number);
        });
    }
}
