//! Compares the steadiness of two sets of samples: the ratio of their spreads.

use super::mean_and_variance;

/// Number of bootstrap resamples.
const DRAWS: usize = 2000;
/// Fewest samples, as for a median's interval.
const FEWEST: usize = 6;

/// Ratio of the relative standard deviations (standard deviation / mean) of two sets of samples, first / second, with its 95 %
/// interval by the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13): both sets are resampled with
/// replacement, from a fixed seed. None for fewer than 6 samples of either, or if the second set has no spread.
pub fn spread_ratio(first: &[f64], second: &[f64]) -> Option<(f64, (f64, f64))> {
    let ratio = |first: &[f64], second: &[f64]| {
        let (a, b) = (spread(first)?, spread(second)?);
        (b > 0.0).then(|| a / b)
    };
    if first.len().min(second.len()) < FEWEST {
        return None;
    }
    let found = ratio(first, second)?;
    let mut dice = Prng(0x9e37_79b9_7f4a_7c15);
    let draws = (0..DRAWS).filter_map(|_| ratio(&dice.draw(first), &dice.draw(second)));
    let mut draws: Vec<f64> = draws.collect();
    draws.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| draws.get((draws.len() as f64 * part) as usize).copied();
    Some((found, (at(0.025)?, at(0.975)?)))
}

/// Standard deviation / mean; none if the mean is not positive.
fn spread(samples: &[f64]) -> Option<f64> {
    let (mean, variance) = mean_and_variance(samples);
    (mean > 0.0 && variance.is_finite()).then(|| variance.sqrt() / mean)
}

/// Deterministic pseudo-random number generator (xorshift64).
struct Prng(u64);

impl Prng {
    /// Draws a resample of the same size, with replacement.
    fn draw(&mut self, samples: &[f64]) -> Vec<f64> {
        samples.iter().map(|_| samples[self.below(samples.len())]).collect()
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

#[cfg(test)]
mod tests;
