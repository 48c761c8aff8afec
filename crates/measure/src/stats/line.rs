//! Tests whether points lie on a line through the origin, as rates under a CPU reservation should.

/// Line through the origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// Slope: y / x.
    pub slope: f64,
    /// Fraction of the variance of y about its mean that the line explains; negative if it fits worse than the mean.
    pub r2: f64,
}

impl Proportion {
    /// Least-squares fit; none for fewer than three points, or if all x or all y are equal.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let (xx, xy) = points.iter().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
        let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
        let slope = xy / xx;
        let left: f64 = points.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let same = points.windows(2).all(|pair| pair[0].0 == pair[1].0);
        (!same && total > 0.0 && slope.is_finite()).then(|| Self { slope, r2: 1.0 - left / total })
    }
}

/// Returns the points below the knee: in ascending x, those before the first whose y is within `within` (relative)
/// of the plateau.
pub fn below_knee(points: &[(f64, f64)], plateau: f64, within: f64) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    sorted.into_iter().take_while(|(_, y)| *y < plateau * (1.0 - within)).collect()
}

#[cfg(test)]
mod tests;
