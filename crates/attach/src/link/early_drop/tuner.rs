//! The rule, without a queue or a clock.
//!
//! What is seen at each visit to the queue:
//! * whether it was *emptied*: less came than was asked for. What came since it was empty last is a *run*; a run as long
//!   as the queue says that it was full meanwhile, and that frames were lost.
//! * how much the router has before it: free places in its ring.
//!
//! What follows, once a period:
//! * frames were lost although the router had less than a quarter of its ring before it: the queue was too short for the
//!   time in which nobody looked. It is doubled, and not cut for a while, which is twice as long each time.
//! * else, the queue was never empty, or at most visits the router had more than half of its ring before it: it is
//!   overloaded, and what waits only waits. The queue loses an eighth.
//! * else nothing: the router keeps up.
//!
//! Where reader and router share a CPU, both is true in turn: while the one works the other cannot, and only a long queue
//! bridges that. Without the while, the length would go up and down, and each change costs the kernel as much as many frames do.

use std::time::Duration;

/// How often it is judged: often against a second of overload, seldom against what a change costs in the kernel.
pub(in super::super) const PERIOD: Duration = Duration::from_millis(10);

/// No shorter than what one visit takes: the reader must find a whole burst.
const LEAST: u32 = 64;
/// As long as the fixed default.
const MOST: u32 = 1000;
/// Periods without a cut after the queue was too short, the first time and at most.
const CALM: std::ops::RangeInclusive<u32> = 16..=800;

/// What one visit saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Free places in the router's ring before it.
    pub(super) room: usize,
    /// Frames that were asked for.
    pub(super) budget: usize,
    /// Frames that came.
    pub(super) shown: usize,
}

/// How long one queue is to be.
#[derive(Debug)]
pub(super) struct Tuner {
    limit: u32,
    ring: usize,
    /// Frames since the queue was empty last.
    run: usize,
    /// Whether the router had little before it when that run began.
    hungry: bool,
    /// Since the last judgement: visits, those at which the router had enough before it, those that emptied the queue, and
    /// runs by which a router that had little to do lost frames.
    visits: u32,
    sated: u32,
    emptied: u32,
    starved: u32,
    /// Periods in which it is not cut, from now on, and when it is too short once more.
    calm: u32,
    next_calm: u32,
}

impl Tuner {
    pub(super) fn new(limit: u32, ring: u32) -> Self {
        let (ring, limit) = (ring.max(1) as usize, limit.clamp(LEAST, MOST));
        let [visits, sated, emptied, starved, calm] = [0; 5];
        let next_calm = *CALM.start();
        Self { limit, ring, run: 0, hungry: true, visits, sated, emptied, starved, calm, next_calm }
    }

    #[inline]
    pub(super) fn look(&mut self, look: Look) {
        if self.run == 0 {
            self.hungry = look.room >= self.ring - self.ring / 4;
        }
        if look.shown == 0 && self.run == 0 {
            return;
        }
        self.visits += 1;
        self.run += look.shown;
        self.sated += u32::from(look.room < self.ring / 2);
        if look.shown < look.budget {
            self.emptied += 1;
            let full = self.run >= (self.limit - self.limit / 8) as usize;
            self.starved += u32::from(full && self.hungry);
            self.run = 0;
        }
    }

    /// The new length, if it is to be another one.
    pub(super) fn judge(&mut self) -> Option<u32> {
        let before = self.limit;
        let overloaded = self.visits > 0 && (self.emptied == 0 || self.sated > self.visits / 2);
        if self.starved > 0 {
            self.limit = (self.limit * 2).min(MOST);
            self.calm = self.next_calm;
            self.next_calm = (self.next_calm * 2).min(*CALM.end());
        } else if self.calm > 0 {
            self.calm -= 1;
        } else if overloaded {
            self.limit = (self.limit - self.limit / 8).max(LEAST);
            if self.limit == LEAST {
                self.next_calm = *CALM.start();
            }
        }
        (self.visits, self.sated, self.emptied, self.starved) = (0, 0, 0, 0);
        (self.limit != before).then_some(self.limit)
    }
}

#[cfg(test)]
mod tests;
