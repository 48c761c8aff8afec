//! The NIC's ports under the conformance suite for ports, with a simulated driver.

#[path = "../../nic/tests/ports/guest.rs"]
pub(super) mod guest;

use std::time::Instant;

use conformance::{HEADER, Pattern, SinkBench, SourceBench, check_sink, check_source};
use nic::moderation::Moderation;
use port::{ClockHandle, Frame};
use ring::BURST;

use super::*;
use crate::irq::counted::{self, Counted};
use crate::irq::{DelayedInterrupts, Messages, Queue};
use guest::{Guest, Habit};

const LONGEST: usize = 1518;

/// Operations of the driver in `guest`.
pub(super) trait Driver {
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

/// Frames to the driver that were lost, under any name.
pub(super) fn lost(queues: &NicQueues) -> u64 {
    let ledger = queues.rx_ledger();
    [&ledger.drop_no_buffer, &ledger.drop_too_long, &ledger.drop_not_running, &ledger.drop_bad_ring]
        .map(ledger::Counter::get)
        .iter()
        .sum()
}

/// Running queues, and the driver of each pair.
struct Bench {
    queues: Arc<NicQueues>,
    guests: Vec<Guest>,
    sink: Arc<dyn Sink>,
    source: Box<dyn Source>,
    /// Advances the clock of the queues.
    hand: ClockHandle,
}

impl Bench {
    fn new(pairs: usize, several_senders: bool) -> Self {
        let (clock, hand) = Clock::by_hand();
        let design = NicQueuesConfig { pairs, several_senders, ..NicQueuesConfig::default() };
        let queues = NicQueues::by(clock, design, SETTLE).expect("event descriptors");
        queues.use_pairs(pairs);
        let (sink, source) = (queues.sink(), queues.source());
        Self { queues, guests: Vec::new(), sink, source, hand }
    }

    /// Creates a bench for the sink of the last of as many parts as there are pairs.
    fn receiving_part(habit: Habit, pairs: usize, several_senders: bool) -> Self {
        let mut bench = Self::receiving(habit, pairs, several_senders);
        bench.sink = bench.queues.sink_of(pairs - 1, pairs);
        bench
    }

    /// Creates a bench for the source of the last pair.
    fn transmitting_pair(habit: Habit, pairs: usize) -> Self {
        let mut bench = Self::transmitting(habit, pairs);
        bench.source = bench.queues.source_of(pairs - 1);
        bench
    }

    fn receiving(habit: Habit, pairs: usize, several_senders: bool) -> Self {
        let mut bench = Self::new(pairs, several_senders);
        for pair in 0..pairs {
            let mut guest = Guest::new(habit, true);
            let running = Running { queue: guest.receive_queue(), notifier: Notifier::Message(None) };
            *bench.queues.rx.lock(pair).expect("a pair") = Some(running);
            guest.post();
            bench.guests.push(guest);
        }
        bench
    }

    fn transmitting(habit: Habit, pairs: usize) -> Self {
        let mut bench = Self::new(pairs, false);
        for pair in 0..pairs {
            let guest = Guest::new(habit, true);
            let running = Running { queue: guest.transmit_queue(), notifier: Notifier::Message(None) };
            *bench.queues.tx.lock(pair).expect("a pair") = Some(running);
            bench.guests.push(guest);
        }
        bench
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn pattern(&self) -> Pattern {
        let shortest = self.guests.first().map_or(HEADER, Driver::shortest).max(HEADER);
        Pattern { shortest, ..Pattern::default() }
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
        let Some(guest) = self.guests.last_mut() else { return 0 };
        let (sent, kick) = guest.send(frames);
        if kick {
            let last = self.queues.tx.kick(self.guests.len() - 1);
            last.expect("a pair").write(1).expect("a bell");
        }
        sent
    }
}

#[test]
fn the_receive_side_is_a_sink_for_one_thread_at_a_time() {
    for habit in Habit::ALL {
        check_sink(|| Bench::receiving(habit, 1, false));
    }
}

#[test]
fn the_receive_side_is_a_sink_for_several_threads() {
    for habit in [Habit::ByTheBook, Habit::EventIndices] {
        check_sink(|| Bench::receiving(habit, 1, true));
    }
}

#[test]
fn the_receive_side_with_several_pairs_is_a_sink() {
    check_sink(|| Bench::receiving(Habit::InOrder, 3, false));
    check_sink(|| Bench::receiving(Habit::ByTheBook, 3, true));
}

#[test]
fn one_pair_by_itself_is_a_sink_and_a_source() {
    for habit in Habit::ALL {
        check_sink(|| Bench::receiving_part(habit, 3, false));
        check_source(|| Bench::transmitting_pair(habit, 3));
    }
    check_sink(|| Bench::receiving_part(Habit::ByTheBook, 3, true));
}

#[test]
fn the_receive_side_that_nobody_waits_for_is_a_sink() {
    for several_senders in [false, true] {
        check_sink(|| {
            let mut bench = Bench::receiving(Habit::ByTheBook, 3, several_senders);
            bench.sink = bench.queues.common_sink();
            bench
        });
    }
}

#[test]
fn the_transmit_side_is_a_source() {
    for habit in Habit::ALL {
        for pairs in [1, 2] {
            check_source(|| Bench::transmitting(habit, pairs));
        }
    }
}

#[test]
fn without_a_driver_nothing_moves_and_what_is_delivered_is_counted() {
    let mut bench = Bench::new(2, false);
    bench.queues.stop();
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frames = [Frame::new(ring::Bytes::from_slice(&mut octets)); 3];
    assert_eq!((bench.sink.deliver(&frames), bench.sink.room(), bench.sink.arm()), (0, 0, false));
    assert_eq!(bench.queues.rx_ledger().drop_not_running.get(), 3);
    assert_eq!(bench.source.drain(BURST, &mut |_| panic!("a frame from nowhere")), 0);
    assert!(!bench.source.arm());
}

#[test]
fn losses_that_several_threads_meet_at_the_same_time_are_all_counted() {
    const TURNS: u64 = 20_000;
    let bench = Bench::new(1, true);
    bench.queues.stop();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut octets = Pattern::default().octets(1, 0, 60);
                let frames = [Frame::new(ring::Bytes::from_slice(&mut octets))];
                (0..TURNS).for_each(|_| assert_eq!(bench.sink.deliver(&frames), 0));
            });
        }
    });
    assert_eq!(bench.queues.rx_ledger().drop_not_running.get(), 2 * TURNS);
}

