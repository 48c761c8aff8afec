use super::*;

/// Ten samples about 100, `step` apart.
fn samples(step: f64) -> Vec<f64> {
    (0..10).map(|n| 100.0 + step * (f64::from(n * 7 % 10) - 4.5)).collect()
}

#[test]
fn samples_that_lie_three_times_as_far_apart_are_three_times_as_spread() {
    let (found, (low, high)) = spread_ratio(&samples(3.0), &samples(1.0)).unwrap();
    assert!((found - 3.0).abs() < 1e-9, "{found}");
    assert!(low > 1.5 && high < 6.0, "{low} {high}");
}

#[test]
fn a_larger_mean_makes_nothing_steadier_or_less_so() {
    let twice: Vec<f64> = samples(1.0).iter().map(|sample| 2.0 * sample).collect();
    let (found, _) = spread_ratio(&twice, &samples(1.0)).unwrap();
    assert!((found - 1.0).abs() < 1e-9, "{found}");
}

#[test]
fn few_samples_and_such_as_are_all_alike_tell_nothing() {
    assert_eq!(spread_ratio(&samples(1.0)[..5], &samples(1.0)), None);
    assert_eq!(spread_ratio(&samples(1.0), &[5.0; 10]), None);
    assert_eq!(spread_ratio(&[0.0; 10], &samples(1.0)), None);
}
