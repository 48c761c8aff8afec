//! CPU affinities and priorities of threads.

use sched::{SchedFacts, attributes};

use crate::host::{alone, applier, lacks, outlined, place, plan};
use crate::worker::{vcpu, vhost};

#[test]
fn places_and_priorities() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "real-time group", "two CPUs"]) {
        return;
    }
    let cpus: Vec<u32> = known.topology.allowed.iter().copied().collect();
    let (first, second) = (cpus[0], cpus[1]);
    let pin = |vcpu, vhost| format!("pin = {{ vcpu = \"{vcpu}\", vhost = \"{vhost}\" }}\n");
    let policies =
        "sched = { vcpu = { policy = \"fifo\", priority = 5 }, vhost = { policy = \"rr\", priority = 4 } }";
    let (vcpu, vhost) = (vcpu(false), vhost(false));
    let mut applier = applier();
    applier.make(&outlined(&(pin(first, second) + policies), &known)).expect("nothing to make");
    place(&mut applier, &[&vcpu, &vhost]);
    let held = [&vcpu, &vhost].map(|worker| attributes(worker.tid()).expect("a thread"));
    assert_eq!(held.map(|held| (held.policy, held.priority)), [(1, 5), (2, 4)], "SCHED_FIFO, SCHED_RR");
    assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![first as usize], vec![second as usize]));
    // The other way round, and ordinary.
    applier.make(&outlined(&pin(second, first), &known)).expect("nothing to make");
    place(&mut applier, &[&vcpu, &vhost]);
    assert!([&vcpu, &vhost].iter().all(|worker| attributes(worker.tid()).expect("a thread").is_other()));
    assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![second as usize], vec![first as usize]));
    assert!(applier.undos().is_empty());
}
