//! What a burst needs on its way through the switch: the list of ports, and the desk on which it is sorted.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use ledger::PortCounters;

use crate::classify::{Place, Sorted, Tally};
use crate::collect::{Addresses, collect};
use crate::port::{Frame, Frames, Sink, octets};
use crate::switch::Shared;

/// Threads that enter at one port at the same time without an allocation.
const DESKS: usize = 4;

/// Written by the threads that enter at the port.
#[derive(Default)]
#[repr(align(128))]
struct Entering(PortCounters);

/// Written by the threads that deliver to the port: on lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Leaving(PortCounters);

/// One port, as a place that frames go to.
pub(crate) struct Exit {
    id: u16,
    name: String,
    sink: Arc<dyn Sink>,
    entering: Entering,
    leaving: Leaving,
}

impl Exit {
    pub(crate) fn new(id: u16, name: &str, sink: Arc<dyn Sink>) -> Self {
        Self { id, name: name.to_owned(), sink, entering: Entering::default(), leaving: Leaving::default() }
    }

    pub(crate) const fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Both halves in one.
    pub(crate) fn counters(&self) -> PortCounters {
        let (e, l) = (&self.entering.0, &self.leaving.0);
        let sum = PortCounters::default();
        for (to, from) in [
            (&sum.in_frames, &e.in_frames),
            (&sum.in_bytes, &e.in_bytes),
            (&sum.out_frames, &l.out_frames),
            (&sum.out_bytes, &l.out_bytes),
            (&sum.flood_unknown, &e.flood_unknown),
            (&sum.flood_broadcast, &e.flood_broadcast),
            (&sum.drop_same_port, &e.drop_same_port),
            (&sum.drop_malformed, &e.drop_malformed),
            (&sum.drop_full, &l.drop_full),
            (&sum.moves, &e.moves),
            (&sum.learned, &e.learned),
            (&sum.forwarded, &e.forwarded),
            (&sum.flood_copies, &e.flood_copies),
            (&sum.drop_removed, &e.drop_removed),
            (&sum.table_full, &e.table_full),
        ] {
            to.add(from.get());
        }
        sum
    }

    /// Delivers the frames whose bits are set.
    #[inline]
    fn send(&self, burst: &Burst<'_>, mask: u64) {
        if mask == burst.all() {
            let taken = self.sink.deliver(burst.frames);
            let left =
                if taken == burst.frames.len() { burst.octets } else { octets(&burst.frames[..taken]) };
            self.count(burst.frames.len(), taken, left);
        } else if mask != 0 {
            let mut frames = Frames::new();
            gather(burst.frames, mask, &mut frames);
            let taken = self.sink.deliver(&frames);
            self.count(frames.len(), taken, octets(&frames[..taken]));
        }
    }

    #[inline]
    fn count(&self, offered: usize, taken: usize, octets: u64) {
        let counters = &self.leaving.0;
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

/// All ports of a switch at one moment.
pub(crate) struct Ports {
    generation: u64,
    exits: Vec<Arc<Exit>>,
    /// For each number, where in the list the port is.
    index: Vec<u16>,
    exists: Vec<bool>,
}

impl Ports {
    pub(crate) fn new(generation: u64, exits: Vec<Arc<Exit>>) -> Self {
        let numbers = exits.iter().map(|exit| usize::from(exit.id) + 1).max().unwrap_or(0);
        let (mut index, mut exists) = (vec![0; numbers], vec![false; numbers]);
        for (i, exit) in exits.iter().enumerate() {
            index[usize::from(exit.id)] = i as u16;
            exists[usize::from(exit.id)] = true;
        }
        Self { generation, exits, index, exists }
    }

    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn exits(&self) -> &[Arc<Exit>] {
        &self.exits
    }

    fn has(&self, id: u16) -> bool {
        self.exists.get(usize::from(id)) == Some(&true)
    }

    #[inline(always)]
    fn exit(&self, id: u16) -> &Exit {
        &self.exits[usize::from(self.index[usize::from(id)])]
    }
}

/// Frames that enter together.
struct Burst<'a> {
    frames: &'a [Frame<'a>],
    octets: u64,
}

impl Burst<'_> {
    /// A bit for each frame.
    #[inline(always)]
    const fn all(&self) -> u64 {
        // There is at least one, and at most 64.
        u64::MAX >> (64 - self.frames.len())
    }
}

/// Everything that one burst needs, kept from burst to burst.
struct Desk {
    ports: Arc<Ports>,
    addresses: Addresses,
    sorted: Sorted,
}

