//! Random moments: each run of a test has different ones, and those of a failed run can be repeated.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, process};

/// Environment variable with the seed to repeat.
const SEED: &str = "RINGROAD_SEED";

/// Random times and numbers from one seed, which is printed.
#[derive(Debug)]
pub struct RandomTimes {
    state: u64,
}

impl RandomTimes {
    /// Uses the seed in `RINGROAD_SEED`, or else a new one. To be created once, at the beginning of a test, so that the
    /// seed is printed before the test's other output.
    ///
    /// # Panics
    ///
    /// The variable is no number.
    pub fn new() -> Self {
        let given = env::var(SEED).ok();
        let seed = given.map(|text| text.parse().unwrap_or_else(|_| panic!("{SEED}: {text:?} is no number")));
        let seed = seed.unwrap_or_else(fresh);
        println!("seed {seed} ({SEED}={seed} plays it again)");
        Self::from_seed(seed)
    }

    /// Uses this seed, which is not printed.
    pub fn from_seed(seed: u64) -> Self {
        // Spread the seed over all bits, so that similar seeds begin differently; xorshift must not begin with 0.
        Self { state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Returns a number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Xorshift; any distribution will do.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11).checked_rem(bound).unwrap_or(0)
    }

    /// Returns a time below `most`.
    pub fn within(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns times below `most`, more of them early.
    pub fn early(&mut self, count: u32, most: Duration) -> Vec<Duration> {
        (1..=count).map(|n| self.within(most * n / count)).collect()
    }
}

impl Default for RandomTimes {
    fn default() -> Self {
        Self::new()
    }
}

/// Seed small enough to be typed.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(now.subsec_nanos()) ^ u64::from(process::id()) << 16) % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u64) -> Vec<Duration> {
        let mut moments = RandomTimes::from_seed(seed);
        let mut all = moments.early(20, Duration::from_secs(1));
        all.extend((0..20).map(|_| moments.within(Duration::from_millis(60))));
        all
    }

    #[test]
    fn a_seed_plays_the_same_moments_again_and_another_one_others() {
        for seed in [0, 1, 7, u64::MAX] {
            assert_eq!(some(seed), some(seed));
            assert_ne!(some(seed), some(seed.wrapping_add(1)));
        }
    }

    #[test]
    fn moments_are_within_their_bounds_and_spread_over_them() {
        let mut moments = RandomTimes::from_seed(4711);
        let most = Duration::from_millis(100);
        let all: Vec<Duration> = (0..1000).map(|_| moments.within(most)).collect();
        assert!(all.iter().all(|moment| *moment < most));
        for tenth in 0..10 {
            let found = all
                .iter()
                .filter(|moment| **moment >= most * tenth / 10 && **moment < most * (tenth + 1) / 10);
            assert!(found.count() > 50, "tenth {tenth}");
        }
        let early = moments.early(1000, most);
        assert!(early.iter().filter(|moment| **moment < most / 2).count() > 700);
        assert_eq!((moments.below(0), moments.within(Duration::ZERO)), (0, Duration::ZERO));
    }
}
