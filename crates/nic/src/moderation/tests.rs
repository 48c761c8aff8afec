//! Traces of guests and arrivals, each judged by both the number of interrupts and their delay.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const ALL: [Moderation; 3] = [Moderation::Off, Moderation::Every(100), Moderation::Adaptive];

/// Results of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    interrupts: u64,
    /// Maximum delay from an event to its interrupt, for arrivals and for all events.
    latest_arrival: u64,
    latest: u64,
}

/// Message interrupts whose owner checks at the time requested.
struct Messages {
    moderator: Moderator,
    /// Waiting events: time, and whether it is an arrival.
    waiting: Vec<(u64, bool)>,
    outcome: Outcome,
}

impl Messages {
    fn new(moderation: Moderation) -> Self {
        Self { moderator: Moderator::new(moderation), waiting: Vec::new(), outcome: Outcome::default() }
    }

    fn happens(&mut self, work: Work, now: u64) {
        self.pass(now);
        self.waiting.push((now, matches!(work, Work::Received(_))));
        if self.moderator.request(work, now) {
            self.interrupt(now);
        }
    }

    /// Advances the time to `now`.
    fn pass(&mut self, now: u64) {
        while let Some(next) = self.moderator.next().filter(|next| *next <= now) {
            assert!(self.moderator.take_due(next));
            self.interrupt(next);
        }
        assert!(!self.moderator.take_due(now));
    }

    fn interrupt(&mut self, now: u64) {
        assert!(!self.waiting.is_empty(), "an interrupt for nothing");
        self.outcome.interrupts += 1;
        for (since, arrived) in self.waiting.drain(..) {
            let waited = now - since;
            self.outcome.latest = self.outcome.latest.max(waited);
            if arrived {
                self.outcome.latest_arrival = self.outcome.latest_arrival.max(waited);
            }
        }
        assert_eq!(self.moderator.next(), None);
    }

    fn end(mut self) -> Outcome {
        self.pass(u64::MAX);
        assert!(self.waiting.is_empty(), "told at last");
        self.outcome
    }
}

/// Results of 1000 requests and replies.
struct Requests {
    /// Nanoseconds from the first request to the last reply's interrupt.
    lasted: u64,
    /// Interrupts for arrivals, and additional ones for transmissions.
    interrupts: (u64, u64),
    latest_arrival: u64,
}

/// A guest sends a request, and the reply arrives `there` later; after its interrupt the guest takes `here` to send the
/// next one. Transmissions are reported `together` with arrivals, as by a pin, or by a message of their own, as in
/// virtio-net.
fn requests(moderation: Moderation, together: bool, there: u64, here: u64) -> Requests {
    let (mut received, mut sent) = (Messages::new(moderation), Messages::new(moderation));
    let mut now = SECOND;
    for _ in 0..1_000 {
        let sender = if together { &mut received } else { &mut sent };
        sender.happens(Work::Sent, now);
        now += there;
        received.happens(Work::Received(1), now);
        if let Some(late) = received.moderator.next() {
            received.pass(late);
            now = late;
        }
        now += here;
    }
    let (received, sent) = (received.end(), sent.end());
    Requests {
        lasted: now - here - SECOND,
        interrupts: (received.interrupts, sent.interrupts),
        latest_arrival: received.latest_arrival,
    }
}

/// Frames that arrive one by one, at `rate` a second, for a fifth of a second.
fn arrivals(moderation: Moderation, rate: u64) -> Outcome {
    let mut messages = Messages::new(moderation);
    for n in 0..rate / 5 {
        messages.happens(Work::Received(1), SECOND + n * SECOND / rate);
    }
    messages.end()
}

#[test]
fn off_interrupts_for_everything_at_once() {
    for rate in [1_000, 30_000, 1_000_000] {
        let outcome = arrivals(Moderation::Off, rate);
        assert_eq!(outcome, Outcome { interrupts: rate / 5, ..Outcome::default() });
    }
}

#[test]
fn every_bounds_the_rate_at_the_cost_of_its_interval() {
    let outcome = arrivals(Moderation::Every(100), 1_000_000);
    // The first interrupt, and 200 ms / 25 µs.
    assert_eq!(outcome.interrupts, 8_001);
    assert_eq!(outcome.latest, 25_000, "the frame right after an interrupt");
}

#[test]
fn requests_are_answered_at_once_when_adaptive() {
    // 17 000 transactions a second, as in seed paper 001, and up to 33 000.
    for each in [58_800, 40_000, 30_000] {
        for together in [true, false] {
            let outcome = requests(Moderation::Adaptive, together, each / 2, each / 2);
            assert_eq!((outcome.latest_arrival, outcome.interrupts.0), (0, 1_000), "{each} {together}");
            assert_eq!(outcome.lasted, 1_000 * each - each / 2, "not a moment longer");
            assert!(outcome.interrupts.1 <= outcome.lasted / BULK + 1, "{:?}", outcome.interrupts);
        }
    }
}

#[test]
fn requests_are_what_a_fixed_interval_delays() {
    // With a pin, a reply waits until 25 µs after the interrupt for its request.
    let fixed = requests(Moderation::Every(100), true, 10_000, 30_000);
    assert_eq!((fixed.interrupts.0, fixed.latest_arrival, fixed.lasted), (2_000, 15_000, 54_970_000));
    let free = requests(Moderation::Off, true, 10_000, 30_000);
    assert_eq!((free.interrupts.0, free.latest_arrival, free.lasted), (2_000, 0, 39_970_000));
    let adaptive = requests(Moderation::Adaptive, true, 10_000, 30_000);
    assert_eq!((adaptive.interrupts.0, adaptive.latest_arrival, adaptive.lasted), (1_000, 0, 39_970_000));
}

