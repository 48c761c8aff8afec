//! The control rule, without a queue or a clock.
//!
//! Observed at each visit to the queue:
//! * whether it was *emptied*: fewer frames arrived than were requested. The frames since it was last empty
//!   are a *run*; a run as long as the queue means that it was full meanwhile, and that frames were lost.
//! * how much work the router has: the free entries in its ring.
//!
//! Decided once per period:
//! * frames were lost although less than a quarter of the router's ring was occupied: the queue was too short
//!   for the time in which it was not read. It is doubled, and not cut for a while, which is twice as long
//!   each time.
//! * else, the queue was never empty, or at most visits more than half of the router's ring was occupied: the
//!   router is overloaded, and a longer queue only adds delay. The queue is cut by an eighth.
//! * else nothing: the router keeps up.
//!
//! If reader and router share a CPU, both conditions hold alternately: while one works the other cannot, and
//! only a long queue bridges that. Without the period of no cuts the length would oscillate, and each change
//! costs the kernel as much as many frames do.

use std::time::Duration;

/// Period of judgement: short compared with a second of overload, long compared with the cost of a change in
/// the kernel.
pub(in super::super) const PERIOD: Duration = Duration::from_millis(10);

/// Minimum length, one visit: the reader must find a whole burst.
const LEAST: u32 = 64;
/// Maximum length, the same as the fixed default.
const MOST: u32 = 1000;
/// Periods without a cut after the queue was too short: the first time, and at most.
const CALM: std::ops::RangeInclusive<u32> = 16..=800;

/// Observation of one visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Free entries in the router's ring.
    pub(super) room: usize,
    /// Number of frames requested.
    pub(super) budget: usize,
    /// Number of frames that arrived.
    pub(super) shown: usize,
}

/// Controller of the length of one queue.
#[derive(Debug)]
pub(super) struct Tuner {
    limit: u32,
    ring: usize,
    /// Frames since the queue was last empty.
    run: usize,
    /// True if the router had little work when that run began.
    had_little_work: bool,
    /// Since the last judgement: visits, those at which the router had enough work, those that emptied the
    /// queue, and runs in which frames were lost before a router with little work.
    visits: u32,
    visits_with_work: u32,
    emptied: u32,
    losses_while_idle: u32,
    /// Remaining periods without a cut, and the number of such periods the next time that the queue is too
    /// short.
    periods_without_cut: u32,
    next_periods_without_cut: u32,
}

impl Tuner {
    pub(super) fn new(limit: u32, ring: u32) -> Self {
        let (ring, limit) = (ring.max(1) as usize, limit.clamp(LEAST, MOST));
        let [visits, visits_with_work, emptied, losses_while_idle, periods_without_cut] = [0; 5];
        let next_periods_without_cut = *CALM.start();
        Self {
            limit,
            ring,
            run: 0,
            had_little_work: true,
            visits,
            visits_with_work,
            emptied,
            losses_while_idle,
            periods_without_cut,
            next_periods_without_cut,
        }
    }

    #[inline]
    pub(super) fn look(&mut self, look: Look) {
        if self.run == 0 {
            self.had_little_work = look.room >= self.ring - self.ring / 4;
        }
        if look.shown == 0 && self.run == 0 {
            return;
        }
        self.visits += 1;
        self.run += look.shown;
        self.visits_with_work += u32::from(look.room < self.ring / 2);
        if look.shown < look.budget {
            self.emptied += 1;
            let full = self.run >= (self.limit - self.limit / 8) as usize;
            self.losses_while_idle += u32::from(full && self.had_little_work);
            self.run = 0;
        }
    }

    /// Judges the period; returns the new length if it changes.
    pub(super) fn judge(&mut self) -> Option<u32> {
        let before = self.limit;
        let overloaded = self.visits > 0 && (self.emptied == 0 || self.visits_with_work > self.visits / 2);
        if self.losses_while_idle > 0 {
            self.limit = (self.limit * 2).min(MOST);
            self.periods_without_cut = self.next_periods_without_cut;
            self.next_periods_without_cut = (self.next_periods_without_cut * 2).min(*CALM.end());
        } else if self.periods_without_cut > 0 {
            self.periods_without_cut -= 1;
        } else if overloaded {
            self.limit = (self.limit - self.limit / 8).max(LEAST);
            if self.limit == LEAST {
                self.next_periods_without_cut = *CALM.start();
            }
        }
        (self.visits, self.visits_with_work, self.emptied, self.losses_while_idle) = (0, 0, 0, 0);
        (self.limit != before).then_some(self.limit)
    }
}

#[cfg(test)]
mod tests;
