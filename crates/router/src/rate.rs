//! A token bucket for ICMP errors (RFC 1812, 4.3.2.8).

/// Milliseconds that earn one error: 100 a second.
const COST: u64 = 10;
/// Errors that may be sent at once after a quiet time.
const BURST: u64 = 50;

/// How many errors one NIC may still cause. Credit is counted in milliseconds.
pub(crate) struct Limit {
    credit: u64,
    updated: u64,
}

impl Limit {
    /// A full bucket.
    pub(crate) const fn new() -> Self {
        Self { credit: BURST * COST, updated: 0 }
    }

    /// Takes one token at the time `now`, in milliseconds; false if there is none.
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
