//! Refused requests, and their reasons.

use super::{host, outline, places, refusal, router};
use crate::{RealTime, SchedFacts, Version};

fn reserved(runtime: &str, period: &str, more: &str) -> String {
    format!(
        "sched = {{ vcpu = {{ policy = \"deadline\", runtime = \"{runtime}\", period = \"{period}\" }} }}\n{more}"
    )
}

const ON_1: &str = "pin = { vcpu = \"1\", vhost = \"0\" }";

#[test]
fn cpus_that_do_not_exist() {
    let text = router("edge", "pin = { vcpu = \"4\" }\naffinity = { vhost = \"0-7\" }");
    assert_eq!(
        refusal(&text, &host(4)),
        "f.toml:3: router.pin.vcpu: CPU 4 cannot be used on this host; CPUs: 0-3\n\
         f.toml:4: router.affinity.vhost: CPU 4 cannot be used on this host; CPUs: 0-3"
    );
}

#[test]
fn priorities_beyond_the_right_to_them() {
    let text = router("edge", "sched = { policy = \"fifo\", priority = 98 }");
    let mut known = host(2);
    known.host.priority = 10;
    assert_eq!(
        refusal(&text, &known),
        "f.toml:3: router.sched: priority 98 needs CAP_SYS_NICE, or a limit RLIMIT_RTPRIO of at least 98, and this process's is \
         10; run as root, or write policy = \"shares\""
    );
    known.host.priority = 98;
    assert_eq!(places(&outline(&text, &known)), ["edge/vcpu0 0", "edge/vhost 1"]);
    known.host.group_rt_us = Some(0);
    assert!(
        refusal(&text, &known).starts_with("f.toml:3: router.sched: cpu.rt_runtime_us of the control group")
    );
}

#[test]
fn real_time_on_the_only_cpu() {
    let text = router("edge", "sched = { vcpu = { policy = \"rr\", priority = 1 } }");
    assert_eq!(
        refusal(&text, &host(1)),
        "f.toml:3: router.sched.vcpu: edge/vcpu0: real time on the only CPU that there is would stop everything else on this \
         host while frames come; the kernel leaves others 50000 of each 1000000 µs (sched_rt_runtime_us 950000); write policy \
         = \"shares\""
    );
}

#[test]
fn a_real_time_thread_that_never_sleeps_beside_another() {
    let both = "spin = \"always\"\nsched = { vcpu = { policy = \"fifo\", priority = 98 } }\n";
    let text = router("edge", &format!("{both}pin = {{ vcpu = \"1\", vhost = \"1\" }}"));
    assert_eq!(
        refusal(&text, &host(2)),
        "f.toml:4: router.sched.vcpu: edge/vcpu0 never sleeps (spin = \"always\"), and edge/vhost on CPU 1 would never run; give \
         each a CPU, or write another spin"
    );
    outline(&router("edge", &format!("{both}{ON_1}")), &host(2));
}

#[test]
fn reservations_without_the_right_to_them() {
    let mut known = host(2);
    known.host.may_reserve = false;
    let told = refusal(&router("edge", &reserved("10ms", "100ms", "")), &known);
    assert!(told.starts_with("f.toml:3: router.sched.vcpu: a reservation needs CAP_SYS_NICE"), "{told}");
}

#[test]
fn periods_that_the_kernel_does_not_take() {
    let told = |period| refusal(&router("edge", &reserved("10us", period, "")), &host(2));
    assert_eq!(
        told("90us"),
        "f.toml:3: router.sched.vcpu: a period of 90 µs is beyond what this kernel takes, 100 to 4194304 µs \
         (sched_deadline_period_min_us, sched_deadline_period_max_us)"
    );
    assert!(told("5s").contains("a period of 5000000 µs"));
}

