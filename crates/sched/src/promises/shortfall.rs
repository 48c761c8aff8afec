//! Shortfall of a router against its promise that no drop counter shows.

use std::time::Instant;

/// A router whose I/O threads are never idle is behind: packets that it lacks to its promise are dropped
/// somewhere before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shortfall {
    /// True if it was behind at the last look.
    is_behind: bool,
    /// At the last look: time, packets finished, and frames and sleeps of its I/O threads.
    last: Option<(Instant, u64, u64, u64)>,
    /// Packets that it lacked so far.
    lacked: u64,
}

impl Shortfall {
    /// Evaluates the counters. Returns the packets that it lacked so far to a rate of `pps`.
    pub(super) fn look(
        &mut self,
        pps: f64,
        delivered: u64,
        (frames, sleeps): (u64, u64),
        now: Instant,
    ) -> u64 {
        let last = self.last.replace((now, delivered, frames, sleeps));
        let Some((then, delivered_before, frames_before, sleeps_before)) = last else { return self.lacked };
        if sleeps != sleeps_before {
            self.is_behind = false;
        } else if frames != frames_before {
            self.is_behind = true;
        }
        if self.is_behind {
            let due = pps * now.saturating_duration_since(then).as_secs_f64();
            self.lacked += (due as u64).saturating_sub(delivered.saturating_sub(delivered_before));
        }
        self.lacked
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_never_sleeps_lacks_what_is_due_and_was_not_delivered() {
        let (mut shortfall, start) = (Shortfall::default(), Instant::now());
        let mut look = |tenth: u64, delivered, frames, sleeps| {
            let now = start + Duration::from_millis(100 * tenth);
            shortfall.look(1000.0, delivered, (frames, sleeps), now)
        };
        assert_eq!(look(0, 0, 0, 0), 0, "nothing to compare with");
        assert_eq!(look(1, 60, 60, 1), 0, "it slept: no more came");
        assert_eq!(look(2, 120, 120, 1), 40, "100 were due");
        assert_eq!(look(3, 120, 120, 1), 140, "it was behind, and has had no time at all since");
        assert_eq!(look(4, 280, 280, 1), 140, "more than was due");
        assert_eq!(look(5, 290, 290, 2), 140);
    }
}
