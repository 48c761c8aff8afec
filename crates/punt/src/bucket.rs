//! Token bucket.

/// Microseconds of a second: a token is worth as much credit.
const TOKEN: u64 = 1_000_000;

/// Token bucket: `rate` tokens a second flow in, at most `burst` are held. Credit is counted in millionths of a token, so that no
/// rate is rounded.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: u64,
    most: u64,
    credit: u64,
    /// Time of the last update, in microseconds.
    updated: u64,
}

impl Bucket {
    /// Creates a full bucket.
    pub const fn new(rate: u32, burst: u32) -> Self {
        let most = burst as u64 * TOKEN;
        Self { rate: rate as u64, most, credit: most, updated: 0 }
    }

    /// Takes a token at time `now`, in microseconds of a monotonic clock; returns false if there is none.
    #[inline]
    pub fn take(&mut self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.updated);
        self.credit = self.credit.saturating_add(elapsed.saturating_mul(self.rate)).min(self.most);
        self.updated = now.max(self.updated);
        let granted = self.credit >= TOKEN;
        if granted {
            self.credit -= TOKEN;
        }
        granted
    }

    /// Changes rate and burst; tokens stay, as far as they fit.
    pub fn set(&mut self, rate: u32, burst: u32) {
        (self.rate, self.most) = (rate.into(), u64::from(burst) * TOKEN);
        self.credit = self.credit.min(self.most);
    }
}

#[cfg(test)]
mod tests;