#[test]
fn more_than_there_is_of_a_cpu() {
    let text =
        router("edge", &reserved("170ms", "200ms", ON_1)) + &router("core", &reserved("3ms", "10ms", ON_1));
    assert_eq!(
        refusal(&text, &host(2)),
        "f.toml:14: router.sched.vcpu: reserved on CPU 1: edge/vcpu0 170ms/200ms = 0.850, core/vcpu0 3ms/10ms = 0.300; together \
         1.150, and the kernel admits 0.950: sched_rt_runtime_us 950000 / sched_rt_period_us 1000000"
    );
}

#[test]
fn the_kernels_own_reservation_counts() {
    let text = router("edge", &reserved("186ms", "200ms", ON_1));
    outline(&text, &host(2));
    let mut known = host(2);
    known.host.fair_server = [(0, (50_000_000, 1_000_000_000)), (1, (50_000_000, 1_000_000_000))].into();
    assert_eq!(
        refusal(&text, &known),
        "f.toml:3: router.sched.vcpu: reserved on CPU 1: edge/vcpu0 186ms/200ms = 0.930; together 0.930, and the kernel admits \
         0.900: sched_rt_runtime_us 950000 / sched_rt_period_us 1000000 less 0.050 of the kernel's own fair_server"
    );
}

#[test]
fn a_kernel_that_limits_nothing_admits_a_whole_cpu() {
    let mut known = host(2);
    known.host.real_time = RealTime { runtime_us: None, period_us: 1_000_000 };
    outline(&router("edge", &reserved("200ms", "200ms", ON_1)), &known);
    let text =
        router("edge", &reserved("200ms", "200ms", ON_1)) + &router("core", &reserved("1ms", "200ms", ON_1));
    assert!(
        refusal(&text, &known)
            .ends_with("together 1.005, and the kernel admits 1 CPU (sched_rt_runtime_us is -1)")
    );
}

#[test]
fn reservations_that_are_not_pinned_share_all_cpus() {
    let nine = |name| router(name, &reserved("90ms", "100ms", ""));
    let known = host(2);
    let two = nine("edge") + &nine("core");
    let placed = outline(&two, &known);
    assert!(placed.islands.is_empty());
    let told = refusal(&(two + &nine("wide")), &known);
    assert!(
        told.starts_with("f.toml:25: router.sched.vcpu: reserved on CPU 0-1: edge/vcpu0 90ms/100ms = 0.900, ")
            && told.ends_with("together 2.700, and the kernel admits 1.900: 2 x sched_rt_runtime_us 950000 / sched_rt_period_us 1000000"),
        "{told}"
    );
}

#[test]
fn reservations_that_are_not_pinned_need_every_cpu() {
    let mut known = host(4);
    known.topology.allowed = [1, 2].into();
    assert_eq!(
        refusal(&router("edge", &reserved("10ms", "100ms", "")), &known),
        "f.toml:3: router.sched.vcpu: edge/vcpu0: a reservation that is not pinned may move to every CPU, and this process may \
         only use 1-2 of 0-3; pin it"
    );
}

#[test]
fn pinned_reservations_need_exclusive_cpus() {
    let mut known = host(2);
    known.host.cpuset = Err("no cgroup hierarchy with the controller cpuset is mounted".to_owned());
    assert_eq!(
        refusal(&router("edge", &reserved("10ms", "100ms", ON_1)), &known),
        "f.toml:3: router.sched.vcpu: edge/vcpu0: a reservation on CPU 1 alone needs an exclusive cpuset, and there is none to be \
         had: no cgroup hierarchy with the controller cpuset is mounted; remove pin and affinity, and the kernel places it"
    );
    outline(&router("edge", &reserved("10ms", "100ms", "affinity = { vcpu = \"0-1\" }")), &known);
}

#[test]
fn exclusive_cpus_do_not_overlap() {
    let on = |cpus: &str| reserved("10ms", "100ms", &format!("affinity = {{ vcpu = \"{cpus}\" }}"));
    let told = refusal(&(router("edge", &on("0-1")) + &router("core", &on("1-2"))), &host(4));
    assert!(
        told.contains("reservations on CPU 1-2 and on CPU 0-1 are neither on the same CPUs nor on different"),
        "{told}"
    );
    assert_eq!(
        outline(&(router("edge", &on("0-1")) + &router("core", &on("2-3"))), &host(5)).islands.len(),
        2
    );
}

