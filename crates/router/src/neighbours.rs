//! Neighbour table: Ethernet addresses of neighbours, shared by all vCPUs of a router.
//!
//! The table has 128 buckets of 8 slots. Each slot is a seqlock: a reader copies the words and keeps the copy if the
//! sequence was even and did not change meanwhile; it never waits. Writers (ARP, a few a second) take one spin lock and
//! give up after a bounded time, in which case the network repeats the information later. Whenever an address that
//! readers may have copied is changed or removed, the generation changes, and each vCPU drops the headers prepared from
//! it. A new neighbour changes the arrivals instead: no header was prepared, but packets may wait for it.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use frame::Mac;

/// Number of slots in a bucket.
const WAYS: usize = 8;
/// Number of buckets, a power of two.
const BUCKETS: usize = 128;
/// Attempts of a writer to take the lock before it gives up.
const PATIENCE: usize = 10_000;
/// Milliseconds for which a confirmed neighbour counts as reachable (RFC 4861, 10: REACHABLE_TIME).
pub const REACHABLE: u64 = 30_000;
/// Number of unicast requests, a second apart, to a neighbour that was not confirmed for [`REACHABLE`].
pub const PROBES: u32 = 3;

/// The slot is free.
const EMPTY: u32 = 0;
/// The neighbour was learned; it is probed, and removed if it is not confirmed.
const LEARNED: u32 = 1;
/// The neighbour was configured.
const STATIC: u32 = 2;
/// The neighbour was learned, has not been confirmed for long, and is being probed at its own address.
const PROBED: u32 = 3;
/// The neighbour was learned, but a different station may have its address now: it is being probed by broadcast.
const DOUBTED: u32 = 4;
/// Milliseconds between probes.
const RETRANSMIT: u64 = 1000;
/// Maximum number of neighbours probed at a time, and the milliseconds until the next ones are: many may be due at
/// once.
const MOST_PROBES: usize = 32;
const PAUSE: u64 = 10;

/// A neighbour behind one NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Number of the NIC.
    pub nic: u8,
    /// IPv4 address, in host byte order.
    pub ip: u32,
    /// Ethernet address.
    pub mac: Mac,
}

/// Contents of one slot.
#[derive(Clone, Copy)]
struct Entry {
    ip: u32,
    nic: u8,
    kind: u32,
    probes: u32,
    mac: Mac,
    /// Time when it was last heard; while it is being probed, the time of the last probe.
    confirmed: u64,
}

impl Entry {
    /// Returns true if it was learned, whatever its state.
    const fn is_learned(&self) -> bool {
        matches!(self.kind, LEARNED | PROBED | DOUBTED)
    }

    /// Returns the time of the next probe; `None` if it is configured or empty.
    const fn due(&self) -> Option<u64> {
        match (self.kind, self.probes) {
            (LEARNED, _) => Some(self.confirmed.saturating_add(REACHABLE)),
            (DOUBTED, 0) => Some(self.confirmed),
            (PROBED | DOUBTED, _) => Some(self.confirmed.saturating_add(RETRANSMIT)),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Slot {
    sequence: AtomicU32,
    ip: AtomicU32,
    /// Kind, probes and NIC, 8 bits each.
    state: AtomicU32,
    mac: AtomicU64,
    confirmed: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            sequence: AtomicU32::new(0),
            ip: AtomicU32::new(0),
            state: AtomicU32::new(EMPTY),
            mac: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
        }
    }

    /// Reads the words; torn if a writer is active.
    fn peek(&self) -> Entry {
        let state = self.state.load(Relaxed);
        let [a, b, c, d, e, f, ..] = self.mac.load(Relaxed).to_le_bytes();
        Entry {
            ip: self.ip.load(Relaxed),
            nic: (state >> 16) as u8,
            kind: state & 0xff,
            probes: (state >> 8) & 0xff,
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
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // The odd sequence must be visible before any new word ...
        fence(Release);
        self.ip.store(entry.ip, Relaxed);
        self.state.store(entry.kind | entry.probes << 8 | u32::from(entry.nic) << 16, Relaxed);
        self.mac.store(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), Relaxed);
        self.confirmed.store(entry.confirmed, Relaxed);
        // ... and the even one after all of them.
        self.sequence.store(sequence.wrapping_add(2), Release);
    }
}

/// The neighbour table. About 32 KiB; it can be a `static`.
pub struct Neighbours {
    lock: AtomicBool,
    generation: AtomicU32,
    arrivals: AtomicU32,
    buckets: [[Slot; WAYS]; BUCKETS],
}

impl Default for Neighbours {
    fn default() -> Self {
        Self::new()
    }
}

impl Neighbours {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self {
            lock: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            arrivals: AtomicU32::new(0),
            buckets: [const { [const { Slot::new() }; WAYS] }; BUCKETS],
        }
    }

    /// Adds a neighbour that is never probed and never ages; returns false if there is no room in its bucket.
    pub fn add_static(&self, neighbour: Neighbour) -> bool {
        let entry = Entry {
            ip: neighbour.ip,
            nic: neighbour.nic,
            kind: STATIC,
            probes: 0,
            mac: neighbour.mac,
            confirmed: 0,
        };
        self.locked(|| self.place(&entry, true)).unwrap_or(false)
    }

    /// Records at time `now` (milliseconds) that a neighbour was heard. A new one is added only if `create`; it
    /// replaces the oldest learned one in its bucket if that is full. Static neighbours are not changed.
    pub fn learn(&self, neighbour: Neighbour, create: bool, now: u64) {
        let entry = Entry {
            ip: neighbour.ip,
            nic: neighbour.nic,
            kind: LEARNED,
            probes: 0,
            mac: neighbour.mac,
            confirmed: now,
        };
        self.locked(|| self.place(&entry, create));
    }