#[test]
fn bulk_arrivals_interrupt_at_most_each_50_us_when_adaptive() {
    for rate in [100_000, 500_000, 1_000_000, 10_000_000] {
        let outcome = arrivals(Moderation::Adaptive, rate);
        // 200 ms / 50 µs, and those before the traffic was detected as bulk.
        assert!(outcome.interrupts <= 4_000 + BULK_FROM, "{rate}: {}", outcome.interrupts);
        assert!(outcome.latest <= BULK, "{rate}: {}", outcome.latest);
    }
}

#[test]
fn slow_arrivals_are_told_at_once_when_adaptive() {
    for rate in [10, 1_000, 20_000, 39_000, 54_000] {
        let outcome = arrivals(Moderation::Adaptive, rate);
        assert_eq!((outcome.interrupts, outcome.latest), (rate / 5, 0), "{rate}");
    }
}

#[test]
fn bursts_count_by_their_frames() {
    let mut messages = Messages::new(Moderation::Adaptive);
    for n in 0..1_000 {
        messages.happens(Work::Received(32), SECOND + n * 10_000);
    }
    let outcome = messages.end();
    assert!(outcome.interrupts <= 10_000_000 / BULK + 2, "{}", outcome.interrupts);
    assert!(outcome.latest <= BULK);
}

#[test]
fn transmission_alone_interrupts_at_most_each_50_us_when_adaptive() {
    for rate in [30_000, 300_000] {
        let mut messages = Messages::new(Moderation::Adaptive);
        for n in 0..rate / 5 {
            messages.happens(Work::Sent, SECOND + n * SECOND / rate);
        }
        let outcome = messages.end();
        assert!(outcome.interrupts <= 4_000 + 1, "{rate}: {}", outcome.interrupts);
        assert_eq!(outcome.latest, BULK, "{rate}");
    }
}

#[test]
fn between_the_thresholds_all_stays_as_it_was() {
    // 50 000 frames a second: 10 in a window.
    let slower = |messages: &mut Messages, start| {
        let before = messages.outcome.interrupts;
        (0..1_000).for_each(|n| messages.happens(Work::Received(1), start + n * 20_000));
        messages.outcome.interrupts - before
    };
    let mut messages = Messages::new(Moderation::Adaptive);
    assert_eq!(slower(&mut messages, SECOND), 1_000, "not bulk, and does not become it");
    (0..1_000).for_each(|n| messages.happens(Work::Received(1), 2 * SECOND + n * 1_000));
    let interrupts = slower(&mut messages, 2 * SECOND + 1_000_000);
    assert!(interrupts <= 20_000_000 / BULK + 1, "bulk, and stays it: {interrupts}");
}

#[test]
fn answers_after_bulk_are_late_for_one_window_at_most() {
    let mut messages = Messages::new(Moderation::Adaptive);
    for n in 0..1_000 {
        messages.happens(Work::Received(1), SECOND + n * 1_000);
    }
    let end = SECOND + 1_000_000;
    // Requests, at shorter intervals than BULK, immediately afterwards.
    let late: Vec<u64> = (0..50)
        .filter_map(|n| {
            let now = end + 30_000 * n;
            messages.pass(now);
            let before = messages.outcome.interrupts;
            messages.happens(Work::Received(1), now);
            (messages.outcome.interrupts == before).then_some(now)
        })
        .collect();
    assert!(!late.is_empty() && late.len() <= 8, "{late:?}");
    assert!(late.iter().all(|now| *now <= end + 2 * WINDOW), "{late:?}");
}

#[test]
fn what_is_rare_is_told_at_once_when_adaptive() {
    let mut messages = Messages::new(Moderation::Adaptive);
    for n in 0..10_000 {
        messages.happens(Work::Received(1), SECOND + n * 1_000);
    }
    let now = SECOND + 10_000_000;
    messages.pass(now);
    let before = messages.outcome.interrupts;
    messages.happens(Work::Other, now);
    assert_eq!(messages.outcome.interrupts, before + 1);
}

#[test]
fn nothing_waits_while_nobody_looks_at_the_time() {
    for moderation in [Moderation::Every(400), Moderation::Adaptive] {
        let mut moderator = Moderator::new(moderation);
        // Bulk traffic.
        assert!(moderator.request(Work::Received(64), 0));
        assert!(!moderator.request(Work::Received(64), 1_000), "{moderation:?}: too soon");
        moderator.set_timer_served(false);
        assert!(moderator.take_due(1_000), "{moderation:?}: what waited");
        assert!(moderator.request(Work::Received(64), 1_001) && moderator.request(Work::Sent, 1_002));
        moderator.set_timer_served(true);
        assert!(!moderator.request(Work::Received(64), 1_003), "{moderation:?}: the last was just now");
        assert!(moderator.next().is_some());
    }
}

proptest! {
    #[test]
    fn everything_is_told_and_in_time(
        events in prop::collection::vec((0_u64..60_000, 0_u8..3, 1_u32..64), 1..500),
        units in 0_u16..1_000,
    ) {
        for moderation in ALL.into_iter().chain([Moderation::Every(units)]) {
            let mut messages = Messages::new(moderation);
            let mut now = 0;
            for (pause, kind, frames) in &events {
                now += pause;
                let work = [Work::Sent, Work::Received(*frames), Work::Other][usize::from(*kind)];
                messages.happens(work, now);
            }
            let bound = match moderation {
                Moderation::Off => 0,
                Moderation::Every(units) => u64::from(units) * UNIT,
                Moderation::Adaptive => BULK,
            };
            let outcome = messages.end();
            prop_assert!(outcome.latest <= bound, "{moderation:?}: {}", outcome.latest);
            if let Moderation::Every(1..) = moderation {
                prop_assert!(outcome.interrupts <= now / bound + 2);
            }
        }
    }
}
