//! Totals of a promise, as counters: they only grow, and rates are their differences.

use std::time::{Duration, Instant};

use crate::guarantee::{Measured, PromiseState, PromiseStatus};

/// Counters of a promise: names and help texts.
pub const FIELDS: &[(&str, &str)] = &[
    ("promised", "Packets that a router was promised: the rate times the time."),
    ("offered", "Packets that came to a router that is promised a rate."),
    ("delivered", "Packets that a router that is promised a rate was done with."),
    ("kept_ms", "Time in which the promise was kept, or less was asked for."),
    ("broken_ms", "Time in which the promise was not kept."),
];

/// Totals of one router.
#[derive(Clone, Debug, Default)]
pub(super) struct PromiseTotals {
    /// At the last look: time, packets delivered and dropped.
    last: Option<(Instant, u64, u64)>,
    promised: f64,
    offered: u64,
    delivered: u64,
    kept: Duration,
    broken: Duration,
}

impl PromiseTotals {
    /// Adds what happened since the last look.
    pub(super) fn look(&mut self, measured: &Measured<'_>, standing: &PromiseStatus, now: Instant) {
        let last = self.last.replace((now, measured.delivered, measured.dropped));
        let Some((then, delivered, dropped)) = last else { return };
        let (Some(delivered), Some(dropped)) =
            (measured.delivered.checked_sub(delivered), measured.dropped.checked_sub(dropped))
        else {
            // Counters that were restarted say nothing about this time.
            return;
        };
        let time = now.saturating_duration_since(then);
        self.promised += standing.promised * time.as_secs_f64();
        self.offered += delivered + dropped;
        self.delivered += delivered;
        *if matches!(standing.kept, PromiseState::No(_)) { &mut self.broken } else { &mut self.kept } += time;
    }

    /// Counters by name.
    pub(super) fn counters(&self) -> [(&'static str, u64); 5] {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        [
            ("promised", self.promised as u64),
            ("offered", self.offered),
            ("delivered", self.delivered),
            ("kept_ms", ms(self.kept)),
            ("broken_ms", ms(self.broken)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_grows_with_time_and_with_nothing_else() {
        let mut tally = PromiseTotals::default();
        let start = Instant::now();
        let standing = |kept| PromiseStatus {
            router: "edge".to_owned(),
            promised: 1000.0,
            offered: 0.0,
            delivered: 0.0,
            kept,
        };
        let mut look = |ms, delivered, dropped, kept| {
            let measured = Measured { router: "edge", delivered, dropped, contended: false };
            tally.look(&measured, &standing(kept), start + Duration::from_millis(ms));
        };
        look(0, 500, 70, PromiseState::Unknown);
        look(100, 580, 70, PromiseState::BelowPromise);
        look(200, 680, 90, PromiseState::Settling);
        look(350, 730, 190, PromiseState::No("too little".to_owned()));
        // Its router was restarted.
        look(450, 20, 0, PromiseState::Yes);
        look(550, 120, 0, PromiseState::Yes);
        let counted = tally.counters();
        let wanted = [450, 80 + 120 + 150 + 100, 80 + 100 + 50 + 100, 300, 150];
        assert_eq!(counted.map(|(_, value)| value), wanted);
        assert_eq!(counted.map(|(name, _)| name), [0, 1, 2, 3, 4].map(|field: usize| FIELDS[field].0));
    }
}
