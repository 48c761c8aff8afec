//! Statistics of samples: median, range, and a 95 % confidence interval that assumes nothing about their distribution.
//!
//! The interval of a median runs from the k-th smallest to the k-th largest sample, k being the largest rank for
//! which it covers the true median in at least 95 of 100 cases (order statistics, binomial with p = 1/2; e.g. David
//! and Nagaraja, Order Statistics, 7.1). Six samples are the fewest that have one.

pub mod line;
mod spread;
#[cfg(test)]
mod tests;

pub use spread::spread_ratio;

/// Summary of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Middle sample, or the mean of the middle two.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Mean of the samples.
    pub mean: f64,
    /// 95 % interval of the median; none with fewer than 6 samples.
    pub ci95: Option<(f64, f64)>,
}

impl Summary {
    /// Summarises samples; none if there are none. Samples that are not finite are ignored.
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

    /// Returns the interval's lower end, the median and the upper end; none if there is no interval.
    pub fn within(&self) -> Option<(f64, f64, f64)> {
        let (low, high) = self.ci95?;
        Some((low, self.median, high))
    }
}

/// Student's t for a two-sided interval of 99 %, by degrees of freedom from 1; beyond them the value of the normal
/// distribution is used, which is at most 5 % narrower (e.g. NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
const T99: [f64; 40] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
    2.744, 2.738, 2.733, 2.728, 2.724, 2.719, 2.715, 2.712, 2.708, 2.704,
];
const Z99: f64 = 2.576;

/// Mean of the finite samples and half the width of its 99 % interval, as seed paper 000 reports them: by Student's t, hence
/// for samples whose mean is approximately normal. None with fewer than two samples.
pub fn mean99(samples: &[f64]) -> Option<(f64, f64)> {
    let finite: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    let n = finite.len();
    let t = T99.get(n.checked_sub(2)?).copied().unwrap_or(Z99);
    let (mean, variance) = mean_and_variance(&finite);
    Some((mean, t * (variance / n as f64).sqrt()))
}

/// Mean and unbiased variance (n - 1) of at least two samples.
fn mean_and_variance(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    (mean, samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// Median of the finite samples, if there are any.
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples))
}

/// Ratio first / second of interleaved pairs: its median over the pairs, and the interval of that median. Pairs whose first
/// is NaN or negative, or whose second is not positive, are ignored.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Summary> {
    let usable = |&&(a, b): &&(f64, f64)| a >= 0.0 && b > 0.0;
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

/// Largest k with P(B < k) <= 2.5 % for B binomial in `n` tosses of a fair coin; 0 if there is none.
fn interval_rank(n: usize) -> usize {
    // 0.5^n is a normal floating-point number up to here; beyond, the normal approximation is accurate to one rank.
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
