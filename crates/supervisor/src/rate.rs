//! How often something happens, so that whoever does it too often can be stopped.

use std::time::{Duration, Instant};

/// What is counted together.
const SPAN: Duration = Duration::from_secs(1);

/// Things within the present second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    since: Instant,
    count: u32,
}

impl Rate {
    /// Nothing yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Whether a second has passed since the count began; if so, it begins again. Returns what had been counted.
    pub(super) fn turn(&mut self, now: Instant) -> Option<u32> {
        let over = now.saturating_duration_since(self.since) > SPAN;
        over.then(|| std::mem::replace(self, Self::new(now)).count)
    }

    /// One more; whether there have been more than `most` in this second.
    pub(super) fn exceeds(&mut self, most: u32, now: Instant) -> bool {
        self.turn(now);
        self.count = self.count.saturating_add(1);
        self.count > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_count() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let over: Vec<bool> = (0..5).map(|_| rate.exceeds(3, start)).collect();
        assert_eq!(over, [false, false, false, true, true]);
        assert!(!rate.exceeds(3, start + 2 * SPAN));
        assert_eq!(rate.turn(start + 2 * SPAN), None);
        assert_eq!(rate.turn(start + 4 * SPAN), Some(1));
    }
}
