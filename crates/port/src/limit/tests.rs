use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Null;

/// Returns how many frames are admitted if `each` arrive every `step` parts, for this many seconds.
fn passed(limit: &Limit, each: u64, step: u64, seconds: u64) -> u64 {
    let pps = limit.get().expect("a limit");
    (0..seconds * SECOND / step).map(|n| limit.take(pps, n * step, each)).sum()
}

fn limit(pps: u64) -> Limit {
    let limit = Limit::default();
    limit.set(Some(pps));
    limit
}

/// Returns the depth of the bucket in frames.
fn depth(pps: u64) -> u64 {
    (pps / 100).max(LEAST)
}

#[test]
fn over_seconds_the_rate_is_the_limit() {
    for pps in [1, 999, 200_000, 3_000_000] {
        // Four times as many arrive, in bursts.
        let step = (SECOND / pps / 4 * 32).clamp(1, SECOND);
        let came = passed(&limit(pps), 32.max(4 * pps * step / SECOND), step, 5);
        let wanted = 5 * pps + depth(pps);
        let off = came.abs_diff(wanted);
        // The last burst but one arrives one step before the end.
        assert!(off <= 33 + wanted / 10_000, "{pps}: {came} and not {wanted}");
    }
}

#[test]
fn what_comes_below_the_limit_passes_whole() {
    let limit = limit(100_000);
    assert_eq!(passed(&limit, 9, SECOND / 10_000, 2), 9 * 20_000);
    // A pause earns no unlimited credit: the bucket has a bounded depth.
    assert_eq!(limit.take(100_000, 3600 * SECOND, 1_000_000), depth(100_000));
}

#[test]
fn no_limit_lets_everything_in_and_counts_nothing() {
    let (null, counters) = <(Arc<Null>, Arc<LimitCounters>)>::default();
    let (clock, hand) = Clock::by_hand();
    let limit = Arc::new(Limit::by(clock));
    let sink = Limited::new(null.clone(), limit.clone(), counters.clone());
    let mut octets = vec![[7_u8; 60]; 64];
    let frames: Vec<_> = octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
    for _ in 0..1000 {
        assert_eq!(sink.deliver(&frames), 64);
    }
    assert_eq!((null.frames(), counters.in_frames.get()), (64_000, 0));
    // One a second, plus the depth of the bucket; then unlimited again, at once.
    limit.set(Some(1));
    assert_eq!([sink.deliver(&frames), sink.deliver(&frames)], [LEAST as usize, 0]);
    assert_eq!(counters.drop_limit.get(), 128 - LEAST);
    hand.advance(Duration::from_millis(999));
    assert_eq!(sink.deliver(&frames), 0);
    hand.advance(Duration::from_millis(1));
    assert_eq!(sink.deliver(&frames), 1);
    limit.set(None);
    assert_eq!(sink.deliver(&frames), 64);
    // A due time computed at the low rate does not delay frames at a high one.
    limit.set(Some(1));
    sink.deliver(&frames);
    limit.set(Some(MOST));
    assert_eq!(sink.deliver(&frames), 64);
}

#[test]
fn a_sender_that_has_read_the_former_limit_leaves_no_due_time_of_its_rate() {
    let limit = limit(1);
    // The sender has read a limit of one a second, and goes on after the change.
    limit.set(Some(1_000_000));
    assert_eq!(limit.take(1, SECOND, 64), LEAST);
    assert_eq!(limit.take(1_000_000, SECOND, 64), 64);
}

#[test]
fn a_limit_is_shared_and_every_frame_is_counted_once() {
    let null = Arc::<Null>::default();
    let (clock, hand) = Clock::by_hand();
    let limit = Arc::new(Limit::by(clock));
    limit.set(Some(50_000));
    let counters = [Arc::<LimitCounters>::default(), Arc::default()];
    std::thread::scope(|scope| {
        for counters in &counters {
            for _ in 0..2 {
                let sink = Limited::new(null.clone(), limit.clone(), counters.clone());
                let hand = hand.clone();
                scope.spawn(move || {
                    let mut octets = vec![[7_u8; 60]; 64];
                    let frames: Vec<_> =
                        octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
                    for _ in 0..20_000 {
                        sink.deliver(&frames);
                        hand.advance(Duration::from_micros(1));
                    }
                });
            }
        }
    });
    // Each of 4 x 20,000 bursts took a microsecond, and more frames were offered than that time admits.
    let most = 50_000 * 80_000 / 1_000_000 + depth(50_000);
    for counters in &counters {
        assert_eq!(counters.in_frames.get(), 2 * 20_000 * 64);
        assert_eq!(counters.in_frames.get(), counters.passed.get() + counters.drop_limit.get());
    }
    let passed: u64 = counters.iter().map(|counters| counters.passed.get()).sum();
    assert_eq!(null.frames(), passed);
    assert!((most - 1..=most).contains(&passed), "{passed} and not {most}");
}

proptest! {
    /// In no interval do more frames enter than the rate and the bucket allow.
    #[test]
    fn no_interval_holds_more_than_rate_and_bucket(
        pps in 1_u64..5_000_000,
        bursts in proptest::collection::vec((0_u64..SECOND / 50, 1_u64..200), 1..100),
    ) {
        let limit = limit(pps);
        let mut now = 0;
        let came: Vec<(u64, u64)> = bursts
            .into_iter()
            .map(|(pause, wanted)| {
                now += pause;
                (now, limit.take(pps, now, wanted))
            })
            .collect();
        for first in 0..came.len() {
            let mut sum = 0;
            for (at, passed) in &came[first..] {
                sum += passed;
                let long = (at - came[first].0) as f64 / SECOND as f64;
                // The interval is rounded to a part, by less than a thousandth up to 5 Mpps.
                let most = (pps as f64 * long) * 1.001 + depth(pps) as f64 * 1.001 + 1.0;
                prop_assert!(sum as f64 <= most, "{sum} in {long} s at {pps}");
            }
        }
    }
}
