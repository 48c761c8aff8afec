//! How long to wait before something that failed is tried again.

use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);
/// What has run for so long without a failure is healthy, and its failures are forgotten.
const HEALTHY: Duration = Duration::from_secs(60);

/// The failures that are not yet forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    failures: u32,
}

impl BackOff {
    /// It failed after it had run for `ran`; returns the pause before it is started again: 0.1 s, doubling with each
    /// failure up to 10 s.
    pub fn failed(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY {
            self.failures = 0;
        }
        // A factor of 2^7 is beyond the longest pause.
        let pause = FIRST.saturating_mul(1 << self.failures.min(7));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST)
    }

    /// Forgets all failures: somebody has looked after it.
    pub fn forget(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests;