#[test]
fn after_the_pairs_changed_under_way_the_nic_takes_nothing_for_a_while() {
    let mut bench = Bench::receiving(Habit::InOrder, 2, false);
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frames = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    let part = bench.queues.sink_of(1, 2);
    assert_eq!(bench.sink.deliver(&frames), 1);
    bench.queues.use_pairs(1);
    for sink in [&bench.sink, &part] {
        assert_eq!((sink.room(), sink.deliver(&frames)), (0, 0));
        assert!(sink.arm(), "nothing would wake who sleeps now");
    }
    assert_eq!(bench.lost(), 2);
    bench.hand.advance(SETTLE - Duration::from_micros(1));
    assert_eq!(bench.sink.room(), 0);
    bench.hand.advance(Duration::from_micros(1));
    assert_ne!(bench.sink.room(), 0, "it opens again");
    assert_eq!((bench.sink.deliver(&frames), part.deliver(&frames)), (1, 1));
    assert_eq!(bench.guests[0].received().len(), 3);
}

#[test]
fn only_what_the_driver_rings_counts_as_a_kick() {
    let bench = Bench::receiving(Habit::ByTheBook, 2, false);
    let doorbell = bench.queues.rx.kick(1).expect("a pair");
    let kicks = || {
        assert!(is_readable(bench.sink.bell()), "the thread is woken");
        bench.sink.disarm();
        bench.queues.rx_ledger().kicks.get()
    };
    for pairs in [1, 2, 1] {
        bench.queues.use_pairs(pairs);
    }
    assert_eq!(kicks(), 0, "a command of the control queue is none");
    doorbell.write(3).expect("a bell");
    assert_eq!(kicks(), 3);
    doorbell.write(1).expect("a bell");
    bench.queues.plug(false);
    doorbell.write(1).expect("a bell");
    assert_eq!(kicks(), 5, "nor is a cable that is pulled out");
    bench.queues.rx.ring(0, Ringer::Device);
    bench.queues.rx.ring(0, Ringer::Driver);
    assert_eq!(kicks(), 6, "a doorbell that came as a register access is one");
}

#[test]
fn parts_find_a_pair_whatever_the_driver_uses() {
    let bench = Bench::receiving(Habit::InOrder, 3, false);
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frames = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    for pairs in [3, 1, 2] {
        bench.queues.use_pairs(pairs);
        bench.queues.pairs.closed_until.store(0, Ordering::Release);
        for part in 0..3 {
            let sink = bench.queues.sink_of(part, 3);
            let before: Vec<_> = bench.queues.rx.queues.iter().map(|q| q.ledger.frames.get()).collect();
            assert_eq!((sink.deliver(&frames), sink.arm()), (1, true));
            sink.disarm();
            let chosen =
                bench.queues.rx.queues.iter().zip(before).position(|(q, b)| q.ledger.frames.get() > b);
            assert_eq!(chosen, Some(part * pairs / 3), "part {part} of 3, {pairs} pairs");
        }
    }
}

#[test]
fn a_reset_takes_the_queues_out() {
    let mut bench = Bench::transmitting(Habit::InOrder, 1);
    let frame = Pattern::default().octets(1, 0, 60);
    assert_eq!(bench.feed(&[frame.clone(), frame]), 2);
    assert_eq!(bench.source.drain(1, &mut |_| {}), 1);
    bench.queues.stop();
    assert_eq!(bench.source.drain(BURST, &mut |_| panic!("a frame of a driver that was reset")), 0);
}

