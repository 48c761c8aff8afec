//! The clock of pacing, moderation and ageing: the host's, or one that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Nanoseconds since it was made.
#[derive(Clone, Debug)]
pub struct Clock {
    since: Instant,
    /// Where it stands, if it does not go by itself.
    hand: Option<Arc<AtomicU64>>,
}

/// Moves a [`Clock`] that stands still otherwise.
#[derive(Clone, Debug)]
pub struct Hand(Arc<AtomicU64>);

impl Default for Clock {
    fn default() -> Self {
        Self { since: Instant::now(), hand: None }
    }
}

impl Clock {
    /// A clock that stands still, and what moves it.
    pub fn by_hand() -> (Self, Hand) {
        let hand = Arc::<AtomicU64>::default();
        (Self { hand: Some(hand.clone()), ..Self::default() }, Hand(hand))
    }

    /// Nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        match &self.hand {
            None => self.since.elapsed().as_nanos() as u64,
            Some(hand) => hand.load(SeqCst),
        }
    }
}

impl Hand {
    /// Lets so much time pass.
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
