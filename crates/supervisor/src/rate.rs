//! Rate measurement and pacing of events that others cause.

use std::time::{Duration, Instant};

/// Period over which events are counted.
const SPAN: Duration = Duration::from_secs(1);

/// Number of events within the present second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    since: Instant,
    count: u32,
}

impl Rate {
    /// Starts counting.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Restarts the count if a second has passed since it began. Returns what had been counted then.
    pub(super) fn turn(&mut self, now: Instant) -> Option<u32> {
        let over = now.saturating_duration_since(self.since) > SPAN;
        over.then(|| std::mem::replace(self, Self::new(now)).count)
    }

    /// Counts an event. Returns true if there were more than `most` in this second.
    pub(super) fn exceeds(&mut self, most: u32, now: Instant) -> bool {
        self.turn(now);
        self.count = self.count.saturating_add(1);
        self.count > most
    }
}

/// For one part of the time spent on requested work, this many parts are left for all else.
const OTHER_PARTS: u32 = 4;

/// Pacing of requested work: a limited number of times a second, and a limited share of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkBudget {
    since: Instant,
    count: u32,
    /// End of the time reserved for all else.
    free: Instant,
}

impl WorkBudget {
    /// Starts without any work done.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0, free: now }
    }

    /// When the work may be done next, with at most `most` times a second.
    pub(super) fn next(&self, most: u32) -> Instant {
        let begin = if self.count < most { self.since } else { self.since + SPAN };
        begin.max(self.free)
    }

    /// Notes that the work was done, and how long it took.
    pub(super) fn done(&mut self, now: Instant, took: Duration) {
        if now >= self.since + SPAN {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.free = now + took * (1 + OTHER_PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_count() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let over: Vec<bool> = (0..5).map(|_| rate.exceeds(3, start)).collect();
        assert_eq!(over, [false, false, false, true, true]);
        assert!(!rate.exceeds(3, start + 2 * SPAN));
        assert_eq!(rate.turn(start + 2 * SPAN), None);
        assert_eq!(rate.turn(start + 4 * SPAN), Some(1));
    }

    #[test]
    fn work_is_done_so_many_times_a_second_and_for_a_part_of_the_time() {
        let (start, ms) = (Instant::now(), Duration::from_millis(1));
        let mut budget = WorkBudget::new(start);
        for _ in 0..3 {
            assert_eq!(budget.next(3), start);
            budget.done(start, Duration::ZERO);
        }
        assert_eq!((budget.next(4), budget.next(3)), (start, start + SPAN));
        budget.done(start + SPAN, 100 * ms);
        assert_eq!(budget.next(3), start + SPAN + 500 * ms);
    }
}