fn partitions(cpus: u32) -> SchedFacts {
    let mut known = host(cpus);
    if let Ok(hierarchy) = &mut known.host.cpuset {
        hierarchy.version = Version::V2;
    }
    known
}

#[test]
fn partitions_leave_a_cpu() {
    let both = "pin = { vcpu = \"0\", vhost = \"1\" }\nsched = { policy = \"deadline\", runtime = \"1ms\", period = \"9ms\" }";
    assert!(
        refusal(&router("edge", both), &partitions(2))
            .contains("no CPU would be left outside cpuset partitions")
    );
    outline(&router("edge", both), &partitions(3));
    outline(&router("edge", both), &host(2));
}

#[test]
fn who_is_pinned_to_a_partition_is_in_it() {
    let edge = router("edge", &reserved("1ms", "9ms", ON_1));
    let beside = |lines: &str| edge.clone() + &router("core", lines);
    let inside = |known: &SchedFacts| -> Vec<bool> {
        let outline = outline(&beside("pin = { vcpu = \"1\", vhost = \"0\" }"), known);
        outline.slots.iter().map(|slot| slot.schedule.island.is_some()).collect()
    };
    assert_eq!(inside(&partitions(2)), [true, false, true, false]);
    assert_eq!(inside(&host(2)), [true, false, false, false]);
    // A group would take it off again.
    let third = router(
        "wide",
        "affinity = { vcpu = \"0\", vhost = \"0\" }\nsched = { policy = \"shares\", weight = 2 }",
    );
    let placed = outline(&(beside("pin = { vcpu = \"1\", vhost = \"0\" }") + &third), &partitions(2));
    let groups: Vec<_> = placed.slots.iter().map(|slot| slot.schedule.group.as_deref()).collect();
    assert_eq!(groups, [None, Some("edge"), None, Some("core"), Some("wide"), Some("wide")]);
    let shares = "pin = { vcpu = \"1\" }\nsched = { policy = \"shares\", weight = 2 }";
    assert!(refusal(&beside(shares), &partitions(2)).contains("where no shares are"));
    assert!(refusal(&beside("affinity = { vcpu = \"0-1\" }"), &partitions(2)).contains("choose one side"));
}

#[test]
fn threads_without_a_place_keep_out_of_exclusive_cpus() {
    let text = router("edge", &reserved("1ms", "9ms", ON_1)) + &router("core", "vcpus = 4");
    let places = places(&outline(&text, &host(4)));
    assert!(places[2..].iter().all(|place| place.ends_with(" 0,2-3")), "{places:?}");
}

#[test]
fn shares_without_groups() {
    let text = router("edge", "sched = { policy = \"shares\", weight = 2 }");
    let mut known = host(2);
    known.host.cpu = Err("no cgroup hierarchy with the controller cpu is mounted".to_owned());
    assert_eq!(
        refusal(&text, &known),
        "f.toml:3: router.sched: there is no group to be had: no cgroup hierarchy with the controller cpu is mounted"
    );
}

#[test]
fn a_quota_above_that_of_the_groups_around_ours_is_refused() {
    let text = |quota: &str| {
        router("edge", &format!("sched = {{ policy = \"shares\", weight = 1, quota = {quota} }}"))
    };
    let mut known = host(2);
    outline(&text("2"), &known);
    known.host.quota_us = Some((150_000, 100_000));
    outline(&text("1.5"), &known);
    assert_eq!(
        refusal(&text("1.501"), &known),
        "f.toml:3: router.sched: a quota of 1.501 CPUs is more than the control group that this process is in has, 150000 µs of \
         each 100000 µs (cpu.cfs_quota_us, cpu.cfs_period_us), and the kernel refuses that; write less, or start from another \
         group"
    );
}
