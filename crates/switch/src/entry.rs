//! State for a burst in the switch: the list of ports, and the workspace in which it is sorted.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use frame::offload::Offloads;
use ledger::{Counter, PortCounters};
use port::offload::deliver_known;
use port::{Frame, Frames, Sink, octets};

use crate::classify::{Sorted, SwitchView, Tally};
use crate::collect::{Addresses, collect};
use crate::switch::Shared;

/// Number of lanes: threads that can enter at one port at the same time without an allocation, and without sharing a
/// cache line if each has a lane of its own.
pub(crate) const LANES: usize = 16;

/// A group of counters on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct PaddedCounters(PortCounters);

/// A port in its role as a receiver of frames.
pub(crate) struct PortOutput {
    id: u16,
    name: String,
    sink: Arc<dyn Sink>,
    /// Counters written by the threads that enter at the port, each under its lane's lock.
    entering: [PaddedCounters; LANES],
    /// Counters written by threads for which no lane was free.
    without_lane: PaddedCounters,
    /// Counters written by the threads that deliver to the port, by their lane.
    leaving: [PaddedCounters; LANES],
}

impl PortOutput {
    pub(crate) fn new(id: u16, name: &str, sink: Arc<dyn Sink>) -> Self {
        let (entering, leaving) = Default::default();
        Self { id, name: name.to_owned(), sink, entering, without_lane: PaddedCounters::default(), leaving }
    }

    pub(crate) const fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sum of all groups.
    pub(crate) fn counters(&self) -> PortCounters {
        let sum = PortCounters::default();
        for PaddedCounters(part) in self.entering.iter().chain(&self.leaving).chain([&self.without_lane]) {
            sum.add_all(part);
        }
        sum
    }

    /// Delivers the frames whose bits are set.
    #[inline]
    fn send(&self, burst: &Burst<'_>, mask: u64, lane: usize) {
        if mask == burst.all() {
            let taken = deliver_known(&*self.sink, burst.needed, burst.frames);
            let left =
                if taken == burst.frames.len() { burst.octets } else { octets(&burst.frames[..taken]) };
            self.count(lane, (burst.frames.len(), taken), left);
        } else if mask != 0 {
            let mut frames = Frames::new();
            gather(burst.frames, mask, &mut frames);
            let taken = deliver_known(&*self.sink, burst.needed, &frames);
            self.count(lane, (frames.len(), taken), octets(&frames[..taken]));
        }
    }

    #[inline]
    fn count(&self, lane: usize, (offered, taken): (usize, usize), octets: u64) {
        let PaddedCounters(counters) = &self.leaving[lane % LANES];
        counters.out_frames.add_shared(taken as u64);
        counters.out_bytes.add_shared(octets);
        if taken < offered {
            counters.drop_full.add_shared((offered - taken) as u64);
        }
    }
}

/// Picks the frames whose bits are set, in order.
#[inline(always)]
fn gather<'a>(frames: &[Frame<'a>], mut mask: u64, picked: &mut Frames<'a>) {
    while mask != 0 {
        picked.push(frames[mask.trailing_zeros() as usize]);
        mask &= mask - 1;
    }
}

/// Snapshot of all ports of a switch.
pub(crate) struct Ports {
    generation: u64,
    exits: Vec<Arc<PortOutput>>,
    /// For each port number, the port's index in the list.
    index: Vec<u16>,
    exists: Vec<bool>,
}

impl Ports {
    pub(crate) fn new(generation: u64, exits: Vec<Arc<PortOutput>>) -> Self {
        let numbers = exits.iter().map(|exit| usize::from(exit.id) + 1).max().unwrap_or(0);
        let (mut index, mut exists) = (vec![0; numbers], vec![false; numbers]);
        for (i, exit) in exits.iter().enumerate() {
            index[usize::from(exit.id)] = i as u16;
            exists[usize::from(exit.id)] = true;
        }
        Self { generation, exits, index, exists }
    }

    fn has(&self, id: u16) -> bool {
        self.exists.get(usize::from(id)) == Some(&true)
    }

    #[inline(always)]
    fn exit(&self, id: u16) -> &PortOutput {
        &self.exits[usize::from(self.index[usize::from(id)])]
    }
}

/// Frames that enter together.
struct Burst<'a> {
    frames: &'a [Frame<'a>],
    octets: u64,
    /// Offloads that a sink must support to take all of them unchanged.
    needed: Offloads,
}

impl Burst<'_> {
    /// Returns a word with a bit set for each frame.
    #[inline(always)]
    const fn all(&self) -> u64 {
        // There is at least one frame, and at most 64.
        u64::MAX >> (64 - self.frames.len())
    }
}

/// Workspace for one burst, kept from burst to burst.
struct Workspace {
    ports: Arc<Ports>,
    addresses: Addresses,
    sorted: Sorted,
}

impl Workspace {
    fn new(ports: Arc<Ports>) -> Self {
        let sorted = Sorted::new(ports.exists.len());
        Self { ports, addresses: Addresses::new(), sorted }
    }

