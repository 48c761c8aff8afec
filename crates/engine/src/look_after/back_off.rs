//! Exponential back-off: the pause before something that failed is tried again.

use std::time::Duration;

/// Pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);
/// Run time after which a router counts as healthy, and its failures are forgotten.
const HEALTHY: Duration = Duration::from_secs(60);

/// Number of failures that are not yet forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    failures: u32,
}

impl BackOff {
    /// Counts a failure after a run of length `ran`; returns the pause before the restart: 0.1 s, doubling
    /// with each failure up to 10 s.
    pub fn failed(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY {
            self.failures = 0;
        }
        // A factor of 2^7 exceeds the longest pause already.
        let pause = FIRST.saturating_mul(1 << self.failures.min(7));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST)
    }

    /// Forgets all failures, after an explicit start by the operator.
    pub fn forget(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests;
