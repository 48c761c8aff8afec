//! Memory of the neighbour table: slots that are read without waiting, in buckets with a line of tags.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use frame::Mac;

use super::{DELAY, PROBES, REACHABLE, RETRANSMIT, STALE_LIFE};
use crate::ip::Ip;

/// Number of slots in a bucket.
pub const WAYS: usize = 8;

/// State of an entry (RFC 4861, 7.3.2). Incomplete entries are in no slot: see `pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The slot is free.
    #[default]
    Empty = 0,
    /// Confirmed less than [`REACHABLE`](super::REACHABLE) ago.
    Reachable = 1,
    /// Configured: never probed, never replaced.
    Static = 2,
    /// Not confirmed for long; it is being probed at its own address.
    Probe = 3,
    /// A different station may have its address now; it is being probed by broadcast or at its solicited-node group.
    Doubted = 4,
    /// Heard of, but not confirmed, and not used since.
    Stale = 5,
    /// Used while it was stale; it is probed after [`DELAY`](super::DELAY), if nothing confirms it before.
    Delay = 6,
}

impl State {
    const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Reachable,
            2 => Self::Static,
            3 => Self::Probe,
            4 => Self::Doubted,
            5 => Self::Stale,
            6 => Self::Delay,
            _ => Self::Empty,
        }
    }
}

/// Contents of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) ip: Ip,
    pub(super) nic: u8,
    pub(super) state: State,
    pub(super) probes: u8,
    pub(super) mac: Mac,
    /// Time in milliseconds when it was last confirmed or changed its state; while it is being probed, the time of the
    /// last probe.
    pub(super) confirmed: u64,
}

impl Entry {
    /// Returns true if it is about this neighbour.
    pub(super) fn is(&self, nic: u8, ip: Ip) -> bool {
        self.state != State::Empty && self.nic == nic && self.ip == ip
    }

    /// Returns true if it was learned, whatever its state.
    pub(super) const fn is_learned(&self) -> bool {
        !matches!(self.state, State::Empty | State::Static)
    }

    /// Returns when its state changes if nothing is heard, in milliseconds; `None`: never.
    pub(super) const fn due(&self) -> Option<u64> {
        let after = match (self.state, self.probes) {
            (State::Empty | State::Static, _) => return None,
            (State::Reachable, _) => REACHABLE,
            (State::Stale, _) => STALE_LIFE,
            (State::Delay, _) => DELAY,
            (State::Doubted, 0) => 0,
            (State::Probe | State::Doubted, _) => RETRANSMIT,
        };
        Some(self.confirmed.saturating_add(after))
    }

    /// Returns what it becomes at time `now`, when it is due.
    pub(super) const fn aged(&self, now: u64) -> Self {
        let gone = self.probes >= PROBES as u8 || matches!(self.state, State::Stale);
        let state = match self.state {
            _ if gone => State::Empty,
            State::Doubted => State::Doubted,
            _ => State::Probe,
        };
        Self { state, probes: self.probes + 1, confirmed: now, ..*self }
    }

    /// Returns the order in which entries are replaced when there is no free slot: the lowest first.
    pub(super) const fn worth(&self) -> (u8, u64) {
        let rank = match self.state {
            State::Empty => 0,
            State::Stale => 1,
            State::Probe | State::Doubted | State::Delay => 2,
            State::Reachable => 3,
            State::Static => 4,
        };
        (rank, self.confirmed)
    }
}

/// One entry as words that are read and written atomically, with a sequence around them.
#[derive(Debug, Default)]
struct Slot {
    sequence: AtomicU32,
    /// State, probes and NIC, 8 bits each.
    state: AtomicU32,
    high: AtomicU64,
    low: AtomicU64,
    mac: AtomicU64,
    confirmed: AtomicU64,
}

/// A bucket of the table: 384 octets. Zeroed memory is an empty bucket.
///
/// ```text
///   line 0   | 8 tags of 32 bits | slot 0 ...
///   lines 1-5| slots of 40 octets: sequence, state, address, MAC, time
/// ```
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Bucket {
    /// Hash of the entry in each slot; 0: the slot is empty.
    tags: [AtomicU32; WAYS],
    slots: [Slot; WAYS],
}

impl Slot {
    const fn new() -> Self {
        Self {
            sequence: AtomicU32::new(0),
            state: AtomicU32::new(0),
            high: AtomicU64::new(0),
            low: AtomicU64::new(0),
            mac: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
        }
    }

