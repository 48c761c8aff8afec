//! The NIC's data path as a port, under the suite that every port passes.

mod guest;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use guest::{Guest, Habit};
use ledger::{Counter, NicDirection};
use nic::virtio_net::rx::{Lease, RxQueue};
use nic::virtio_net::tx::TxQueue;
use rustix::event::{EventfdFlags, eventfd};
use switch::conformance::{SinkBench, SourceBench, check_sink, check_source};
use switch::{Bell, Frame, Sink, Source};

/// The largest frame, without FCS.
const LONGEST: usize = 1518;

/// A receive queue as the narrowest possible sink.
struct Rx {
    queue: Mutex<RxQueue>,
    ledger: NicDirection,
    not_taken: Counter,
    /// Whether frames are copied outside of the lock.
    leased: bool,
}

impl Rx {
    fn take(&self, frames: &[Frame<'_>]) -> usize {
        if !self.leased {
            return self.queue.lock().unwrap().fill(frames, &self.ledger).taken;
        }
        let mut lease = Lease::default();
        let taken = self.queue.lock().unwrap().plan(frames, &mut lease, &self.ledger);
        lease.copy(frames);
        self.queue.lock().unwrap().commit(&mut lease, &self.ledger);
        taken
    }
}

impl Sink for Rx {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let taken = self.take(frames);
        self.not_taken.add_shared((frames.len() - taken) as u64);
        taken
    }

    fn room(&self) -> usize {
        self.queue.lock().unwrap().room()
    }

    fn arm(&self) -> bool {
        self.queue.lock().unwrap().arm()
    }

    fn disarm(&self) {
        self.queue.lock().unwrap().disarm();
    }
}

struct RxBench {
    guest: Guest,
    rx: Rx,
}

impl RxBench {
    fn new(habit: Habit, mergeable: bool, leased: bool) -> Self {
        let mut guest = Guest::new(habit);
        let queue = Mutex::new(RxQueue::new(guest.device(), mergeable));
        guest.post();
        let rx = Rx { queue, ledger: NicDirection::default(), not_taken: Counter::new(), leased };
        Self { guest, rx }
    }
}

impl SinkBench for RxBench {
    fn sink(&self) -> &dyn Sink {
        &self.rx
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(self.guest.received())
    }

    fn lost(&self) -> u64 {
        let ledger = &self.rx.ledger;
        self.rx.not_taken.get() + ledger.drop_too_long.get() + ledger.drop_bad_ring.get()
    }
}

/// A transmit queue as the narrowest possible source.
struct Tx {
    queue: TxQueue,
    ledger: NicDirection,
    bell: OwnedFd,
}

impl Source for Tx {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.queue.drain(budget, &self.ledger, take).frames
    }

    fn arm(&mut self) -> bool {
        self.queue.arm()
    }

    fn disarm(&mut self) {
        self.queue.disarm();
        // Not rung: nothing to silence.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Event(self.bell.as_fd())
    }
}

struct TxBench {
    guest: Guest,
    tx: Tx,
}

impl TxBench {
    fn new(habit: Habit) -> Self {
        let guest = Guest::new(habit);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let tx = Tx { queue: TxQueue::new(guest.device(), LONGEST), ledger: NicDirection::default(), bell };
        Self { guest, tx }
    }
}

impl SourceBench for TxBench {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.tx
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let (sent, kick) = self.guest.send(frames);
        if kick {
            rustix::io::write(&self.tx.bell, &1_u64.to_ne_bytes()).unwrap();
        }
        sent
    }
}

#[test]
fn receive_queues_are_sinks() {
    for habit in Habit::ALL {
        for mergeable in [false, true] {
            check_sink(|| RxBench::new(habit, mergeable, false));
        }
    }
}

#[test]
fn receive_queues_that_several_fill_through_leases_are_sinks() {
    for habit in [Habit::ByTheBook, Habit::EventIndices] {
        for mergeable in [false, true] {
            check_sink(|| RxBench::new(habit, mergeable, true));
        }
    }
}

#[test]
fn transmit_queues_are_sources() {
    for habit in Habit::ALL {
        check_source(|| TxBench::new(habit));
    }
}
