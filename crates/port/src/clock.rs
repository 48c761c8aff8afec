//! Clock for pacing, moderation and ageing: the host's, or one that a test advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A clock that counts nanoseconds since its creation.
#[derive(Clone, Debug)]
pub struct Clock {
    since: Instant,
    /// The current time, if a test controls the clock.
    hand: Option<Arc<AtomicU64>>,
}

/// Handle that advances a [`Clock`] controlled by a test.
#[derive(Clone, Debug)]
pub struct ClockHandle(Arc<AtomicU64>);

impl Default for Clock {
    fn default() -> Self {
        Self { since: Instant::now(), hand: None }
    }
}

impl Clock {
    /// Creates a clock that stands still, and the handle that advances it.
    pub fn by_hand() -> (Self, ClockHandle) {
        let hand = Arc::<AtomicU64>::default();
        (Self { hand: Some(hand.clone()), ..Self::default() }, ClockHandle(hand))
    }

    /// Returns the time in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        match &self.hand {
            None => self.since.elapsed().as_nanos() as u64,
            Some(hand) => hand.load(SeqCst),
        }
    }
}

impl ClockHandle {
    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_by_itself_or_by_hand() {
        let real = Clock::default();
        let before = real.now();
        while real.now() == before {
            std::hint::spin_loop();
        }
        let (clock, hand) = Clock::by_hand();
        let other = clock.clone();
        assert_eq!(clock.now(), 0);
        hand.advance(Duration::from_micros(5));
        assert_eq!((clock.now(), other.now()), (5000, 5000));
    }
}
