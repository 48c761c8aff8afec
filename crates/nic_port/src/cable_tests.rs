//! Unplugging the cable of running queues.

use conformance::Pattern;
use nic::queue::{RxQueue, TxQueue};
use port::{Bell, Frame};
use ring::BURST;

use super::tests::Driver;
use super::tests::guest::{Guest, Habit};
use super::*;

const PAIRS: usize = 2;

/// Running queues, and the driver of each pair.
struct Bench {
    queues: Arc<NicQueues>,
    guests: Vec<Guest>,
}

impl Bench {
    fn new(several_senders: bool) -> Self {
        let design = NicQueuesConfig { pairs: PAIRS, several_senders, ..NicQueuesConfig::default() };
        let queues = NicQueues::with_settle(design, Duration::ZERO).expect("event descriptors");
        queues.use_pairs(PAIRS);
        Self { queues, guests: Vec::new() }
    }

    fn receiving(several_senders: bool) -> Self {
        let mut bench = Self::new(several_senders);
        bench.start_receiving();
        bench
    }

    fn start_receiving(&mut self) {
        self.guests.clear();
        for pair in 0..PAIRS {
            let mut guest = Guest::new(Habit::ByTheBook, true);
            let queue: RxQueue = guest.receive_queue();
            *self.queues.rx.lock(pair).expect("a pair") =
                Some(Running { queue, notifier: Notifier::Message(None) });
            guest.post();
            self.guests.push(guest);
        }
    }

    fn transmitting() -> Self {
        let mut bench = Self::new(false);
        for pair in 0..PAIRS {
            let mut guest = Guest::new(Habit::ByTheBook, true);
            let queue: TxQueue = guest.transmit_queue();
            *bench.queues.tx.lock(pair).expect("a pair") =
                Some(Running { queue, notifier: Notifier::Message(None) });
            let frames: Vec<_> = (0..3).map(|number| Pattern::default().octets(1, number, 60)).collect();
            assert_eq!(guest.send(&frames).0, 3);
            bench.guests.push(guest);
        }
        bench
    }

    /// Delivers three frames; returns how many were taken and how many have arrived.
    fn deliver(&mut self, sink: &dyn Sink) -> (usize, usize) {
        let mut octets: Vec<_> = (0..3).map(|number| Pattern::default().octets(1, number, 60)).collect();
        let frames: Vec<_> =
            octets.iter_mut().map(|octets| Frame::new(ring::Bytes::from_slice(octets))).collect();
        let taken = sink.deliver(&frames);
        (taken, self.guests.iter_mut().flat_map(Guest::received).count())
    }

    fn lost(&self) -> u64 {
        self.queues.rx_ledger().drop_not_running.get()
    }
}

#[test]
fn nothing_comes_in_without_a_cable_and_nobody_waits() {
    for several_senders in [false, true] {
        let mut bench = Bench::receiving(several_senders);
        let queues = bench.queues.clone();
        let sinks = [queues.sink(), queues.common_sink(), queues.sink_of(1, PAIRS)];
        for sink in sinks {
            assert_eq!(bench.deliver(&*sink), (3, 3));
            let lost = bench.lost();
            bench.queues.plug(false);
            assert_eq!(bench.deliver(&*sink), (0, 0));
            assert_eq!(bench.lost(), lost + 3);
            assert!(sink.room() > 0 && sink.large_room() > 0 && sink.arm(), "who has frames loses them");
            sink.disarm();
            bench.queues.plug(true);
            assert_eq!(bench.deliver(&*sink), (3, 3));
            assert_eq!(bench.lost(), lost + 3);
        }
    }
}

#[test]
fn who_waits_for_room_is_woken_when_the_cable_is_pulled_out() {
    let bench = Bench::receiving(false);
    let sink = bench.queues.sink();
    while sink.room() > 0 {
        let mut octets = Pattern::default().octets(1, 0, 60);
        sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
    }
    assert!(!sink.arm(), "it waits");
    bench.queues.plug(false);
    let Bell::Readable(bell) = sink.bell() else { panic!("no bell") };
    let mut fds = [libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    // SAFETY: one valid entry.
    assert_eq!(unsafe { libc::poll(fds.as_mut_ptr(), 1, 0) }, 1, "the bell rings");
    sink.disarm();
    assert!(sink.room() > 0);
}

#[test]
fn a_driver_that_comes_and_goes_or_changes_its_pairs_does_not_plug_the_cable_in() {
    let mut bench = Bench::receiving(false);
    let sink = bench.queues.sink();
    bench.queues.plug(false);
    bench.queues.stop();
    bench.start_receiving();
    bench.queues.use_pairs(PAIRS);
    assert_eq!(bench.deliver(&*sink), (0, 0));
    bench.queues.plug(true);
    assert_eq!(bench.deliver(&*sink), (3, 3));
}

#[test]
fn what_is_sent_without_a_cable_goes_nowhere_and_nothing_is_kept() {
    let mut bench = Bench::transmitting();
    bench.queues.plug(false);
    let mut source = bench.queues.source();
    let mut shown = 0;
    let mut drain = |source: &mut dyn Source| {
        while source.drain(BURST, &mut |frames| shown += frames.len()) > 0 {}
        shown
    };
    assert_eq!(drain(&mut *source), 0);
    let ledger = bench.queues.tx_ledger();
    assert_eq!((ledger.frames.get(), ledger.bytes.get(), ledger.drop_not_running.get()), (0, 0, 6));
    bench.queues.plug(true);
    assert_eq!(drain(&mut *source), 0, "they are gone");
    for guest in &mut bench.guests {
        assert_eq!(guest.send(&[Pattern::default().octets(1, 9, 60)]).0, 1, "their buffers are back");
    }
    assert_eq!(drain(&mut *source), PAIRS);
    assert_eq!(bench.queues.tx_ledger().frames.get(), PAIRS as u64);
}
