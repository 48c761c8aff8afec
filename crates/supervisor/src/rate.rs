//! How often something happens, so that whoever does it too often can be stopped, or has to wait.

use std::time::{Duration, Instant};

/// What is counted together.
const SPAN: Duration = Duration::from_secs(1);

/// Things within the present second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    since: Instant,
    count: u32,
}

impl Rate {
    /// Nothing yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Whether a second has passed since the count began; if so, it begins again. Returns what had been counted.
    pub(super) fn turn(&mut self, now: Instant) -> Option<u32> {
        let over = now.saturating_duration_since(self.since) > SPAN;
        over.then(|| std::mem::replace(self, Self::new(now)).count)
    }

    /// One more; whether there have been more than `most` in this second.
    pub(super) fn exceeds(&mut self, most: u32, now: Instant) -> bool {
        self.turn(now);
        self.count = self.count.saturating_add(1);
        self.count > most
    }
}

/// Of the time, one part for what others ask for, and so many for all else.
const ELSE: u32 = 4;

/// Work that others ask for: so many times in a second, and for a part of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    since: Instant,
    count: u32,
    /// Until when it is the turn of all else.
    free: Instant,
}

impl Pace {
    /// Nothing was done yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0, free: now }
    }

    /// When to do it the next time, `most` times in a second.
    pub(super) fn next(&self, most: u32) -> Instant {
        let begin = if self.count < most { self.since } else { self.since + SPAN };
        begin.max(self.free)
    }

    /// It was done, which has taken so long.
    pub(super) fn done(&mut self, now: Instant, took: Duration) {
        if now >= self.since + SPAN {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.free = now + took * (1 + ELSE);
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
        let mut pace = Pace::new(start);
        for _ in 0..3 {
            assert_eq!(pace.next(3), start);
            pace.done(start, Duration::ZERO);
        }
        assert_eq!((pace.next(4), pace.next(3)), (start, start + SPAN));
        pace.done(start + SPAN, 100 * ms);
        assert_eq!(pace.next(3), start + SPAN + 500 * ms);
    }
}
