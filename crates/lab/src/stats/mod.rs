//! What samples say: median, range, and a 95 % interval that assumes nothing about their distribution.
//!
//! The interval of a median runs from the k-th smallest to the k-th largest sample, k being the largest rank for
//! which it covers the true median in at least 95 of 100 cases (order statistics, binomial with p = 1/2; e.g. David
//! and Nagaraja, Order Statistics, 7.1). Six samples are the fewest that have one.

#[cfg(test)]
mod tests;

/// A set of samples in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Samples.
    pub n: usize,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// 95 % interval of the median; none with fewer than 6 samples.
    pub ci95: Option<(f64, f64)>,
}

impl Summary {
    /// Sums samples up; none if there are none. Samples that are not finite numbers are left out.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self {
            n: sorted.len(),
            median: median_of_sorted(&sorted)?,
            min,
            max,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            ci95: median_interval(&sorted),
        })
    }
}

/// The median of the finite samples, if there are any.
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples))
}

/// The ratio first / second of interleaved pairs: its median over the pairs, and the interval of that median. Pairs
/// in which one side is not a positive number are left out.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Summary> {
    let usable = |&&(a, b): &&(f64, f64)| a > 0.0 && b > 0.0;
    let ratios: Vec<f64> = pairs.iter().filter(usable).map(|(a, b)| a / b).collect();
    Summary::of(&ratios)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let rank = interval_rank(sorted.len());
    let low = *sorted.get(rank.checked_sub(1)?)?;
    Some((low, *sorted.get(sorted.len() - rank)?))
}

/// The largest k with P(B < k) <= 2.5 % for B binomial in `n` tosses of a fair coin; 0 where there is none.
fn interval_rank(n: usize) -> usize {
    // 0.5^n is a normal number up to here; beyond, the normal approximation is good to a rank.
    if n > 1000 {
        return ((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0) as usize;
    }
    let mut term = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    for k in 0..n {
        below += term;
        if below > 0.025 {
            return k;
        }
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    0
}
