use super::{Summary, interval_rank, mean99, median, ratio};

#[test]
fn known_medians() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0]), Some(3.0));
    assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[f64::NAN, 7.0, f64::INFINITY]), Some(7.0));
}

#[test]
fn ranks_are_those_of_the_published_tables() {
    // The sign test's table for 95 %: n and rank of the lower bound.
    let table =
        [(5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18)];
    for (n, rank) in table {
        assert_eq!(interval_rank(n), rank, "n = {n}");
    }
    assert_eq!(interval_rank(0), 0);
}

#[test]
fn the_rank_has_no_step_where_the_approximation_begins() {
    let (exact, approximate) = (interval_rank(1000), interval_rank(1001));
    assert!(approximate.abs_diff(exact) <= 1, "{exact} {approximate}");
}

#[test]
fn a_summary_of_ten_samples() {
    let samples: Vec<f64> = (1..=10).rev().map(f64::from).collect();
    let expected = Summary { n: 10, median: 5.5, min: 1.0, max: 10.0, mean: 5.5, ci95: Some((2.0, 9.0)) };
    assert_eq!(Summary::of(&samples), Some(expected));
    assert_eq!(Summary::of(&samples[..5]).unwrap().ci95, None);
}

#[test]
fn the_interval_covers_the_true_median_as_often_as_it_says() {
    let mut state = 88_172_645_463_325_252u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let covered = (0..4000)
        .filter(|_| {
            let samples: Vec<f64> = (0..20).map(|_| uniform()).collect();
            let (low, high) = Summary::of(&samples).unwrap().ci95.unwrap();
            low <= 0.5 && 0.5 <= high
        })
        .count();
    // For n = 20 the expected coverage is 95.9 %.
    assert!((3780..3890).contains(&covered), "{covered} of 4000");
}

#[test]
fn a_ratio_is_taken_pair_by_pair() {
    // Over the pairs the values drift by a factor of twelve; their ratio does not.
    let pairs: Vec<(f64, f64)> = (1..=12).map(|i| (3.0 * f64::from(i), f64::from(i))).collect();
    let found = ratio(&pairs).unwrap();
    assert_eq!((found.n, found.median, found.ci95), (12, 3.0, Some((3.0, 3.0))));
    assert_eq!(ratio(&[(1.0, 0.0), (-1.0, 1.0), (f64::NAN, 1.0)]), None);
    // A zero numerator is a valid ratio, and counts.
    assert_eq!(ratio(&[(0.0, 1.0), (0.0, 2.0), (1.0, 1.0)]).map(|found| found.median), Some(0.0));
}

#[test]
fn the_99_percent_interval_of_a_mean_is_students() {
    // n = 10, mean 5.5, standard deviation 3.02765: 3.250 * 3.02765 / sqrt(10) = 3.1116.
    let samples: Vec<f64> = (1..=10).map(f64::from).collect();
    let (mean, half) = mean99(&samples).unwrap();
    assert!((mean - 5.5).abs() < 1e-12 && (half - 3.1116).abs() < 1e-3, "{mean} {half}");
    assert_eq!(mean99(&[3.0, 3.0, f64::NAN]), Some((3.0, 0.0)));
    assert_eq!(mean99(&[3.0]), None);
    let many: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
    let (_, half) = mean99(&many).unwrap();
    assert!((half - 2.576 * 0.502519 / 10.0).abs() < 1e-4, "{half}");
}
