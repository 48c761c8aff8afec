//! Neighbour table: Ethernet addresses of IPv4 and IPv6 neighbours, shared by all vCPUs of a router.
//!
//! The table has any number of buckets of 8 slots, in memory that its owner provides. An address may be in either of two
//! buckets, chosen by its hash; a new one goes to the emptier of them, so that hardly a bucket overflows before the table is
//! about four fifths full. Each slot is a seqlock: a reader copies the words and keeps the copy if the sequence was even
//! and did not change meanwhile; it never waits. Writers (ARP and neighbour discovery) take one spin lock and give up after
//! a bounded time, in which case the network repeats the information later. Whenever an address that readers may have
//! copied is changed or removed, the generation changes, and each vCPU drops the headers prepared from it. A new neighbour
//! changes the arrivals instead: no header was prepared, but packets may wait for it.
//!
//! Only stations that have been heard are in the table: addresses that are being resolved are in `pending`, of bounded
//! size, so that a scan of a network displaces no known neighbour.
//!
//! The routers of a group have one table ([`Neighbours::read_only`]), which the host writes ([`Neighbours::for_others`]): they
//! ask the host for what is not there, and keep nothing fresh.
//!
//! A reachable neighbour is probed when its time is over, rather than at its next use (RFC 4861, 7.3.3): the hot path
//! records no use.

mod shared;
mod slot;

use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use frame::Mac;

use crate::config::MAX_INTERFACES;
use crate::ip::Ip;
use shared::Changes;
use slot::Entry;

pub use shared::{Header, shared_buckets, shared_len};
pub use slot::{Bucket, State, WAYS};

/// Attempts of a writer to take the lock before it gives up.
const PATIENCE: usize = 10_000;
/// Milliseconds for which a confirmed neighbour counts as reachable (RFC 4861, 10: REACHABLE_TIME).
pub const REACHABLE: u64 = 30_000;
/// Milliseconds between the first use of a stale neighbour and its first probe (RFC 4861, 10: DELAY_FIRST_PROBE_TIME).
pub const DELAY: u64 = 5000;
/// Milliseconds after which a stale neighbour that is not used is forgotten.
pub const STALE_LIFE: u64 = 600_000;
/// Number of unicast requests, a second apart, to a neighbour that was not confirmed for [`REACHABLE`].
pub const PROBES: u32 = 3;
/// Milliseconds between probes.
const RETRANSMIT: u64 = 1000;
/// Maximum number of neighbours probed at a time, of buckets looked at, and the milliseconds until the next ones are: many
/// may be due at once.
const MOST_PROBES: usize = 32;
const MOST_BUCKETS: usize = 256;
const PAUSE: u64 = 10;
/// Number of neighbours that are remembered as asked for, a power of two.
const ASKED: usize = 32;

/// Default number of neighbours of a router.
pub const DEFAULT: usize = 4096;
/// Smallest and largest number of neighbours of a table.
pub const LEAST: usize = 64;
/// See [`LEAST`].
pub const MOST: usize = 65_536;

/// Returns the number of buckets of a table for this many neighbours.
pub const fn buckets(neighbours: usize) -> usize {
    neighbours.div_ceil(WAYS)
}

/// A neighbour behind one NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Number of the NIC.
    pub nic: u8,
    /// Address.
    pub ip: Ip,
    /// Ethernet address.
    pub mac: Mac,
}

/// Maximum number of static neighbours that a router is given while it runs.
pub const MOST_GIVEN: usize = 32;

/// The static neighbours that a router is given while it runs.
pub type GivenList = [Option<Neighbour>; MOST_GIVEN];

/// What a station has said about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The neighbour itself has sent this, or answered a request: it is reachable.
    Confirmed,
    /// A message named the Ethernet address, but proves no reachability (RFC 4861, 7.2.3).
    Named,
    /// It was advertised without being asked for (RFC 4861, 7.2.5).
    Advertised {
        /// True if it replaces an Ethernet address that is known already.
        overrides: bool,
    },
}

