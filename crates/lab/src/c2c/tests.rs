use super::round_trip_ns;
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
        // On a busy machine the answer may not come in time; what comes is a sane figure.
        assert!(ns.is_nan() || (1.0..1e6).contains(&ns), "{ns}");
    }
}
