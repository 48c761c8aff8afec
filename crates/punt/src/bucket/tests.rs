use proptest::prelude::*;

use super::*;

fn granted(bucket: &mut Bucket, times: impl Iterator<Item = u64>) -> u64 {
    times.map(|now| u64::from(bucket.take(now))).sum()
}

#[test]
fn a_burst_passes_then_the_rate() {
    let mut bucket = Bucket::new(1000, 10);
    assert_eq!(granted(&mut bucket, (0..100).map(|_| 0)), 10);
    assert_eq!(granted(&mut bucket, 1..=1_000_000), 1000);
    assert_eq!(
        granted(&mut bucket, (0..100).map(|_| 10_000_000)),
        10,
        "tokens of a quiet time do not pile up"
    );
}

#[test]
fn time_that_goes_back_gives_nothing() {
    let mut bucket = Bucket::new(1000, 1);
    assert!(bucket.take(5_000_000));
    assert!(!bucket.take(1_000_000));
    assert!(!bucket.take(5_000_999));
    assert!(bucket.take(5_001_000));
}

#[test]
fn extremes_are_counted_right() {
    let mut none = Bucket::new(0, 0);
    assert!(!none.take(u64::MAX));
    let mut fast = Bucket::new(u32::MAX, u32::MAX);
    assert_eq!(granted(&mut fast, [0, u64::MAX, u64::MAX].into_iter()), 3);
}

#[test]
fn a_lower_limit_holds_at_once() {
    let mut bucket = Bucket::new(1000, 100);
    bucket.set(10, 2);
    assert_eq!(granted(&mut bucket, (0..100).map(|_| 0)), 2);
    assert_eq!(granted(&mut bucket, 0..=1_000_000), 10);
}

proptest! {
    #[test]
    fn no_more_passes_than_rate_and_burst_allow(
        rate in 0u32..5000, burst in 0u32..100, steps in prop::collection::vec(0u64..20_000, 1..300),
    ) {
        let (mut bucket, mut now, mut passed) = (Bucket::new(rate, burst), 0, 0u64);
        for step in steps {
            now += step;
            passed += u64::from(bucket.take(now));
            prop_assert!(passed <= u64::from(burst) + now * u64::from(rate) / TOKEN);
        }
    }
}