/// Creates a pair whose messages are at least 10 ms apart, and the counter of those of the receive queue.
fn moderated() -> (Bench, Arc<Counted>) {
    let (line, count) = counted::line();
    let (clock, hand) = Clock::by_hand();
    let pair =
        Arc::new(DelayedInterrupts::by(clock, Messages::new(Moderation::Every(40_000))).expect("a timer"));
    pair.with(|messages, _| messages.set_line(Queue::Receive, Some(line)));
    let timers = vec![pair.clone() as Arc<dyn InterruptTimer>];
    let queues = NicQueues::new(NicQueuesConfig { pairs: 1, timers, ..NicQueuesConfig::default() })
        .expect("event descriptors");
    let mut guest = Guest::new(Habit::ByTheBook, true);
    let notifier = Notifier::Moderated(pair, Queue::Receive);
    *queues.rx.lock(0).expect("a pair") = Some(Running { queue: guest.receive_queue(), notifier });
    guest.post();
    let (sink, source) = (queues.sink(), queues.source());
    (Bench { queues, guests: vec![guest], sink, source, hand }, count)
}

#[test]
fn a_message_that_comes_too_soon_waits_and_is_sent_by_who_polls_or_is_rung() {
    for sleeps in [false, true] {
        let (mut bench, count) = moderated();
        let sent = || count.sent();
        let mut octets = Pattern::default().octets(1, 0, 60);
        let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
        assert_eq!((bench.sink.deliver(&frame), sent()), (1, 1), "the first at once");
        assert_eq!(bench.guests[0].received().len(), 1);
        if sleeps {
            assert!(!bench.source.arm());
        }
        assert_eq!((bench.sink.deliver(&frame), sent()), (1, 1), "the second too soon");
        bench.hand.advance(Duration::from_millis(10) - Duration::from_nanos(1));
        bench.source.drain(BURST, &mut |_| {});
        assert_eq!(sent(), 1, "still too soon");
        bench.hand.advance(Duration::from_nanos(1));
        let start = Instant::now();
        while sleeps && !readable(&*bench.source) {
            assert!(start.elapsed().as_secs() < 60, "nobody is rung");
        }
        bench.source.disarm();
        bench.source.drain(BURST, &mut |_| {});
        assert_eq!(sent(), 2);
        let counts = bench.queues.interrupts();
        assert_eq!((counts.raised.get(), counts.moderated.get()), (2, 1));
    }
}

fn readable(source: &dyn Source) -> bool {
    is_readable(source.bell())
}

/// Returns true if a thread that sleeps on this bell is woken.
pub(super) fn is_readable(bell: Bell<'_>) -> bool {
    let Bell::Readable(bell) = bell else { panic!("a descriptor") };
    let mut bell = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    unsafe { libc::poll(&raw mut bell, 1, 0) == 1 }
}

#[test]
fn without_moderation_all_interrupts_count_as_raised() {
    let mut bench = Bench::receiving(Habit::ByTheBook, 1, false);
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    for _ in 0..3 {
        assert_eq!(bench.sink.deliver(&frame), 1);
    }
    assert_eq!(bench.guests[0].received().len(), 3);
    let counts = bench.queues.interrupts();
    assert_eq!((counts.raised.get(), counts.suppressed.get(), counts.moderated.get()), (3, 0, 0));
}

/// A sink that takes no frames.
struct Full;

impl Sink for Full {
    fn deliver(&self, _: &[Frame<'_>]) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }
}

#[test]
fn a_message_that_waits_is_sent_though_frames_of_the_router_have_no_room() {
    let (mut bench, count) = moderated();
    let sent = || count.sent();
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    assert_eq!((bench.sink.deliver(&frame), bench.guests[0].received().len()), (1, 1));
    let part = bench.queues.source_of(0);
    for source in [bench.source, part].iter_mut() {
        let before = sent();
        assert_eq!((bench.sink.deliver(&frame), bench.guests[0].received().len()), (1, 1));
        assert_eq!(sent(), before, "too soon");
        source.arm();
        bench.hand.advance(Duration::from_millis(10));
        let start = Instant::now();
        while !is_readable(source.timer()) {
            assert!(start.elapsed().as_secs() < 60, "nobody is rung");
        }
        source.disarm();
        assert_eq!(port::pump_on(&mut **source, &Full, &mut port::Backlog::default()), 0);
        assert_eq!(sent(), before + 1);
    }
}

#[test]
fn no_message_waits_while_nobody_serves_what_the_router_sends() {
    let (bench, count) = moderated();
    let sent = || count.sent();
    let Bench { queues, mut guests, sink, source, .. } = bench;
    let mut octets = Pattern::default().octets(1, 0, 60);
    let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
    let mut deliver = || (sink.deliver(&frame), guests[0].received().len());
    assert_eq!((deliver(), deliver(), sent()), ((1, 1), (1, 1), 1), "the second too soon");
    drop(source);
    assert_eq!(sent(), 2, "what waited");
    assert_eq!((deliver(), sent()), ((1, 1), 3));
    let source = queues.source_of(0);
    assert_eq!((deliver(), sent()), ((1, 1), 3), "somebody is there to send it");
    drop(source);
    assert_eq!(sent(), 4);
}
