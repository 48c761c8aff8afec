//! How long to wait before something that died is started again.

use std::time::{Duration, Instant};

/// After the first death.
const FIRST: Duration = Duration::from_millis(100);
/// At most.
const MOST: Duration = Duration::from_secs(10);
/// Health that makes earlier deaths forgotten.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Pauses that double with each death, and start anew after [`FORGIVEN`] of health.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    last: Option<Duration>,
    healthy: Option<Instant>,
}

impl BackOff {
    /// It serves since now.
    pub(crate) fn up(&mut self, now: Instant) {
        self.healthy = Some(now);
    }

    /// It died; how long to wait.
    pub(crate) fn down(&mut self, now: Instant) -> Duration {
        let health = self.healthy.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let pause = match self.last {
            Some(last) if health < FORGIVEN => (last * 2).min(MOST),
            _ => FIRST,
        };
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses in tenths of a second after lives of so many seconds each; 0: it did not even come up.
    fn pauses(lives: &[u64]) -> Vec<u128> {
        let (mut back_off, mut now) = (BackOff::default(), Instant::now());
        let mut die = |life: &u64| {
            if *life > 0 {
                back_off.up(now);
            }
            now += Duration::from_secs(*life);
            back_off.down(now).as_millis() / 100
        };
        lives.iter().map(&mut die).collect()
    }

    #[test]
    fn pauses_double_up_to_ten_seconds() {
        assert_eq!(pauses(&[1; 10]), [1, 2, 4, 8, 16, 32, 64, 100, 100, 100]);
        assert_eq!(pauses(&[0; 3]), [1, 2, 4]);
    }

    #[test]
    fn a_minute_of_health_forgives() {
        assert_eq!(pauses(&[1, 1, 59, 60, 1, 1000, 1]), [1, 2, 4, 1, 2, 1, 2]);
    }

    #[test]
    fn time_that_did_not_serve_is_no_health() {
        let (mut back_off, now) = (BackOff::default(), Instant::now());
        back_off.up(now);
        assert_eq!(back_off.down(now + Duration::from_secs(1)), FIRST);
        // Down for an hour, and down again without having served.
        assert_eq!(back_off.down(now + Duration::from_secs(3600)), 2 * FIRST);
    }
}