/// Effect of what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The neighbour was in the table.
    Known,
    /// It found a free slot.
    Added,
    /// It took the slot of another one: the table is full where it belongs.
    Replaced,
    /// It is not in the table, because it may not be created, or all slots are static, or the lock was not available.
    Not,
}

/// Place at which an ageing goes on, private to the router that keeps the neighbours fresh.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ageing {
    bucket: usize,
    next: Option<u64>,
    again: bool,
}

impl Ageing {
    /// Makes another round follow the present one at once: entries that it has passed may have become due.
    pub fn hurry(&mut self) {
        self.again |= self.bucket > 0;
    }
}

/// The neighbour table.
pub struct Neighbours<'a> {
    lock: AtomicBool,
    own: Changes,
    /// Those of a table that routers of a group share, in place of `own`.
    shared: Option<&'a Changes>,
    /// True if only others write it.
    is_read_only: bool,
    /// Incremented when an entry becomes due earlier than before.
    hurries: AtomicU32,
    /// For each NIC, the own IPv6 addresses that another station has, as bits.
    duplicates: [AtomicU32; MAX_INTERFACES],
    /// Tags of neighbours that were asked for, each at the place of its hash: an answer may arrive at another vCPU.
    asked: [AtomicU32; ASKED],
    buckets: &'a [Bucket],
}

impl<'a> Neighbours<'a> {
    /// Creates a table in empty buckets: [`buckets`] of the number of neighbours, at least one.
    pub const fn new(buckets: &'a [Bucket]) -> Self {
        Self {
            lock: AtomicBool::new(false),
            own: Changes::new(),
            shared: None,
            is_read_only: false,
            hurries: AtomicU32::new(0),
            duplicates: [const { AtomicU32::new(0) }; MAX_INTERFACES],
            asked: [const { AtomicU32::new(0) }; ASKED],
            buckets,
        }
    }

    /// Adds a neighbour that is never probed and never ages; returns false if there is no room in its buckets.
    pub fn add_static(&self, neighbour: Neighbour) -> bool {
        self.locked(|| self.put_static(neighbour)).unwrap_or(false)
    }

    /// The caller holds the lock.
    fn put_static(&self, Neighbour { nic, ip, mac }: Neighbour) -> bool {
        let entry = Entry { ip, nic, state: State::Static, probes: 0, mac, confirmed: 0 };
        match self.place_of(nic, ip) {
            Some((bucket, way, old)) => {
                self.change(bucket, way, (&old, &entry));
                true
            }
            None => self.add(&entry) != Learned::Not,
        }
    }

    /// Puts static neighbours in the place of others; those that find no room are left out. Returns false, and changes nothing, if the
    /// lock is not available. Does nothing to a table that others write.
    pub fn exchange_static(&self, old: &GivenList, new: &GivenList) -> bool {
        if self.is_read_only {
            return true;
        }
        let is_kept =
            |one: &&Neighbour| new.iter().flatten().any(|other| (other.nic, other.ip) == (one.nic, one.ip));
        let exchanged = self.locked(|| {
            old.iter().flatten().filter(|one| !is_kept(one)).for_each(|one| self.remove_static(one));
            for one in new.iter().flatten() {
                self.put_static(*one);
            }
        });
        exchanged.is_some()
    }

    /// The caller holds the lock.
    fn remove_static(&self, one: &Neighbour) {
        if let Some((bucket, way, old)) = self.place_of(one.nic, one.ip)
            && old.state == State::Static
        {
            bucket.write(way, tag(one.nic, one.ip), &Entry { state: State::Empty, ..old });
            self.changes().invalidate();
        }
    }

    /// Records at time `now` (milliseconds) that a neighbour was heard. A new one is added only if `create`; it replaces
    /// the least useful learned one in its buckets if they are full: then this returns true. Static neighbours are not changed.
    pub fn learn(&self, neighbour: Neighbour, create: bool, now: u64) -> bool {
        self.hear(neighbour, Said::Confirmed, create, now) == Learned::Replaced
    }

