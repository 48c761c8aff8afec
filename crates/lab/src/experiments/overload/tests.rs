use sched::account::TimeCategory;

use super::*;

#[test]
fn a_case_of_vhost_net_is_played_by_its_threads_and_no_other_one_is() {
    let named = |names: &[&str]| -> Vec<Thread> {
        let thread =
            |name: &&str| Thread { name: (*name).to_owned(), pid: 1, tid: 2, column: TimeCategory::Vhost };
        names.iter().map(thread).collect()
    };
    let (ours, kernel) = (named(&["l1-0a/vhost#7"]), named(&["l1-0a/vcpu0#7", "vhost-70#71"]));
    assert!(is_played(VhostThreads::Shared, &ours) && is_played(VhostThreads::Kernel, &kernel));
    assert!(!is_played(VhostThreads::Kernel, &ours) && !is_played(VhostThreads::Shared, &kernel));
}
