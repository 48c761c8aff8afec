//! A token bucket for ICMP errors (RFC 1812, 4.3.2.8).

/// Milliseconds for which one error is granted: 100 a second.
const COST: u64 = 10;
/// Errors that may be sent at once after a quiet period.
const BURST: u64 = 50;

/// Limit of the errors caused by one NIC. Credit is counted in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct ErrorBucket {
    credit: u64,
    updated: u64,
}

impl ErrorBucket {
    /// Creates a full bucket.
    pub(crate) const fn new() -> Self {
        Self { credit: BURST * COST, updated: 0 }
    }

    /// Takes one token at time `now`, in milliseconds; returns false if there is none.
    pub(crate) fn take(&mut self, now: u64) -> bool {
        let earned = now.saturating_sub(self.updated);
        self.credit = self.credit.saturating_add(earned).min(BURST * COST);
        self.updated = now.max(self.updated);
        let granted = self.credit >= COST;
        if granted {
            self.credit -= COST;
        }
        granted
    }
}
