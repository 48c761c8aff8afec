//! The data paths of both NIC models as ports, under the conformance suite for ports.

mod e1000;
mod guest;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use conformance::{Pattern, SinkBench, SourceBench, check_sink, check_source};
use guest::{Guest, Habit};
use ledger::{Counter, NicDirection};
use nic::queue::{Lease, RxQueue, TxQueue};
use port::{Bell, Frame, Sink, Source};
use rustix::event::{EventfdFlags, eventfd};

/// Length of the largest frame, without FCS.
const LONGEST: usize = 1518;

/// A simulated driver of either model.
trait Driver {
    /// Creates the device's end of its ring, for frames to the driver.
    fn receive_queue(&self) -> RxQueue;
    /// Creates the device's end of its ring, for frames from the driver.
    fn transmit_queue(&self) -> TxQueue;
    /// Posts all free buffers for the device to write; returns true if the device wants a kick.
    fn post(&mut self) -> bool;
    /// Returns the frames received since the last call; posts their buffers again.
    fn received(&mut self) -> Vec<Vec<u8>>;
    /// Sends as many of the frames as there are buffers for; returns how many, and whether the device wants a kick.
    fn send(&mut self, frames: &[Vec<u8>]) -> (usize, bool);
    /// Returns the length of the shortest frame that arrives unchanged.
    fn shortest(&self) -> usize;
}

/// Minimal sink over a receive queue.
struct Rx {
    queue: Mutex<RxQueue>,
    ledger: NicDirection,
    not_taken: Counter,
    /// True if frames are copied without holding the lock.
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

struct RxBench<G> {
    guest: G,
    rx: Rx,
}

impl<G: Driver> RxBench<G> {
    fn new(mut guest: G, leased: bool) -> Self {
        let queue = Mutex::new(guest.receive_queue());
        guest.post();
        let rx = Rx { queue, ledger: NicDirection::default(), not_taken: Counter::new(), leased };
        Self { guest, rx }
    }
}

impl<G: Driver> SinkBench for RxBench<G> {
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

    fn pattern(&self) -> Pattern {
        let pattern = Pattern::default();
        Pattern { shortest: pattern.shortest.max(self.guest.shortest()), ..pattern }
    }
}

/// Minimal source over a transmit queue.
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
        // Fails if it has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Event(self.bell.as_fd())
    }
}

struct TxBench<G> {
    guest: G,
    tx: Tx,
}

impl<G: Driver> TxBench<G> {
    fn new(guest: G) -> Self {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let tx = Tx { queue: guest.transmit_queue(), ledger: NicDirection::default(), bell };
        Self { guest, tx }
    }
}

impl<G: Driver> SourceBench for TxBench<G> {
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
fn virtio_receive_queues_are_sinks() {
    for habit in Habit::ALL {
        for mergeable in [false, true] {
            check_sink(|| RxBench::new(Guest::new(habit, mergeable), false));
        }
    }
}

#[test]
fn virtio_receive_queues_that_several_fill_through_leases_are_sinks() {
    for habit in [Habit::ByTheBook, Habit::EventIndices] {
        for mergeable in [false, true] {
            check_sink(|| RxBench::new(Guest::new(habit, mergeable), true));
        }
    }
}

#[test]
fn virtio_transmit_queues_are_sources() {
    for habit in Habit::ALL {
        check_source(|| TxBench::new(Guest::new(habit, false)));
    }
}

#[test]
fn e1000_receive_rings_are_sinks() {
    for style in e1000::Style::ALL {
        for buffer in e1000::BUFFERS {
            for leased in [false, true] {
                check_sink(|| RxBench::new(e1000::Guest::new(style, buffer), leased));
            }
        }
    }
}

#[test]
fn e1000_transmit_rings_are_sources() {
    for style in e1000::Style::ALL {
        for buffer in e1000::BUFFERS {
            check_source(|| TxBench::new(e1000::Guest::new(style, buffer)));
        }
    }
}
