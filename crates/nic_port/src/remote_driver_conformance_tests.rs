//! Queues with a driver in another program under the conformance suite for ports: doorbells and calls are the driver's
//! own descriptors.

use std::os::fd::OwnedFd;

use conformance::{Pattern, SinkBench, SourceBench, check_sink, check_source};
use port::Frame;
use rustix::event::{EventfdFlags, eventfd};

use super::tests::guest::{Guest, Habit};
use super::tests::{Driver, lost};
use super::*;

/// Queues that are served, and the driver of each.
struct Bench {
    queues: Arc<NicQueues>,
    guests: Vec<Guest>,
    /// Doorbell of each driver.
    doorbells: Vec<OwnedFd>,
    /// Call descriptor of each driver.
    calls: Vec<OwnedFd>,
    sink: Arc<dyn Sink>,
    source: Box<dyn Source>,
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event descriptor")
}

fn kick(doorbell: &OwnedFd) {
    rustix::io::write(doorbell, &1_u64.to_ne_bytes()).expect("it has room");
}

/// Returns true if the descriptor was rung since the last call.
fn was_rung(bell: &OwnedFd) -> bool {
    rustix::io::read(bell, &mut [0; 8]).is_ok()
}

impl Bench {
    /// Creates queues in one direction, each served by a call of `serve`.
    fn new(habit: Habit, pairs: usize, serve: impl Fn(&NicQueues, usize, &Guest, RingEventfds)) -> Self {
        let queues = NicQueues::foreign(pairs).expect("event descriptors");
        queues.use_pairs(pairs);
        let (mut guests, mut doorbells, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            let (guest, doorbell, call) = (Guest::new(habit, true), event(), event());
            let eventfds = RingEventfds {
                doorbell: doorbell.try_clone().expect("a descriptor"),
                call: Some(call.try_clone().expect("a descriptor")),
            };
            serve(&queues, pair, &guest, eventfds);
            assert!(was_rung(&call), "a driver whose queue is served is told so");
            guests.push(guest);
            doorbells.push(doorbell);
            calls.push(call);
        }
        let (sink, mut source) = (queues.sink(), queues.source());
        // Clears the rings made when the queues were started.
        sink.disarm();
        source.disarm();
        Self { queues, guests, doorbells, calls, sink, source }
    }

    fn receiving(habit: Habit, pairs: usize) -> Self {
        let mut bench = Self::new(habit, pairs, |queues, pair, guest, eventfds| {
            queues.serve_receive(pair, guest.receive_queue(), eventfds).expect("served");
        });
        for (guest, doorbell) in bench.guests.iter_mut().zip(&bench.doorbells) {
            if guest.post() {
                kick(doorbell);
            }
        }
        bench
    }

    fn transmitting(habit: Habit, pairs: usize) -> Self {
        Self::new(habit, pairs, |queues, pair, guest, eventfds| {
            queues.serve_transmit(pair, guest.transmit_queue(), eventfds).expect("served");
        })
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(self.guests.iter_mut().flat_map(Guest::received).collect())
    }

    fn lost(&self) -> u64 {
        lost(&self.queues)
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        // One flow: all frames go through the last pair.
        let (Some(guest), Some(doorbell)) = (self.guests.last_mut(), self.doorbells.last()) else { return 0 };
        let (sent, wants_kick) = guest.send(frames);
        if wants_kick {
            kick(doorbell);
        }
        sent
    }
}

#[test]
fn the_receive_side_of_a_driver_elsewhere_is_a_sink() {
    for habit in Habit::ALL {
        for pairs in [1, 3] {
            check_sink(|| Bench::receiving(habit, pairs));
        }
    }
    check_sink(|| {
        let mut bench = Bench::receiving(Habit::ByTheBook, 3);
        bench.sink = bench.queues.common_sink();
        bench
    });
}

#[test]
fn one_pair_of_a_driver_elsewhere_is_a_sink_and_a_source() {
    for habit in Habit::ALL {
        check_sink(|| {
            let mut bench = Bench::receiving(habit, 3);
            bench.sink = bench.queues.sink_of(2, 3);
            bench
        });
        check_source(|| {
            let mut bench = Bench::transmitting(habit, 3);
            bench.source = bench.queues.source_of(2);
            bench
        });
    }
}

#[test]
fn the_transmit_side_of_a_driver_elsewhere_is_a_source() {
    for habit in Habit::ALL {
        for pairs in [1, 3] {
            check_source(|| Bench::transmitting(habit, pairs));
        }
    }
}

#[test]
fn a_driver_elsewhere_is_rung_for_what_it_waits_for() {
    let mut bench = Bench::receiving(Habit::ByTheBook, 1);
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    assert!(!was_rung(&bench.calls[0]), "nothing has come");
    assert_eq!(bench.sink.deliver(&frame), 1);
    assert!(was_rung(&bench.calls[0]));
    assert_eq!(bench.guests[0].received().len(), 1);
    let mut bench = Bench::transmitting(Habit::ByTheBook, 1);
    assert_eq!(bench.feed(&[Pattern::default().octets(1, 0, 60)]), 1);
    assert!(!was_rung(&bench.calls[0]), "nobody has taken it");
    assert_eq!(bench.source.drain(64, &mut |_| {}), 1);
    assert!(was_rung(&bench.calls[0]));
}
