//! Whether points lie on a line through the origin: what a reservation promises of a rate.

/// A line through the origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// y for each x.
    pub slope: f64,
    /// Part of the variance of y about its mean that the line explains; below zero where it is worse than the mean.
    pub r2: f64,
}

impl Proportion {
    /// The best one by least squares; none for fewer than three points, or where all x or all y are the same.
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

/// Points below the knee: in ascending x those before the first that comes as near to the plateau as `within` of it.
pub fn below_knee(points: &[(f64, f64)], plateau: f64, within: f64) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    sorted.into_iter().take_while(|(_, y)| *y < plateau * (1.0 - within)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_through_the_origin_are_all_explained() {
        let points = [(0.35, 35.0), (0.45, 45.0), (0.55, 55.0)];
        let line = Proportion::of(&points).unwrap();
        assert!((line.slope - 100.0).abs() < 1e-9 && (line.r2 - 1.0).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn a_flat_or_shifted_curve_is_not() {
        let shifted: Vec<_> = [0.35, 0.45, 0.55, 0.65].map(|x| (x, 40.0 + 20.0 * x)).into();
        assert!(Proportion::of(&shifted).unwrap().r2 < 0.0);
        assert_eq!(Proportion::of(&[(0.1, 5.0), (0.2, 5.0), (0.3, 5.0)]), None);
        assert_eq!(Proportion::of(&[(0.1, 5.0), (0.2, 10.0)]), None);
        assert_eq!(Proportion::of(&[(0.1, 5.0), (0.1, 10.0), (0.1, 7.0)]), None);
    }

    #[test]
    fn the_knee_ends_what_is_looked_at() {
        let points = [(0.65, 99.0), (0.35, 50.0), (0.45, 64.0), (0.55, 80.0), (0.75, 90.0)];
        assert_eq!(below_knee(&points, 100.0, 0.05), [(0.35, 50.0), (0.45, 64.0), (0.55, 80.0)]);
        assert!(below_knee(&points, 40.0, 0.05).is_empty());
    }
}
