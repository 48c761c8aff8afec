//! What a router lacks that nobody counts.

use std::time::Instant;

/// A router whose I/O threads always have work is behind: what it lacks to its promise, somebody drops before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hunger {
    /// Whether it was behind at the last look.
    is_behind: bool,
    /// Packets that it was done with, frames and sleeps of its I/O threads, at the last look.
    last: Option<(Instant, u64, u64, u64)>,
    /// Packets that it lacked so far.
    lacked: u64,
}

impl Hunger {
    /// Looks at what was counted; packets that it lacked so far to a rate of `pps`.
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