impl Desk {
    fn new(ports: Arc<Ports>) -> Self {
        let sorted = Sorted::new(ports.exists.len());
        Self { ports, addresses: Addresses::new(), sorted }
    }

    /// All steps for one burst, which is not empty.
    #[inline]
    fn switch(&mut self, shared: &Shared, from: &Exit, frames: &[Frame<'_>]) {
        if !self.ports.has(from.id) {
            return from.entering.0.count_removed(frames);
        }
        let seen = collect(frames, &mut self.addresses);
        let now = shared.table.now();
        let place = Place { table: &shared.table, port: from.id, exists: &self.ports.exists, now };
        self.sorted.classify(&place, &self.addresses, frames.len(), seen);
        let burst = Burst { frames, octets: seen.octets };
        let copies = self.deliver(&burst, from);
        from.entering.0.count_burst(&burst, &self.sorted.tally, copies);
        self.sorted.clear();
    }

    /// One delivery for each receiver; returns how many copies the flooded frames made.
    #[inline]
    fn deliver(&self, burst: &Burst<'_>, from: &Exit) -> u64 {
        let tally = &self.sorted.tally;
        let flood = tally.unknown | tally.broadcast;
        if flood == 0 {
            for &port in self.sorted.ports() {
                self.ports.exit(port).send(burst, self.sorted.only_to(port));
            }
            return 0;
        }
        for exit in self.ports.exits.iter().filter(|exit| exit.id != from.id) {
            exit.send(burst, self.sorted.only_to(exit.id) | flood);
        }
        u64::from(flood.count_ones()) * (self.ports.exits.len() as u64 - 1)
    }
}

/// The books of one burst.
trait Books {
    fn count_burst(&self, burst: &Burst<'_>, tally: &Tally, copies: u64);
    fn count_removed(&self, frames: &[Frame<'_>]);
}

impl Books for PortCounters {
    #[inline]
    fn count_burst(&self, burst: &Burst<'_>, tally: &Tally, copies: u64) {
        self.in_frames.add_shared(burst.frames.len() as u64);
        self.in_bytes.add_shared(burst.octets);
        let elsewhere = tally.unknown | tally.broadcast | tally.same_port | tally.malformed;
        let rest = [
            (&self.forwarded, u64::from((burst.all() & !elsewhere).count_ones())),
            (&self.flood_unknown, u64::from(tally.unknown.count_ones())),
            (&self.flood_broadcast, u64::from(tally.broadcast.count_ones())),
            (&self.drop_same_port, u64::from(tally.same_port.count_ones())),
            (&self.drop_malformed, u64::from(tally.malformed.count_ones())),
            (&self.learned, tally.learned),
            (&self.moves, tally.moves),
            (&self.table_full, tally.table_full),
            (&self.flood_copies, copies),
        ];
        for (counter, n) in rest {
            if n != 0 {
                counter.add_shared(n);
            }
        }
    }

    #[cold]
    fn count_removed(&self, frames: &[Frame<'_>]) {
        self.in_frames.add_shared(frames.len() as u64);
        self.in_bytes.add_shared(octets(frames));
        self.drop_removed.add_shared(frames.len() as u64);
    }
}

/// One port, as a place where frames come in.
pub(crate) struct Entry {
    desks: [Mutex<Option<Desk>>; DESKS],
}

impl Entry {
    pub(crate) fn new() -> Self {
        Self { desks: std::array::from_fn(|_| Mutex::new(None)) }
    }

    /// Switches a burst of at least one frame at the first desk that is free.
    #[inline]
    pub(crate) fn enter(&self, shared: &Shared, from: &Exit, frames: &[Frame<'_>]) {
        for desk in &self.desks {
            let mut desk = match desk.try_lock() {
                Ok(desk) => desk,
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A sink panicked in the middle of a burst: the desk is not clean.
                    let mut desk = poisoned.into_inner();
                    *desk = None;
                    desk
                }
                Err(TryLockError::WouldBlock) => continue,
            };
            return current(&mut desk, shared).switch(shared, from, frames);
        }
        Desk::new(shared.ports()).switch(shared, from, frames);
    }

    /// Waits for bursts under way, then lets the list of ports go.
    pub(crate) fn forget_ports(&self) {
        for desk in &self.desks {
            *desk.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// The desk with the list of ports as it is now.
#[inline(always)]
fn current<'a>(desk: &'a mut Option<Desk>, shared: &Shared) -> &'a mut Desk {
    if desk.as_ref().is_none_or(|desk| desk.ports.generation != shared.generation()) {
        *desk = None;
    }
    desk.get_or_insert_with(|| Desk::new(shared.ports()))
}
