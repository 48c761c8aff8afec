//! Bounds how often a guest can make the host do what costs it milliseconds.
//!
//! Most register accesses cost the host as much as the exit. Some make it change the kernel's tables of doorbells and
//! interrupt routes, which waits for all their readers: a start or reset of a device, a move of its BARs, a new
//! message of an interrupt vector. A driver does that when it comes up, so many times at once are free; who goes on
//! sleeps after each, in the thread that carries the access out, which is the guest's own.

use std::time::{Duration, Instant};

/// What is free at once: a driver of 16 queue pairs that sets every word of its vectors up needs about 170.
const FREE: u32 = 512;
/// How long it takes until one more is free.
const EVERY: Duration = Duration::from_millis(10);

/// The account of one device.
pub(crate) struct Pace {
    free: u32,
    /// When the last one became free.
    since: Instant,
    /// What the thread owes for what it has asked for.
    debt: Duration,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { free: FREE, since: now, debt: Duration::ZERO }
    }

    /// One costly thing was done.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.earn(now);
        match self.free.checked_sub(1) {
            Some(left) => self.free = left,
            None => {
                self.debt += EVERY;
                // The time slept for this one does not free another.
                self.since = now + EVERY;
            }
        }
    }

    /// How long the thread must sleep now; it is even then.
    pub(crate) fn take_debt(&mut self) -> Option<Duration> {
        let debt = std::mem::take(&mut self.debt);
        (!debt.is_zero()).then_some(debt)
    }

    fn earn(&mut self, now: Instant) {
        let earned = now.saturating_duration_since(self.since).as_nanos() / EVERY.as_nanos();
        if earned > 0 {
            self.free = u32::try_from(earned).unwrap_or(FREE).saturating_add(self.free).min(FREE);
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests;