    /// Records what was said about a neighbour.
    pub(crate) fn hear(&self, neighbour: Neighbour, said: Said, create: bool, now: u64) -> Learned {
        let Neighbour { nic, ip, mac } = neighbour;
        let state = if said == Said::Confirmed { State::Reachable } else { State::Stale };
        let fresh = Entry { ip, nic, state, probes: 0, mac, confirmed: now };
        let heard = self.locked(|| match self.place_of(nic, ip) {
            Some((bucket, way, old)) => {
                if let Some(new) = heard(&old, &fresh, said) {
                    self.change(bucket, way, (&old, &new));
                }
                Learned::Known
            }
            None if create => self.add(&fresh),
            None => Learned::Not,
        });
        heard.unwrap_or(Learned::Not)
    }

    /// Returns the Ethernet address of a neighbour behind NIC `nic`. Never waits.
    pub fn find(&self, nic: u8, ip: impl Into<Ip>) -> Option<Mac> {
        let ip = ip.into();
        self.entry(nic, ip).map(|entry| entry.mac)
    }

    /// Returns the state of a neighbour. Never waits.
    pub fn state(&self, nic: u8, ip: impl Into<Ip>) -> State {
        self.entry(nic, ip.into()).map_or(State::Empty, |entry| entry.state)
    }

    /// Returns the Ethernet address of a neighbour to which a packet is sent at time `now`. A stale one is probed soon.
    pub(crate) fn find_for_use(&self, nic: u8, ip: Ip, now: u64) -> Option<Mac> {
        let entry = self.entry(nic, ip)?;
        if entry.state == State::Stale {
            self.locked(|| {
                if let Some((bucket, way, old)) = self.place_of(nic, ip)
                    && old.state == State::Stale
                {
                    let used = Entry { state: State::Delay, confirmed: now, ..old };
                    self.change(bucket, way, (&old, &used));
                    self.hurries.fetch_add(1, Release);
                }
            });
        }
        Some(entry.mac)
    }

