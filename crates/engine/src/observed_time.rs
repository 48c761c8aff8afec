//! Observed time: a host that gave no thread a CPU for a while must not make an innocent router late.

use std::time::{Duration, Instant};

/// Maximum time that one look adds.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// Sum of the times between looks, each counted as a quarter of a second at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedTime {
    seen: Duration,
    looked: Instant,
}

impl ObservedTime {
    /// Begins to observe.
    pub(crate) fn since(now: Instant) -> Self {
        Self { seen: Duration::ZERO, looked: now }
    }

    /// Looks at the time; returns what was observed so far.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        self.seen
    }

    /// Begins anew if the last look was before `since`.
    pub(crate) fn forget_before(&mut self, since: Instant) {
        if self.looked < since {
            *self = Self::since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_without_a_look_hardly_counts() {
        let (start, ms) = (Instant::now(), Duration::from_millis(1));
        let mut time = ObservedTime::since(start);
        assert_eq!(time.look(start + 100 * ms), 100 * ms);
        assert_eq!(time.look(start + 60_000 * ms), 350 * ms);
        time.forget_before(start);
        assert_eq!(time.look(start + 60_001 * ms), 351 * ms);
        time.forget_before(start + 70_000 * ms);
        assert_eq!(time.look(start + 70_002 * ms), 2 * ms);
    }
}