    /// Performs all steps for one burst, which is not empty.
    #[inline]
    fn switch(&mut self, shared: &Shared, from: &PortOutput, books: &LaneCounters<'_>, frames: &[Frame<'_>]) {
        if !self.ports.has(from.id) {
            return books.count_removed(frames);
        }
        let seen = collect(frames, &mut self.addresses);
        let now = shared.table.now();
        let place = SwitchView { table: &shared.table, port: from.id, exists: &self.ports.exists, now };
        self.sorted.classify(&place, &self.addresses, frames.len(), seen);
        let burst = Burst { frames, octets: seen.octets, needed: seen.left.needed() };
        let copies = self.deliver(&burst, from, books.lane);
        books.count_burst(&burst, &self.sorted.tally, copies);
        self.sorted.clear();
    }

    /// Delivers once to each receiver; returns how many copies were made of flooded frames.
    #[inline]
    fn deliver(&self, burst: &Burst<'_>, from: &PortOutput, lane: usize) -> u64 {
        let tally = &self.sorted.tally;
        let flood = tally.unknown | tally.broadcast;
        if flood == 0 {
            for &port in self.sorted.ports() {
                self.ports.exit(port).send(burst, self.sorted.only_to(port), lane);
            }
            return 0;
        }
        for exit in self.ports.exits.iter().filter(|exit| exit.id != from.id) {
            exit.send(burst, self.sorted.only_to(exit.id) | flood, lane);
        }
        u64::from(flood.count_ones()) * (self.ports.exits.len() as u64 - 1)
    }
}

/// Counters for the threads of one lane, or for those without a lane.
struct LaneCounters<'a> {
    counters: &'a PortCounters,
    lane: usize,
    /// True if no other thread writes them at the same time.
    alone: bool,
}

impl LaneCounters<'_> {
    #[inline(always)]
    fn add(&self, counter: &Counter, n: u64) {
        if self.alone { counter.add(n) } else { counter.add_shared(n) }
    }

    #[inline]
    fn count_burst(&self, burst: &Burst<'_>, tally: &Tally, copies: u64) {
        let (counters, frames) = (self.counters, burst.frames.len() as u64);
        self.add(&counters.in_frames, frames);
        self.add(&counters.in_bytes, burst.octets);
        if tally.is_empty() {
            // Nothing was flooded, so there are no copies either.
            self.add(&counters.forwarded, frames);
        } else {
            self.count_outcomes(burst, tally, copies);
        }
    }

    /// Counts a burst in which not all frames were forwarded, or addresses were learned. Apart, because without an instruction for
    /// it the bits of a word are counted in many steps.
    #[inline(never)]
    fn count_outcomes(&self, burst: &Burst<'_>, tally: &Tally, copies: u64) {
        let counters = self.counters;
        let dropped = tally.same_port | tally.malformed | tally.pauses;
        let elsewhere = tally.unknown | tally.broadcast | dropped;
        let rest = [
            (&counters.forwarded, u64::from((burst.all() & !elsewhere).count_ones())),
            (&counters.flood_unknown, u64::from(tally.unknown.count_ones())),
            (&counters.flood_broadcast, u64::from(tally.broadcast.count_ones())),
            (&counters.drop_same_port, u64::from(tally.same_port.count_ones())),
            (&counters.drop_malformed, u64::from(tally.malformed.count_ones())),
            (&counters.drop_pause, u64::from(tally.pauses.count_ones())),
            (&counters.learned, tally.learned),
            (&counters.moves, tally.moves),
            (&counters.table_full, tally.table_full),
            (&counters.flood_copies, copies),
        ];
        for (counter, n) in rest {
            if n != 0 {
                self.add(counter, n);
            }
        }
    }

    #[cold]
    fn count_removed(&self, frames: &[Frame<'_>]) {
        self.add(&self.counters.in_frames, frames.len() as u64);
        self.add(&self.counters.in_bytes, octets(frames));
        self.add(&self.counters.drop_removed, frames.len() as u64);
    }
}

/// A port in its role as an entry for frames.
pub(crate) struct PortInput {
    lanes: [Lane; LANES],
}

/// A workspace for one thread at a time, on cache lines of its own.
#[repr(align(128))]
struct Lane(Mutex<Option<Workspace>>);

impl PortInput {
    pub(crate) fn new() -> Self {
        Self { lanes: std::array::from_fn(|_| Lane(Mutex::new(None))) }
    }

    /// Switches a burst of at least one frame in the workspace of this lane, or of the next one that is free.
    #[inline]
    pub(crate) fn enter(&self, shared: &Shared, from: &PortOutput, lane: usize, frames: &[Frame<'_>]) {
        for i in 0..LANES {
            let lane = (lane + i) % LANES;
            let mut desk = match self.lanes[lane].0.try_lock() {
                Ok(desk) => desk,
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A sink panicked in the middle of a burst: the workspace may be inconsistent.
                    let mut desk = poisoned.into_inner();
                    *desk = None;
                    desk
                }
                Err(TryLockError::WouldBlock) => continue,
            };
            let books = LaneCounters { counters: &from.entering[lane].0, lane, alone: true };
            return current(&mut desk, shared).switch(shared, from, &books, frames);
        }
        let books = LaneCounters { counters: &from.without_lane.0, lane, alone: false };
        Workspace::new(shared.ports()).switch(shared, from, &books, frames);
    }

    /// Waits for bursts under way, then drops the snapshot of ports.
    pub(crate) fn forget_ports(&self) {
        for Lane(desk) in &self.lanes {
            *desk.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Returns the workspace, with the current snapshot of ports.
#[inline(always)]
fn current<'a>(desk: &'a mut Option<Workspace>, shared: &Shared) -> &'a mut Workspace {
    if desk.as_ref().is_none_or(|desk| desk.ports.generation != shared.generation()) {
        *desk = None;
    }
    desk.get_or_insert_with(|| Workspace::new(shared.ports()))
}
