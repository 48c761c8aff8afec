//! Reservations and exclusive CPUs.

use sched::{RealTime, SchedFacts, attributes};

use crate::host::{
    RESERVED, alone, applier, balance, exclusive_can_be, lacks, lasting, left_over, outlined, place, plan,
    run, settings,
};
use crate::worker::{assert_reserved, is_held_to_its_runtime, vcpu, vhost};

#[test]
fn a_pinned_reservation_has_an_exclusive_cpuset() {
    let _alone = alone();
    let Some((known, cpus)) = exclusive_can_be() else { return };
    let before = settings(&known.host);
    let on = |cpu| format!("{RESERVED}\npin = {{ vcpu = \"{cpu}\" }}\naffinity = {{ vhost = \"free\" }}");
    let (vcpu, vhost) = (vcpu(true), vhost(false));
    let mut applier = applier();
    applier.make(&outlined(&on(cpus[1]), &known)).expect("a cpuset");
    place(&mut applier, &[&vcpu, &vhost]);
    assert_reserved(&vcpu, 2_000_000, 10_000_000);
    assert_eq!(vcpu.cpus(), [cpus[1] as usize]);
    assert!(
        vcpu.group("cpuset").ends_with(&format!("ringroad-{}.cpus{}", run(), cpus[1])),
        "{}",
        vcpu.group("cpuset")
    );
    assert!(attributes(vhost.tid()).expect("a thread").is_other());
    if balance(&known.host).is_some() {
        assert_eq!(balance(&known.host).as_deref(), Some("0"));
    }
    is_held_to_its_runtime(&vcpu);
    // A longer runtime, in place.
    let longer = on(cpus[1]).replace("\"2ms\"", "\"3ms\"");
    applier.make(&outlined(&longer, &known)).expect("the same cpuset");
    place(&mut applier, &[&vcpu, &vhost]);
    assert_reserved(&vcpu, 3_000_000, 10_000_000);
    // Another CPU.
    applier.make(&outlined(&on(cpus[0]), &known)).expect("another cpuset");
    place(&mut applier, &[&vcpu, &vhost]);
    assert_reserved(&vcpu, 2_000_000, 10_000_000);
    assert_eq!(vcpu.cpus(), [cpus[0] as usize]);
    assert_eq!(left_over(&known.host).len(), 1, "{:?}", left_over(&known.host));
    assert!(applier.undo_all().is_empty());
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
    assert_eq!(settings(&known.host), before);
}

#[test]
fn who_moves_to_another_exclusive_cpu_takes_all_of_its_time_along() {
    let _alone = alone();
    let Some((known, cpus)) = exclusive_can_be() else { return };
    let before = settings(&known.host);
    let on = |cpu, vcpu: &str, vhost: &str| {
        let class =
            |runtime| format!("{{ policy = \"deadline\", runtime = \"{runtime}\", period = \"10ms\" }}");
        let sched = format!("sched = {{ vcpu = {}, vhost = {} }}", class(vcpu), class(vhost));
        outlined(&format!("{sched}\npin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}"), &known)
    };
    let (vcpu, vhost) = (vcpu(true), vhost(false));
    let mut applier = applier();
    for (cpu, first, second) in
        [(cpus[1], "3ms", "2ms"), (cpus[0], "2ms", "400us"), (cpus[1], "8ms", "400us")]
    {
        applier.make(&on(cpu, first, second)).expect("a cpuset");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![cpu as usize], vec![cpu as usize]));
    }
    assert_reserved(&vcpu, 8_000_000, 10_000_000);
    assert_reserved(&vhost, 400_000, 10_000_000);
    assert!(applier.undo_all().is_empty());
    assert_eq!(settings(&known.host), before);
}

#[test]
fn who_is_outside_of_exclusive_cpus_keeps_its_own() {
    let _alone = alone();
    let Some((known, cpus)) = exclusive_can_be() else { return };
    let pinned = format!("pin = {{ vcpu = \"{}\", vhost = \"{}\" }}", cpus[1], cpus[0]);
    let (vcpu, vhost) = (vcpu(false), vhost(false));
    let mut applier = applier();
    for lines in [pinned.clone(), format!("{RESERVED}\n{pinned}"), pinned] {
        applier.make(&outlined(&lines, &known)).expect("a cpuset, or nothing to make");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![cpus[1] as usize], vec![cpus[0] as usize]), "{lines}");
    }
    // One thread without a pin or policy: it may use all CPUs, as before.
    let all: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
    for lines in [format!("{RESERVED}\npin = {{ vcpu = \"{}\" }}", cpus[1]), String::new()] {
        let free = lines + "\naffinity = { vhost = \"free\" }";
        applier.make(&outlined(&free, &known)).expect("a cpuset, or nothing to make");
        place(&mut applier, &[&vcpu, &vhost]);
    }
    assert_eq!(vhost.cpus(), all);
    assert!(applier.undo_all().is_empty());
}

#[test]
fn overlapping_reservations_of_one_run_make_room() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    let cpus: Vec<u32> = known.topology.allowed.iter().copied().collect();
    if lacks(&known, &["nice", "two CPUs", "cpuset"]) || cpus.len() < 3 && known.topology.cpus.len() < 3 {
        println!("SKIPPED: a set of two CPUs that are not all");
        return;
    }
    let on = |set: String| format!("{RESERVED}\naffinity = {{ vcpu = \"{set}\" }}");
    let vcpu = vcpu(false);
    let mut applier = applier();
    for set in [format!("{}", cpus[0]), format!("{},{}", cpus[0], cpus[1]), format!("{}", cpus[1])] {
        applier.make(&outlined(&on(set), &known)).expect("a cpuset");
        place(&mut applier, &[&vcpu]);
        assert_reserved(&vcpu, 2_000_000, 10_000_000);
    }
    assert!(applier.undo_all().is_empty());
    assert!(left_over(&known.host).is_empty());
}

#[test]
fn what_the_kernel_does_not_admit_is_explained() {
    let _alone = alone();
    let mut known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "two CPUs", "cpuset"]) || known.host.real_time.runtime_us.is_none() {
        return;
    }
    // As if this host had no limit.
    known.host.real_time = RealTime { runtime_us: None, period_us: 1_000_000 };
    known.host.fair_server.clear();
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let greedy = RESERVED.replace("\"2ms\"", "\"9990us\"");
    let vcpu = vcpu(false);
    let mut applier = applier();
    applier.make(&outlined(&format!("{greedy}\npin = {{ vcpu = \"{cpu}\" }}"), &known)).expect("a cpuset");
    let errors = lasting(&mut applier, &[&vcpu], |error| error.to_string().contains("admits"));
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    let told = error.to_string();
    assert!(told.contains("(0.999 of a CPU)") && told.contains("the kernel admits 0."), "{told}");
    assert!(error.is_passing() && error.of_thread() == Some(vcpu.thread.name.as_str()), "{told}");
    drop(applier);
    assert!(left_over(&known.host).is_empty());
}
