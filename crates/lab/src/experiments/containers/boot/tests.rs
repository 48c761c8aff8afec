use super::*;

#[test]
fn a_percentile_is_the_nearest_rank() {
    let trials = Trials { took: (1..=100).map(f64::from).collect(), stolen: 3 };
    assert_eq!([50, 99, 100].map(|percent| trials.percentile(percent)), [50.0, 99.0, 100.0]);
    let sample = trials.sample();
    assert_eq!(
        (sample.value, sample.more.get("trials"), sample.more.get("stolen")),
        (99.0, Some(100.0), Some(3.0))
    );
    assert!(Trials { took: Vec::new(), stolen: 0 }.percentile(99).is_nan());
}
