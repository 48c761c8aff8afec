use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

use super::{answer, round_trip_ns};
use crate::cores;

#[test]
fn one_cpu_has_no_distance_to_itself() {
    assert!(round_trip_ns(0, 0, 100).is_nan());
    assert!(round_trip_ns(0, 1, 0).is_nan());
}

#[test]
fn a_cpu_that_does_not_exist_has_no_distance() {
    assert!(round_trip_ns(0, 1023, 100).is_nan());
    assert!(round_trip_ns(1023, 0, 100).is_nan());
}

#[test]
fn two_cpus_have_a_distance() {
    if let [a, b, ..] = cores::allowed().unwrap()[..] {
        let ns = round_trip_ns(a, b, 1000);
        // On a busy machine the answer may be late; a figure must be plausible.
        assert!(ns.is_nan() || (1.0..1e6).contains(&ns), "{ns}");
    }
}

/// The asking thread may give up while an answer is on its way.
#[test]
fn who_answers_ends_whenever_that_is_asked() {
    let cpu = cores::allowed().unwrap()[0];
    for turn in 0..2000 {
        let (line, end) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| answer(&line, &end, cpu));
            line.store(1, Relaxed);
            if turn % 2 == 0 {
                while line.load(Relaxed) == 1 {}
                line.store(3, Relaxed);
            }
            end.store(true, Relaxed);
        });
    }
}
