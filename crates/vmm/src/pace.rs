//! Rate limit for guest requests that cost the host milliseconds.
//!
//! Most register accesses cost the host no more than the exit. Some change the kernel's tables of doorbells
//! and interrupt routes, which waits for all readers of these tables: a start or reset of a device, a move of
//! its BARs, a new message of an interrupt vector. A driver does that when it initialises, so a burst of them
//! is free; beyond that the thread that carries the access out, which is the guest's own, sleeps after each.

use std::time::{Duration, Instant};

/// Burst that is free: a driver of 16 queue pairs that sets every word of its vectors needs about 170.
const FREE: u32 = 512;
/// Interval at which the free burst grows by one.
const EVERY: Duration = Duration::from_millis(10);

/// Token bucket of one device.
pub(crate) struct AccessRateLimit {
    free: u32,
    /// When the last token was added; in the future if the thread owes sleep.
    since: Instant,
    /// Sleep that the thread owes for its requests.
    debt: Duration,
}

impl AccessRateLimit {
    pub(crate) fn new(now: Instant) -> Self {
        Self { free: FREE, since: now, debt: Duration::ZERO }
    }

    /// Charges one costly request.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.earn(now);
        match self.free.checked_sub(1) {
            Some(left) => self.free = left,
            None => {
                self.debt += EVERY;
                // The time slept for what is owed earns no other token.
                self.since = self.since.max(now + self.debt);
            }
        }
    }

    /// Takes the time for which the thread must sleep now; its debt is zero then.
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
