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
