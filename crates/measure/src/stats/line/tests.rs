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