    /// Reads the words; torn if a writer is active.
    fn peek(&self) -> Entry {
        let state = self.state.load(Relaxed);
        let [a, b, c, d, e, f, ..] = self.mac.load(Relaxed).to_le_bytes();
        let ip = u128::from(self.high.load(Relaxed)) << 64 | u128::from(self.low.load(Relaxed));
        Entry {
            ip: Ip::v6(ip),
            nic: (state >> 16) as u8,
            state: State::from_number(state & 0xff),
            probes: (state >> 8) as u8,
            mac: Mac([a, b, c, d, e, f]),
            confirmed: self.confirmed.load(Relaxed),
        }
    }

    /// Reads a consistent copy of the words. Tries a few times; a slot that keeps changing reads as empty, which costs
    /// its packet a detour through the holding queue.
    fn read(&self) -> Option<Entry> {
        for _ in 0..4 {
            let before = self.sequence.load(Acquire);
            let entry = self.peek();
            fence(Acquire);
            if before & 1 == 0 && self.sequence.load(Relaxed) == before {
                return Some(entry);
            }
        }
        None
    }

    /// Stores the words; the caller holds the lock.
    fn write(&self, entry: &Entry) {
        let [a, b, c, d, e, f] = entry.mac.0;
        let state = entry.state as u32 | u32::from(entry.probes) << 8 | u32::from(entry.nic) << 16;
        // It is odd where an earlier writer of a shared table has ended within a change.
        let sequence = self.sequence.load(Relaxed) & !1;
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // The odd sequence must be visible before any new word ...
        fence(Release);
        self.high.store((entry.ip.bits() >> 64) as u64, Relaxed);
        self.low.store(entry.ip.bits() as u64, Relaxed);
        self.state.store(state, Relaxed);
        self.mac.store(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), Relaxed);
        self.confirmed.store(entry.confirmed, Relaxed);
        // ... and the even one after all of them.
        self.sequence.store(sequence.wrapping_add(2), Release);
    }
}

impl Bucket {
    /// Creates an empty bucket.
    pub const fn new() -> Self {
        Self { tags: [const { AtomicU32::new(0) }; WAYS], slots: [const { Slot::new() }; WAYS] }
    }

    /// Returns the entry about a neighbour whose tag is `tag`. Never waits.
    pub(super) fn find(&self, tag: u32, nic: u8, ip: Ip) -> Option<(usize, Entry)> {
        let tagged = self.tags.iter().enumerate().filter(|(_, word)| word.load(Acquire) == tag);
        tagged
            .filter_map(|(way, _)| Some((way, self.slots[way].read()?)))
            .find(|(_, entry)| entry.is(nic, ip))
    }

    /// Returns the entry in a slot, if there is one; `None` also while it is being changed.
    pub(super) fn read(&self, way: usize) -> Option<Entry> {
        if self.tags[way].load(Relaxed) == 0 {
            return None;
        }
        self.slots[way].read().filter(|entry| entry.state != State::Empty)
    }

    /// Returns the entry in a slot; the caller holds the lock.
    pub(super) fn peek(&self, way: usize) -> Entry {
        self.slots[way].peek()
    }

    /// Empties slots that a writer has left within a change; returns how many. The caller holds the lock.
    pub(super) fn repair(&self) -> usize {
        let torn = |way: &usize| self.slots[*way].sequence.load(Relaxed) & 1 != 0;
        (0..WAYS).filter(torn).inspect(|way| self.write(*way, 0, &Entry::default())).count()
    }

    /// Returns the number of free slots; the caller holds the lock.
    pub(super) fn free(&self) -> usize {
        self.tags.iter().filter(|tag| tag.load(Relaxed) == 0).count()
    }

    /// Stores an entry with its tag; the caller holds the lock.
    pub(super) fn write(&self, way: usize, tag: u32, entry: &Entry) {
        self.slots[way].write(entry);
        let tag = if entry.state == State::Empty { 0 } else { tag };
        self.tags[way].store(tag, Release);
    }

    /// Leaves the first entry as a writer does that ends within a change; returns it.
    #[cfg(test)]
    pub(super) fn tear(&self) -> Option<Entry> {
        let way = (0..WAYS).find(|way| self.read(*way).is_some())?;
        let entry = self.peek(way);
        self.slots[way].sequence.fetch_add(1, Relaxed);
        self.slots[way].mac.store(0, Relaxed);
        Some(entry)
    }
}
