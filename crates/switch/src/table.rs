//! The MAC table: maps stations to ports.
//!
//! ```text
//! bucket, one cache line:   | address 48, port 16 | x4 |   | seen, seconds | x4 |
//! ```
//!
//! An address may lie in either of two buckets, at any of their four places. Address and port share one word, so that a
//! reader never sees the port of one station with the address of another. Readers and writers take no lock: a place is
//! filled, changed and emptied by compare-and-swap. Two threads that learn a new address at the same moment may store
//! it twice; the copy that is found first is kept up to date, and the other one ages.
//!
//! In the steady state lookups and learning steps only read: the time of a station is stored at most once a second.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use frame::Mac;

/// Number of places in a bucket.
const WAYS: usize = 4;
/// Maximum number of buckets.
const MOST_BUCKETS: usize = 1 << 20;
const EMPTY: u64 = 0;
/// Odd multiplier with half of its bits set, in no regular pattern (2^64 / the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// An Ethernet address as a number: the first octet is the least significant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    const MASK: u64 = (1 << 48) - 1;

    /// Creates a key from the low 48 bits of a word read as little-endian.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word & Self::MASK)
    }

    /// Returns true if the address names a group of stations, broadcast included.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns true if the address is that of pauses, 01:80:c2:00:00:01, which no bridge forwards (IEEE 802.1Q, table 8-1).
    #[inline(always)]
    pub const fn is_pause(self) -> bool {
        self.0 == 0x0100_00c2_8001
    }

    /// Returns true if all octets are zero, which is not a station's address.
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Mac> for Key {
    fn from(Mac([a, b, c, d, e, f]): Mac) -> Self {
        Self(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

impl From<Key> for Mac {
    fn from(key: Key) -> Self {
        let [a, b, c, d, e, f, ..] = key.0.to_le_bytes();
        Self([a, b, c, d, e, f])
    }
}

/// Result of learning a source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The address was known at this port.
    Known,
    /// The address was not known, or had aged.
    New,
    /// The address was known at another port.
    Moved,
    /// The address is not known, and there is no place for it.
    Full,
}

/// Longest ageing time in seconds: ages are signed.
const LONGEST: u32 = u32::MAX >> 1;

#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    stations: [AtomicU64; WAYS],
    seen: [AtomicU32; WAYS],
}

/// A place, and its contents when it was read.
struct Found<'a> {
    station: &'a AtomicU64,
    seen: &'a AtomicU32,
    word: u64,
}

/// The MAC table.
pub struct MacTable {
    buckets: Box<[Bucket]>,
    multiplier: u64,
    ageing: AtomicU32,
    now: AtomicU32,
}

const fn station(key: Key, port: u16) -> u64 {
    key.0 << 16 | port as u64
}

impl MacTable {
    /// Creates a table for `capacity` stations. It has at least twice as many places, because two buckets fill up
    /// unevenly: at four fifths of all places about one address in a hundred finds none. A station that was silent for
    /// `ageing` seconds is removed (0: never).
    pub fn new(capacity: usize, ageing: u32) -> Self {
        let buckets = capacity.div_ceil(WAYS / 2).clamp(1, MOST_BUCKETS).next_power_of_two();
        Self {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            // Unpredictable, so that an attacker cannot choose addresses that all fall into one bucket.
            multiplier: RandomState::new().hash_one(0u8) | 1,
            ageing: AtomicU32::new(ageing.min(LONGEST)),
            now: AtomicU32::new(0),
        }
    }

    /// Sets the time, in seconds since an arbitrary origin.
    pub fn tick(&self, now: u32) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Sets the ageing time from now on, in seconds; returns the previous one.
    pub fn set_ageing(&self, ageing: u32) -> u32 {
        self.ageing.swap(ageing.min(LONGEST), Ordering::Relaxed)
    }

    /// Returns the time last set.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Returns the port behind which the station is.
    #[inline(always)]
    pub fn lookup(&self, key: Key, now: u32) -> Option<u16> {
        let found = self.find(key)?;
        self.fresh(found.seen.load(Ordering::Relaxed), now).then_some(found.word as u16)
    }

    /// Records that a frame of the station came from the port. The caller must not pass group addresses or the zero
    /// address.
    #[inline]
    pub fn learn(&self, key: Key, port: u16, now: u32) -> Learned {
        let Some(found) = self.find(key) else { return self.insert(key, port, now) };
        let seen = found.seen.load(Ordering::Relaxed);
        if found.word as u16 == port && seen == now {
            return Learned::Known;
        }
        self.renew(&found, station(key, port), now)
    }

