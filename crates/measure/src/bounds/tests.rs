use super::*;

/// Judges a figure whose interval extends by a hundredth on either side.
fn judged(name: &str, key: &str, figure: f64) -> &'static str {
    let limit = LIMITS.iter().find(|limit| (limit.name, limit.key) == (name, key));
    let limit = limit.unwrap_or_else(|| panic!("nothing is asked of {name} {key}"));
    limit.asked.judge((figure * 0.99, figure, figure * 1.01))
}

#[test]
fn a_promise_beside_a_neighbour_that_never_idles_is_judged_with_the_core_that_they_share() {
    let of = |key, figure| judged("guarantee/kvm/virtio-net/60/tap/beside-spinner", key, figure);
    assert_eq!(
        [of("median", 1.0), of("idle_cpu", 0.01), of("timer_p99_ms", 4.0)],
        ["yes, close", "yes", "yes"]
    );
    // A fair scheduler's share of two routers' core; a neighbour that sleeps; a core on which no other program gets
    // to run.
    assert_eq!([of("median", 0.75), of("idle_cpu", 0.3), of("timer_p99_ms", 100.0)], ["no"; 3]);
    assert_eq!([of("neighbour_cpu", 0.2), of("neighbour_cpu", 0.0001)], ["yes", "no"]);
    assert_eq!([of("median", 0.95), of("timer_p99_ms", 21.0)], ["no, close"; 2]);
}

#[test]
fn every_limit_refuses_what_is_beyond_it() {
    for Limit { name, key, asked } in LIMITS {
        let (least, most) = (asked.at_least, asked.at_most);
        assert!(least > 0.0 || most.is_finite(), "{name} {key}: anything would do");
        if least > 0.0 {
            assert_eq!(judged(name, key, least * 0.5), "no", "{name} {key}");
        }
        if most.is_finite() {
            assert_eq!(judged(name, key, most * 2.0), "no", "{name} {key}");
        }
        let within = if most.is_finite() { f64::midpoint(least, most) } else { least * 1.05 };
        assert!(judged(name, key, within).starts_with("yes"), "{name} {key}");
    }
}

#[test]
fn near_and_far_are_places_of_cpus_and_no_verdicts() {
    for figure in [0.1, 0.49, 0.51, 1.0, 2.0] {
        let verdict = judged("livelock/kvm/e1000-base/64/work=2000/queue=256/unprotected", "median", figure);
        assert!(!verdict.contains("near") && !verdict.contains("far"), "{figure}: {verdict}");
    }
}
