//! A limit under the conformance suite for ports: none, one that is not reached, and one whose drops are counted.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use port::{Clock, ClockHandle, IngressSink, IngressSource, Limit, LimitCounters, Limited, Sink, ingress};

use super::wrapped::Bounded;
use super::{SinkBench, check_sink, drained};

/// Capacity in frames of the queue behind the limit.
const QUEUE: u32 = 100;

/// A limit in front of a queue that reports its room.
struct Bench {
    sink: Limited,
    queue: Arc<IngressSink>,
    behind: IngressSource,
    counters: Arc<LimitCounters>,
    hand: ClockHandle,
    /// Time that passes with each call of the sink.
    step: Duration,
}

impl Bench {
    fn new(pps: Option<u64>, step: Duration) -> Self {
        let (clock, hand) = Clock::by_hand();
        let limit = Arc::new(Limit::by(clock));
        limit.set(pps);
        let (queue, behind) = ingress(QUEUE).expect("a queue");
        let counters = Arc::<LimitCounters>::default();
        let sink = Limited::new(Arc::new(Bounded(queue.clone())), limit, counters.clone());
        Self { sink, queue, behind, counters, hand, step }
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        self.hand.advance(self.step);
        &self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(drained(&mut self.behind))
    }

    fn lost(&self) -> u64 {
        let queue = self.queue.counters();
        queue.drop_full.get() + queue.drop_too_long.get() + self.refused()
    }

    fn refused(&self) -> u64 {
        self.counters.drop_limit.get()
    }
}

/// Runs the suite; returns how many of the frames offered to the limit passed and were dropped.
fn check(pps: Option<u64>, step: Duration) -> (u64, u64) {
    let made = RefCell::new(Vec::new());
    check_sink(|| {
        let bench = Bench::new(pps, step);
        made.borrow_mut().push(bench.counters.clone());
        bench
    });
    let sum = |of: fn(&LimitCounters) -> u64| made.borrow().iter().map(|counters| of(counters)).sum::<u64>();
    let (passed, dropped) = (sum(|of| of.passed.get()), sum(|of| of.drop_limit.get()));
    assert_eq!(sum(|of| of.in_frames.get()), passed + dropped, "in = out + counted drops");
    (passed, dropped)
}

#[test]
fn without_a_limit_it_is_the_sink_behind_it_and_counts_nothing() {
    assert_eq!(check(None, Duration::from_millis(1)), (0, 0));
}

#[test]
fn a_limit_that_is_not_reached_drops_nothing() {
    // The bucket holds 2,000 frames, and with each burst of 64 the time for 200 passes.
    let (passed, dropped) = check(Some(200_000), Duration::from_millis(1));
    assert!(passed > 0);
    assert_eq!(dropped, 0);
}

#[test]
fn a_limit_that_is_reached_counts_what_it_drops() {
    // The bucket holds 32 frames, and with each single frame the time for 0.6 passes.
    let (passed, dropped) = check(Some(1000), Duration::from_micros(300));
    assert!(passed > 0 && dropped > 0, "{passed} passed, {dropped} were dropped");
}

#[test]
fn a_limit_under_a_clock_that_stands_counts_what_it_drops() {
    let (passed, dropped) = check(Some(1), Duration::ZERO);
    assert!(passed > 0 && dropped > 0, "{passed} passed, {dropped} were dropped");
}

/// A limit whose drops are reported in only one of two ways.
struct Silent {
    bench: Bench,
    as_lost: bool,
}

impl SinkBench for Silent {
    fn sink(&self) -> &dyn Sink {
        self.bench.sink()
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        self.bench.received()
    }

    fn lost(&self) -> u64 {
        self.bench.lost() - if self.as_lost { 0 } else { self.bench.refused() }
    }

    fn refused(&self) -> u64 {
        if self.as_lost { 0 } else { self.bench.refused() }
    }
}

#[test]
fn the_suite_finds_drops_that_are_not_counted_and_those_that_no_rule_excuses() {
    for as_lost in [false, true] {
        let make = || Silent { bench: Bench::new(Some(1), Duration::ZERO), as_lost };
        let noticed = catch_unwind(AssertUnwindSafe(|| check_sink(make))).is_err();
        assert!(noticed, "the suite did not notice drops that are counted as lost: {as_lost}");
    }
}