    /// Returns the Ethernet address of the neighbour `ip` behind NIC `nic`. Never waits.
    pub fn find(&self, nic: u8, ip: u32) -> Option<Mac> {
        let entries = self.bucket(nic, ip).iter().filter_map(Slot::read);
        entries.filter(|entry| entry.kind != EMPTY).find(|e| e.ip == ip && e.nic == nic).map(|e| e.mac)
    }

    /// Returns a number that changes whenever an address that [`Neighbours::find`] may have returned becomes invalid.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// Returns a number that changes whenever a neighbour is added.
    #[inline(always)]
    pub fn arrivals(&self) -> u32 {
        self.arrivals.load(Acquire)
    }

    /// Marks at time `now` (milliseconds) all learned neighbours behind NIC `nic` as doubtful: different stations may
    /// have their addresses now. They are used as before until [`Neighbours::age`] has probed them. Returns false if
    /// the lock was not available.
    pub fn mark_doubtful(&self, nic: u8, now: u64) -> bool {
        let doubted = self.locked(|| {
            for slot in self.buckets.iter().flatten() {
                let entry = slot.peek();
                if entry.is_learned() && entry.nic == nic {
                    slot.write(&Entry { kind: DOUBTED, probes: 0, confirmed: now, ..entry });
                }
            }
        });
        doubted.is_some()
    }

    /// Finds neighbours that were not confirmed for [`REACHABLE`], or are doubtful: passes each to `probe` up to
    /// [`PROBES`] times, a second apart, and then removes it. A doubtful one is passed with the broadcast address,
    /// because its address may have changed. Returns when to call again, in milliseconds as `now`; `None` if no
    /// neighbour can become due.
    pub fn age(&self, now: u64, probe: &mut dyn FnMut(Neighbour)) -> Option<u64> {
        let (mut next, mut asked) = (None, 0);
        for slot in self.buckets.iter().flatten() {
            let mut count = |neighbour| {
                asked += 1;
                probe(neighbour);
            };
            if let Some(due) = slot.read().and_then(|entry| self.age_entry(slot, entry, now, &mut count)) {
                next = Some(next.map_or(due, |next: u64| next.min(due)));
            }
            if asked == MOST_PROBES {
                return Some(now.saturating_add(PAUSE));
            }
        }
        next
    }

    /// Handles one entry; returns when it is due again, if ever.
    fn age_entry(
        &self,
        slot: &Slot,
        entry: Entry,
        now: u64,
        probe: &mut dyn FnMut(Neighbour),
    ) -> Option<u64> {
        let due = entry.due()?;
        if now < due {
            return Some(due);
        }
        let gone = entry.probes >= PROBES;
        let kind = match entry.kind {
            _ if gone => EMPTY,
            DOUBTED => DOUBTED,
            _ => PROBED,
        };
        let aged = Entry { kind, probes: entry.probes + 1, confirmed: now, ..entry };
        let written = self.locked(|| {
            let current = slot.peek();
            // Not if another vCPU has confirmed or replaced the neighbour meanwhile.
            let same = (current.ip, current.nic, current.kind, current.confirmed)
                == (entry.ip, entry.nic, entry.kind, entry.confirmed);
            if same {
                slot.write(&aged);
            }
            same
        });
        let again = Some(now.saturating_add(RETRANSMIT));
        if written != Some(true) {
            return again;
        }
        if gone {
            self.generation.fetch_add(1, Release);
            return None;
        }
        let mac = if kind == DOUBTED { Mac::BROADCAST } else { entry.mac };
        probe(Neighbour { nic: entry.nic, ip: entry.ip, mac });
        again
    }

    /// Stores `entry` in its existing slot, in an empty one, or in place of the oldest learned one; returns false if
    /// there is no slot for it. The caller holds the lock.
    fn place(&self, entry: &Entry, create: bool) -> bool {
        let bucket = self.bucket(entry.nic, entry.ip);
        let same = |e: &Entry| e.kind != EMPTY && e.ip == entry.ip && e.nic == entry.nic;
        if let Some(slot) = bucket.iter().find(|slot| same(&slot.peek())) {
            let old = slot.peek();
            if old.kind == STATIC && entry.kind != STATIC {
                return true;
            }
            slot.write(entry);
            if old.mac != entry.mac {
                self.generation.fetch_add(1, Release);
            }
            return true;
        }
        if !create {
            return false;
        }
        let oldest = bucket.iter().filter(|slot| slot.peek().kind != STATIC).min_by_key(|slot| {
            let entry = slot.peek();
            // A neighbour that has not answered yet is replaced before those that are known to be reachable.
            (entry.kind != EMPTY, entry.kind == LEARNED, entry.confirmed)
        });
        let Some(slot) = oldest else { return false };
        let makes_room = slot.peek().kind != EMPTY;
        slot.write(entry);
        self.arrivals.fetch_add(1, Release);
        if makes_room {
            self.generation.fetch_add(1, Release);
        }
        true
    }

    fn bucket(&self, nic: u8, ip: u32) -> &[Slot; WAYS] {
        let hash = (ip ^ u32::from(nic) << 24).wrapping_mul(0x9e37_79b1) >> 25;
        &self.buckets[hash as usize % BUCKETS]
    }

    /// Runs `change` while holding the lock; `None` (and not run) if another vCPU, perhaps preempted, keeps it.
    fn locked<T>(&self, change: impl FnOnce() -> T) -> Option<T> {
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
