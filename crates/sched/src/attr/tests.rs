use super::*;

#[test]
fn trying_a_policy_leaves_the_caller_alone() {
    let (runtime, period) = (Duration::from_millis(1), Duration::from_millis(100));
    let reservation = Reservation { runtime, deadline: period, period, reclaim: false };
    for policy in [Policy::Fifo { priority: 1 }, Policy::Deadline(reservation)] {
        let _permitted_or_not = try_policy(policy);
        assert!(attributes(0).expect("this thread").is_other());
    }
}

#[test]
fn only_an_ordinary_thread_has_slices() {
    let kept = || attributes(0).expect("this thread");
    let (before, slice) = (kept(), Duration::from_micros(300));
    set_in_slices(0, Policy::Other, Some(slice)).expect("an ordinary thread may have other slices");
    let with = kept();
    assert!(with.is_other() && with.nice == before.nice);
    // Kernels before 6.12 ignore the slice.
    assert!([0, 300_000].contains(&with.runtime), "{with:?}");
    set(0, Policy::Other).expect("back");
    assert_eq!(kept().runtime, before.runtime);
}
