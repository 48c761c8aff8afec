//! Jitter of intervals, so that sessions do not fall into step (RFC 5880, section 6.8.7).

/// Source of jitter: numbers by xorshift (Marsaglia, 2003), the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    state: u64,
}

/// Parts of an interval: it is shortened by at most [`QUARTER`] of them.
const PARTS: u64 = 4096;
const QUARTER: u64 = PARTS / 4;
/// A tenth of the parts, rounded up: with a multiplier of 1 an interval is shortened at least by it.
const TENTH: u64 = PARTS.div_ceil(10);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: if seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { seed } }
    }

    /// Shortens an interval by 0 to 25 %, or by 10 to 25 % with a multiplier of 1.
    pub(crate) fn shortened(&mut self, interval: u64, multiplier: u8) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let least = if multiplier == 1 { TENTH } else { 0 };
        let parts = least + self.state % (QUARTER - least + 1);
        // Rounded towards the shorter interval.
        interval - (interval * parts).div_ceil(PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_shortened_within_the_bounds_of_the_standard() {
        let mut jitter = Jitter::new(0);
        let mut seen = [u64::MAX, 0];
        for _ in 0..10_000 {
            let interval = jitter.shortened(1_000_000, 3);
            assert!((749_999..=1_000_000).contains(&interval));
            seen = [seen[0].min(interval), seen[1].max(interval)];
            assert!((749_999..=900_000).contains(&jitter.shortened(1_000_000, 1)));
        }
        assert!(seen[0] < 760_000 && seen[1] > 990_000, "{seen:?}");
    }

    #[test]
    fn a_seed_repeats_them_and_another_does_not() {
        let some = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..20).map(|_| jitter.shortened(50_000, 3)).collect::<Vec<_>>()
        };
        assert_eq!(some(5), some(5));
        assert_ne!(some(5), some(6));
    }
}