    #[cold]
    fn renew(&self, found: &Found<'_>, word: u64, now: u32) -> Learned {
        let aged = !self.fresh(found.seen.load(Ordering::Relaxed), now);
        let moved = found.word != word;
        if moved {
            // If another thread was faster, the next frame corrects the entry.
            let _ = found.station.compare_exchange(found.word, word, Ordering::AcqRel, Ordering::Relaxed);
        }
        found.seen.store(now, Ordering::Relaxed);
        match (aged, moved) {
            (true, _) => Learned::New,
            (false, true) => Learned::Moved,
            (false, false) => Learned::Known,
        }
    }

    #[cold]
    fn insert(&self, key: Key, port: u16, now: u32) -> Learned {
        // Tries the emptier bucket first, which keeps buckets from filling up early with two choices.
        let mut pair = self.pair(key);
        let taken = |bucket: &Bucket| (0..WAYS).filter(|&way| !self.vacant(bucket, way, now)).count();
        if taken(pair[1]) < taken(pair[0]) {
            pair.swap(0, 1);
        }
        for bucket in pair {
            for way in 0..WAYS {
                if self.vacant(bucket, way, now) && fill(bucket, way, station(key, port), now) {
                    return Learned::New;
                }
            }
        }
        Learned::Full
    }

    /// Removes all stations behind the port.
    pub fn forget(&self, port: u16) {
        for place in self.buckets.iter().flat_map(|bucket| &bucket.stations) {
            let word = place.load(Ordering::Relaxed);
            if word != EMPTY && word as u16 == port {
                let _ = place.compare_exchange(word, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Calls `visit` with each known station, its port, and the seconds since its last frame.
    pub fn each(&self, visit: &mut dyn FnMut(Mac, u16, u32)) {
        let now = self.now();
        for bucket in &self.buckets {
            for (place, seen) in bucket.stations.iter().zip(&bucket.seen) {
                let (word, seen) = (place.load(Ordering::Acquire), seen.load(Ordering::Relaxed));
                if word != EMPTY && self.fresh(seen, now) {
                    let age = age(seen, now).max(0).cast_unsigned();
                    visit(Key(word >> 16).into(), word as u16, age);
                }
            }
        }
    }

    /// Returns the two buckets in which the address may lie.
    #[inline(always)]
    fn pair(&self, key: Key) -> [&Bucket; 2] {
        // A product carries only upwards, and the last octets of an address, which differ most, are the highest bits:
        // hence the folds, and a second product to spread keys that the random multiplier spreads badly.
        let hash = (key.0 ^ key.0 >> 24).wrapping_mul(self.multiplier);
        let hash = (hash ^ hash >> 32).wrapping_mul(SPREAD);
        let last = self.buckets.len() - 1;
        [&self.buckets[(hash >> 40) as usize & last], &self.buckets[(hash >> 20) as usize & last]]
    }

    #[inline(always)]
    fn find(&self, key: Key) -> Option<Found<'_>> {
        let [first, second] = self.pair(key);
        find_in(first, key).or_else(|| find_in(second, key))
    }

    #[inline(always)]
    fn fresh(&self, seen: u32, now: u32) -> bool {
        let ageing = self.ageing.load(Ordering::Relaxed);
        ageing == 0 || age(seen, now) < ageing.cast_signed()
    }

    fn vacant(&self, bucket: &Bucket, way: usize, now: u32) -> bool {
        bucket.stations[way].load(Ordering::Acquire) == EMPTY
            || !self.fresh(bucket.seen[way].load(Ordering::Relaxed), now)
    }
}

/// Returns the seconds since a station was heard, by a clock that may wrap; negative if a thread that has read the clock after this
/// one has heard it.
#[inline(always)]
const fn age(seen: u32, now: u32) -> i32 {
    now.wrapping_sub(seen).cast_signed()
}

/// Compares with all places at once, because a branch on the matching place would be unpredictable.
#[inline(always)]
fn find_in(bucket: &Bucket, key: Key) -> Option<Found<'_>> {
    let words: [u64; WAYS] = std::array::from_fn(|way| bucket.stations[way].load(Ordering::Acquire));
    let (mut word, mut at) = (EMPTY, 0);
    for way in (0..WAYS).rev() {
        let hit = words[way] >> 16 == key.0;
        word = if hit { words[way] } else { word };
        at = if hit { way } else { at };
    }
    // An empty place looks like the zero address.
    (word != EMPTY).then_some(Found { station: &bucket.stations[at], seen: &bucket.seen[at], word })
}

/// Puts a station into a vacant place; returns false if another thread was faster.
fn fill(bucket: &Bucket, way: usize, word: u64, now: u32) -> bool {
    let place = &bucket.stations[way];
    let old = place.load(Ordering::Acquire);
    // Emptied first, so that the aged station does not seem alive between the two stores.
    if old != EMPTY && place.compare_exchange(old, EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    bucket.seen[way].store(now, Ordering::Relaxed);
    place.compare_exchange(EMPTY, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests;