    /// Returns a number that changes whenever an address that [`Neighbours::find`] may have returned becomes invalid.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.changes().generation()
    }

    /// Returns a number that changes whenever a neighbour is added.
    #[inline(always)]
    pub fn arrivals(&self) -> u32 {
        self.changes().arrivals()
    }

    /// Returns a number that changes whenever [`Neighbours::age`] has work earlier than it said.
    pub(crate) fn hurries(&self) -> u32 {
        self.hurries.load(Acquire)
    }

    /// Records that another station has own IPv6 address number `index` of a NIC: no vCPU uses it any more.
    pub(crate) fn mark_duplicate(&self, nic: u8, index: usize) {
        self.duplicates[usize::from(nic) % MAX_INTERFACES].fetch_or(1 << (index % 32), Relaxed);
    }

    /// Returns true if another station has own IPv6 address number `index` of a NIC.
    #[inline(always)]
    pub(crate) fn is_duplicate(&self, nic: u8, index: usize) -> bool {
        self.duplicates[usize::from(nic) % MAX_INTERFACES].load(Relaxed) >> (index % 32) & 1 != 0
    }

    /// Records that a neighbour is asked for.
    pub(crate) fn note_asked(&self, nic: u8, ip: Ip) {
        let tag = tag(nic, ip);
        self.asked[place_of_tag(tag)].store(tag, Relaxed);
    }

    /// Returns true if a vCPU has asked for a neighbour, as far as that is remembered.
    pub(crate) fn was_asked(&self, nic: u8, ip: Ip) -> bool {
        let tag = tag(nic, ip);
        self.asked[place_of_tag(tag)].load(Relaxed) == tag
    }

    /// Returns the number of neighbours in the table, counted by a walk.
    pub fn count(&self) -> usize {
        self.buckets.iter().flat_map(|bucket| (0..WAYS).filter_map(move |way| bucket.read(way))).count()
    }

    /// Marks at time `now` (milliseconds) all learned neighbours behind NIC `nic` as doubtful: different stations may
    /// have their addresses now. They are used as before until [`Neighbours::age`] has probed them. Returns false if
    /// the lock was not available. Does nothing to a table that others write.
    pub fn mark_doubtful(&self, nic: u8, now: u64) -> bool {
        if self.is_read_only {
            return true;
        }
        let doubted = self.locked(|| {
            for bucket in self.buckets {
                for way in 0..WAYS {
                    let entry = bucket.peek(way);
                    if entry.is_learned() && entry.nic == nic {
                        let doubted = Entry { state: State::Doubted, probes: 0, confirmed: now, ..entry };
                        bucket.write(way, tag(nic, entry.ip), &doubted);
                    }
                }
            }
        });
        doubted.is_some()
    }

    /// Finds neighbours whose time is over, or that are doubtful: passes each to `probe` up to [`PROBES`] times, a second
    /// apart, and then removes it. A doubtful one is passed with the broadcast address, because its address may have
    /// changed. Goes on where `ageing` says, and returns when to call again, in milliseconds as `now`; `None` if no
    /// neighbour can become due.
    pub fn age(&self, ageing: &mut Ageing, now: u64, probe: &mut dyn FnMut(Neighbour)) -> Option<u64> {
        if self.is_read_only {
            return None;
        }
        let mut asked = 0;
        let last = (ageing.bucket + MOST_BUCKETS).min(self.buckets.len());
        while ageing.bucket < last {
            for way in 0..WAYS {
                let mut count = |neighbour| {
                    asked += 1;
                    probe(neighbour);
                };
                if let Some(due) = self.age_entry((ageing.bucket, way), now, &mut count) {
                    ageing.next = Some(ageing.next.map_or(due, |next| next.min(due)));
                }
                if asked == MOST_PROBES {
                    // The rest of this bucket is looked at again: what was probed just now is not due any more.
                    return Some(now.saturating_add(PAUSE));
                }
            }
            ageing.bucket += 1;
        }
        if ageing.bucket < self.buckets.len() {
            return Some(now.saturating_add(PAUSE));
        }
        let round = core::mem::take(ageing);
        if round.again { Some(now) } else { round.next }
    }

    /// Handles one entry; returns when it is due again, if ever.
    fn age_entry(&self, at: (usize, usize), now: u64, probe: &mut dyn FnMut(Neighbour)) -> Option<u64> {
        let bucket = &self.buckets[at.0];
        let entry = bucket.read(at.1)?;
        let due = entry.due()?;
        if now < due {
            return Some(due);
        }
        let aged = entry.aged(now);
        let written = self.locked(|| {
            // Not if another vCPU has confirmed or replaced the neighbour meanwhile.
            let same = bucket.peek(at.1) == entry;
            if same {
                bucket.write(at.1, tag(entry.nic, entry.ip), &aged);
            }
            same
        });
        let again = Some(now.saturating_add(RETRANSMIT));
        if written != Some(true) {
            return again;
        }
        if aged.state == State::Empty {
            self.changes().invalidate();
            return None;
        }
        let mac = if aged.state == State::Doubted { Mac::BROADCAST } else { entry.mac };
        probe(Neighbour { nic: entry.nic, ip: entry.ip, mac });
        again
    }

    /// Replaces the entry in a slot by another one about the same neighbour. The caller holds the lock.
    fn change(&self, bucket: &Bucket, way: usize, (old, new): (&Entry, &Entry)) {
        bucket.write(way, tag(new.nic, new.ip), new);
        // The use of a stale neighbour has to be noticed, which a prepared header would hide.
        if old.mac != new.mac || new.state == State::Stale {
            self.changes().invalidate();
        }
    }

    /// Stores a new entry in a free slot, or in place of the least useful learned one. The caller holds the lock.
    fn add(&self, entry: &Entry) -> Learned {
        let [one, other] = self.pair(entry.nic, entry.ip);
        let emptier = if other.free() > one.free() { other } else { one };
        let (bucket, way) = if emptier.free() > 0 {
            let free = (0..WAYS).find(|way| emptier.peek(*way).state == State::Empty);
            let Some(way) = free else { return Learned::Not };
            (emptier, way)
        } else {
            let all = [one, other].into_iter().flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)));
            let learned = all.filter(|(bucket, way)| bucket.peek(*way).is_learned());
            let Some(least) = learned.min_by_key(|(bucket, way)| bucket.peek(*way).worth()) else {
                return Learned::Not;
            };
            least
        };
        let makes_room = bucket.peek(way).state != State::Empty;
        bucket.write(way, tag(entry.nic, entry.ip), entry);
        self.changes().arrive();
        if !makes_room {
            return Learned::Added;
        }
        self.changes().invalidate();
        Learned::Replaced
    }

    /// Returns the entry about a neighbour. Never waits.
    fn entry(&self, nic: u8, ip: Ip) -> Option<Entry> {
        let tag = tag(nic, ip);
        self.pair(nic, ip).into_iter().find_map(|bucket| bucket.find(tag, nic, ip)).map(|(_, entry)| entry)
    }

    /// Returns where a neighbour is. The caller holds the lock.
    fn place_of(&self, nic: u8, ip: Ip) -> Option<(&'a Bucket, usize, Entry)> {
        let tag = tag(nic, ip);
        let found = |bucket: &'a Bucket| bucket.find(tag, nic, ip).map(|(way, entry)| (bucket, way, entry));
        self.pair(nic, ip).into_iter().find_map(found)
    }

    /// Returns the two buckets in which a neighbour may be.
    fn pair(&self, nic: u8, ip: Ip) -> [&'a Bucket; 2] {
        let hash = ip.hash(nic);
        // Bits other than those of the tag, scaled to the number of buckets.
        let scaled = |bits: u64| (((bits & 0xffff_ffff) * self.buckets.len() as u64) >> 32) as usize;
        [scaled(hash), scaled(hash.rotate_left(16).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32)]
            .map(|at| &self.buckets[at])
    }

    /// Runs `change` while holding the lock; `None` (and not run) if another vCPU, perhaps preempted, keeps it, or if only
    /// others write the table.
    fn locked<T>(&self, change: impl FnOnce() -> T) -> Option<T> {
        if self.is_read_only {
            return None;
        }
        for _ in 0..PATIENCE {
            if self.lock.compare_exchange_weak(false, true, Acquire, Relaxed).is_ok() {
                let result = change();
                self.lock.store(false, Release);
                return Some(result);
            }
            core::hint::spin_loop();
        }
        None
    }
}

/// Returns the tag of a neighbour, which is never 0.
const fn tag(nic: u8, ip: Ip) -> u32 {
    (ip.hash(nic) >> 32) as u32 | 1
}

/// Returns the place of a tag among those of neighbours that were asked for. Its lowest bit is always set.
const fn place_of_tag(tag: u32) -> usize {
    (tag >> 1) as usize % ASKED
}

/// Returns what an entry becomes by what was said about it (RFC 4861, 7.2.3 and 7.2.5); `None` if it stays as it is.
fn heard(old: &Entry, fresh: &Entry, said: Said) -> Option<Entry> {
    let same = old.mac == fresh.mac;
    match (old.state, said) {
        (State::Static, _) => None,
        (_, Said::Confirmed) => Some(*fresh),
        (_, Said::Named | Said::Advertised { .. }) if same => None,
        (_, Said::Named | Said::Advertised { overrides: true }) => Some(*fresh),
        // Another address without the right to override: the known one is in doubt.
        (State::Reachable, Said::Advertised { .. }) => {
            Some(Entry { state: State::Stale, confirmed: fresh.confirmed, ..*old })
        }
        _ => None,
    }
}
