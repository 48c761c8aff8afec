//! Time limit for a peer, in observed time.

use std::time::{Duration, Instant};

/// Maximum time that one look adds, and interval between two looks: if no look took place for longer, the host
/// may have given the peer and the thread that speaks with it no CPU either.
pub(super) const LONGEST_STEP: Duration = Duration::from_millis(100);

/// A time limit that only observed time counts against.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedLimit {
    left: Duration,
    /// Time of the last look.
    looked: Instant,
}

impl ObservedLimit {
    /// Creates a limit that begins now.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self { left: limit, looked: now }
    }

    /// Looks at the time; returns true once the limit is reached.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let step = now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        (self.left, self.looked) = (self.left.saturating_sub(step), now);
        self.left.is_zero()
    }

    /// Returns the time until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.left.min(LONGEST_STEP)
    }
}
