//! Placement of threads.

use super::{host, outline, places, refusal, router};
use crate::{Class, CpuNeighbours, Direction, Irq, Load, Placement, SchedFacts, Slot};

#[test]
fn a_router_has_a_cpu_for_each_thread() {
    let outline = outline(&router("edge", ""), &host(4));
    assert_eq!(places(&outline), ["edge/vcpu0 0", "edge/vhost 1"]);
    assert!(
        outline.slots.iter().all(
            |slot| slot.neighbours == CpuNeighbours::Nobody && slot.schedule.placement == Placement::Auto
        )
    );
    assert!(!outline.is_empty());
}

#[test]
fn too_few_cpus_are_left_to_the_kernel() {
    let text = router("edge", "") + &router("core", "");
    let outline = outline(&text, &host(3));
    assert_eq!(places(&outline), ["edge/vcpu0 any", "edge/vhost any", "core/vcpu0 any", "core/vhost any"]);
    assert!(outline.slots.iter().all(|slot| slot.neighbours == CpuNeighbours::Nobody), "nobody is confined");
    assert!(outline.is_empty());
}

#[test]
fn loads_decide_where_cpus_are_few() {
    let text = router("edge", "") + &router("core", "");
    let threads = [("edge/vcpu0", 0.9), ("edge/vhost", 0.8), ("core/vcpu0", 0.1), ("core/vhost", 0.2)];
    let threads = threads.map(|(name, load)| (name.to_owned(), load)).into();
    let known = SchedFacts { load: Load { threads, ..Load::default() }, ..host(2) };
    let outline = outline(&text, &known);
    assert_eq!(places(&outline), ["edge/vcpu0 0", "edge/vhost 1", "core/vcpu0 0", "core/vhost 1"]);
    assert!(outline.slots.iter().all(|slot| slot.neighbours != CpuNeighbours::Nobody));
}

#[test]
fn threads_of_the_kernel_that_take_in_what_comes_are_placed_like_others() {
    let file = |lines: &str| {
        format!(
            "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{lines}\n\
             [[router.nic]]\nname = \"a\"\nattach = \"veth:rr-a\"\n[[router.nic]]\nname = \"m\"\nattach = \"macvlan:eth0\"\n\
             [[router.nic]]\nname = \"b\"\nattach = \"tap:rr-b\"\n"
        )
    };
    let placed =
        outline(&file("pin = { vhost = \"1,3\" }\nsched = { policy = \"shares\", weight = 2 }"), &host(4));
    assert_eq!(places(&placed), ["edge/a-napi0 1", "edge/b-napi0 3"]);
    assert!(
        placed.slots.iter().all(|slot| slot.is_vhost() && slot.schedule.group.as_deref() == Some("edge"))
    );
    let second = &placed.slots[1];
    assert_eq!(second.class, Class::Napi { nic: 2, queue: 0 });
    assert_eq!(placed.slot("edge", &Class::Napi { nic: 2, queue: 5 }), Some(second), "another queue of it");
    assert_eq!(placed.slot("edge", &Class::Napi { nic: 1, queue: 0 }), None);
    assert_eq!(
        places(&outline(&file("guarantee = \"1kpps\"").replace("macvlan:eth0", "veth:rr-m"), &host(4))),
        ["edge/a-napi0 0", "edge/m-napi0 1", "edge/b-napi0 2"]
    );
    assert_eq!(places(&outline(&file(""), &host(4))), [""; 0], "it is not threaded");
}

#[test]
fn what_threads_of_the_kernel_cannot_have_is_refused() {
    let file = |lines: &str| {
        format!(
            "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{lines}\n\
             [[router.nic]]\nname = \"a\"\nattach = \"veth:rr-a\"\n"
        )
    };
    let mut known = host(4);
    known.host.kernel = (6, 18);
    let refused = refusal(&file("sched = { policy = \"shares\", weight = 1, quota = 0.5 }"), &known);
    assert!(refused.contains("a kernel router forwards by such; remove quota"), "{refused}");
    known.host.not_for_kernel = Some("they are in the root".to_owned());
    let refused = refusal(&file("sched = { policy = \"shares\", weight = 2 }"), &known);
    assert_eq!(
        refused,
        "f.toml:4: router.sched: they are in the root; start from the root group, or remove this key"
    );
    // Next to a router with shares, the kernel router stays outside of the groups.
    let text = file("threaded = true") + &router("core", "sched = { policy = \"shares\", weight = 2 }");
    let outline = outline(&text, &known);
    let groups: Vec<Option<&str>> = outline.slots.iter().map(|slot| slot.schedule.group.as_deref()).collect();
    assert_eq!(groups, [None, Some("core"), Some("core")]);
}

#[test]
fn threads_of_the_kernel_that_are_hidden_cannot_be_placed() {
    let mut known = host(4);
    known.host.sees_kernel = false;
    let file = |lines: &str| {
        format!(
            "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{lines}\n\
             [[router.nic]]\nname = \"a\"\nattach = \"veth:rr-a\"\n"
        )
    };
    for (key, lines) in [
        ("pin.vhost", "pin = { vhost = \"0\" }"),
        ("sched", "sched = { policy = \"fifo\", priority = 2 }"),
        ("guarantee", "guarantee = \"1kpps\""),
    ] {
        let line = format!(
            "f.toml:4: router.{key}: it applies to kernel threads, which the PID namespace of this process hides; start \
             outside of it, or remove this key"
        );
        assert_eq!(refusal(&file(lines), &known), line);
    }
    for lines in ["", "threaded = true", "affinity = { vhost = \"free\" }"] {
        outline(&file(lines), &known);
    }
}

#[test]
fn no_load_is_watched_for_vcpus_that_are_not_there() {
    let is_automatic = |lines: &str| {
        let text = format!(
            "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{lines}\n\
             [[router.nic]]\nname = \"a\"\nattach = \"veth:rr-a\"\n"
        );
        crate::is_automatic(&super::plan(&text))
    };
    assert!(!is_automatic("") && !is_automatic("pin = { vhost = \"0\" }"));
    assert!(is_automatic("guarantee = \"1kpps\""));
}

#[test]
fn a_queue_is_known_by_the_name_of_its_thread() {
    assert_eq!(crate::first_queue("edge/wan-napi3"), Some(("edge/wan-napi0".to_owned(), 3)));
    assert_eq!(crate::first_queue("edge/a-napi-napi0"), Some(("edge/a-napi-napi0".to_owned(), 0)));
    for name in ["edge/wan", "edge/wan-napi", "edge/wan-napix", "edge/vhost"] {
        assert_eq!(crate::first_queue(name), None, "{name}");
    }
}

#[test]
fn what_is_pinned_is_left_where_it_is() {
    let text = router("edge", "vcpus = 3\npin = { vcpu = \"1,3\" }\nvhost = \"split\"");
    assert_eq!(
        places(&outline(&text, &host(8))),
        [
            "edge/vcpu0 1",
            "edge/vcpu1 3",
            "edge/vcpu2 1",
            "edge/a-rx 0",
            "edge/a-tx 2",
            "edge/b-rx 4",
            "edge/b-tx 5"
        ]
    );
}

#[test]
fn a_cpu_that_others_take_is_not_free() {
    let load = Load { cpus: [(0, 0.9), (1, 0.3)].into(), ..Load::default() };
    let known = SchedFacts { load, ..host(4) };
    let placed = outline(&router("edge", ""), &known);
    assert_eq!(places(&placed), ["edge/vcpu0 2", "edge/vhost 3"]);
    let note = "no thread is placed on CPU 0 automatically: others keep it busy for 90 % of the time";
    assert_eq!(placed.notes, [note]);
    // No thread is placed, or all are placed by the file: there is nothing to remark.
    let pinned = router("edge", "pin = { vcpu = \"0\", vhost = \"1\" }");
    assert!(outline(&pinned, &known).notes.is_empty());
}

#[test]
fn a_promise_has_a_cpu_even_where_others_are_busy() {
    let load = Load { cpus: [(0, 0.9), (1, 0.7)].into(), ..Load::default() };
    let known = SchedFacts { load, ..host(3) };
    let text = router("edge", "guarantee = \"1kpps\"") + &router("core", "pin = { vcpu = \"2\" }");
    assert_eq!(
        places(&outline(&text, &known)),
        ["edge/vcpu0 any", "edge/vhost any", "core/vcpu0 2", "core/vhost any"],
        "three threads on two CPUs"
    );
    let placed = outline(&router("edge", "guarantee = \"1kpps\""), &known);
    assert_eq!(places(&placed), ["edge/vcpu0 2", "edge/vhost 1"]);
    let wide = outline(&router("edge", ""), &known);
    assert_eq!(places(&wide), ["edge/vcpu0 any", "edge/vhost any"]);
    assert_eq!(
        placed.notes,
        [
            "no thread is placed on CPU 0 automatically: others keep it busy for 90 % of the time",
            "edge/vhost is placed on CPU 1, for want of a better one: others keep it busy for 70 % of the time"
        ]
    );
}

#[test]
fn who_is_placed_keeps_out_of_the_way_of_those_who_may_come() {
    let text = router("edge", "vcpus = 2\naffinity = { vcpu = \"0-1\" }");
    assert_eq!(places(&outline(&text, &host(4))), ["edge/vcpu0 0-1", "edge/vcpu1 0-1", "edge/vhost 2"]);
    let few = outline(&text, &host(2));
    assert_eq!(places(&few), ["edge/vcpu0 0-1", "edge/vcpu1 0-1", "edge/vhost 0"]);
    assert!(
        few.slots.iter().all(|slot| slot.neighbours == CpuNeighbours::Others),
        "three threads on two CPUs"
    );
}

#[test]
fn full_cores_come_before_hardware_threads_and_one_cache_before_two() {
    let mut known = host(8);
    for cpu in &mut known.topology.cpus {
        (cpu.core, cpu.cache) = (cpu.number % 4, cpu.number % 2);
    }
    // Cores 0/4, 1/5, 2/6, 3/7; one cache for the even and one for the odd CPUs.
    assert_eq!(places(&outline(&router("edge", ""), &known)), ["edge/vcpu0 0", "edge/vhost 2"]);
    let three = router("edge", "") + &router("core", "") + &router("wide", "");
    let six = places(&outline(&three, &known));
    assert_eq!(six[2..4], ["core/vcpu0 1", "core/vhost 3"]);
    assert_eq!(six[4..], ["wide/vcpu0 4", "wide/vhost 6"]);
}

#[test]
fn isolated_cpus_are_for_who_names_them() {
    let mut known = host(4);
    known.topology.cpus[1].isolated = true;
    assert_eq!(places(&outline(&router("edge", ""), &known)), ["edge/vcpu0 0", "edge/vhost 2"]);
    let named = router("edge", "pin = { vcpu = \"1\" }");
    assert_eq!(places(&outline(&named, &known)), ["edge/vcpu0 1", "edge/vhost 0"]);
    let many = router("edge", "vcpus = 8");
    assert!(places(&outline(&many, &known)).iter().all(|place| place.ends_with(" 0,2-3")));
}

#[test]
fn exclusive_cpus_of_other_runs_are_not_used_automatically() {
    let known = SchedFacts { taken: [0, 2].into(), ..host(4) };
    assert_eq!(places(&outline(&router("edge", ""), &known)), ["edge/vcpu0 1", "edge/vhost 3"]);
    let named = router("edge", "pin = { vcpu = \"2\" }");
    assert_eq!(places(&outline(&named, &known)), ["edge/vcpu0 2", "edge/vhost 1"]);
    let reserved = "pin = { vcpu = \"2\" }\n\
        sched = { vcpu = { policy = \"deadline\", runtime = \"1ms\", period = \"10ms\" } }";
    let held = outline(&router("edge", reserved), &known);
    assert!(known.holding(&held).taken.iter().eq([&0]), "its own are not taken");
}

#[test]
fn only_cpus_that_a_cpuset_leaves_are_used() {
    let mut known = host(8);
    known.topology.allowed = [5, 6].into();
    assert_eq!(places(&outline(&router("edge", ""), &known)), ["edge/vcpu0 5", "edge/vhost 6"]);
}

#[test]
fn affinity_and_freedom() {
    let text = router("edge", "affinity = { vcpu = \"0-1\", vhost = \"free\" }");
    let outline = outline(&text, &host(4));
    assert_eq!(places(&outline), ["edge/vcpu0 0-1", "edge/vhost any"]);
    let placements: Vec<Placement> = outline.slots.iter().map(|slot| slot.schedule.placement).collect();
    assert_eq!(placements, [Placement::Affinity, Placement::Free]);
}

#[test]
fn who_shares_a_cpu_is_not_alone() {
    let text = router("edge", "pin = { vcpu = \"1\", vhost = \"1\" }");
    let shared = outline(&text, &host(2));
    let vhost = Class::Vhost { nic: None, direction: None, pair: None };
    let neighbours = |class| shared.slot("edge", class).expect("a slot").neighbours;
    assert_eq!(
        (neighbours(&Class::Vcpu(0)), neighbours(&vhost)),
        (CpuNeighbours::Others, CpuNeighbours::Guest)
    );
    let text = router("edge", "vcpus = 3\naffinity = { vcpu = \"0-1\" }\npin = { vhost = \"2\" }");
    let crowded = outline(&text, &host(3));
    assert!(!crowded.is_alone("edge", &Class::Vcpu(2)), "three threads on two CPUs");
    assert!(crowded.is_alone("edge", &vhost));
    let text = [
        router("edge", "pin = { vcpu = \"1\", vhost = \"0\" }"),
        router("core", "pin = { vcpu = \"1\", vhost = \"0\" }"),
    ];
    let apart = outline(&text.concat(), &host(2));
    let is_vhost = |slot: &&Slot| matches!(slot.class, Class::Vhost { .. });
    assert!(
        apart.slots.iter().filter(is_vhost).all(|slot| slot.neighbours == CpuNeighbours::Others),
        "its vCPU is elsewhere"
    );
}

#[test]
fn threads_are_known_by_what_they_serve() {
    let class = |lines: &str| -> Vec<Class> {
        let outline = outline(&router("edge", lines), &host(16));
        outline
            .slots
            .into_iter()
            .map(|slot| slot.class)
            .skip_while(|class| matches!(class, Class::Vcpu(_)))
            .collect()
    };
    let vhost = |nic, direction, pair| Class::Vhost { nic, direction, pair };
    assert_eq!(class("vhost = \"per-nic\""), [vhost(Some(0), None, None), vhost(Some(1), None, None)]);
    let split = class("vhost = \"split\"");
    assert_eq!(split[1], vhost(Some(0), Some(Direction::Tx), None));
    assert_eq!(split.len(), 4);
    let pairs = class("vhost = \"per-queue\"\nvcpus = 2");
    assert_eq!(pairs, [vhost(None, None, Some(0)), vhost(None, None, Some(1))]);
}

#[test]
fn groups_are_made_for_all_as_soon_as_one_has_shares() {
    let shares = "sched = { policy = \"shares\", weight = 2, quota = 0.5 }";
    let text = router("edge", shares) + &router("core", "");
    let text = text + &router("fast", "sched = { vhost = { policy = \"fifo\", priority = 9 } }");
    let text = text + &router("wide", "sched = { vhost = { policy = \"shares\", weight = 0.5 } }");
    let outline = outline(&text, &host(2));
    let groups: Vec<String> = outline
        .slots
        .iter()
        .map(|slot| format!("{} {}", slot.name, slot.schedule.group.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        groups,
        [
            "edge/vcpu0 edge",
            "edge/vhost edge",
            "core/vcpu0 core",
            "core/vhost core",
            "fast/vcpu0 fast",
            "fast/vhost -",
            "wide/vcpu0 wide",
            "wide/vhost wide.vhost"
        ]
    );
    let weights: Vec<(&str, u32, Option<u32>)> = outline
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.shares.weight, group.shares.quota))
        .collect();
    assert_eq!(weights[0], ("edge", 200, Some(500)));
    assert_eq!(weights[1], ("core", 100, None));
    assert_eq!(weights.last(), Some(&("wide.vhost", 50, None)));
}

#[test]
fn interrupts_go_to_a_cpu_that_nobody_else_has() {
    let text = router("edge", "").replacen("\"null\"", "\"macvtap:eth0\"", 1);
    let irqs = vec![Irq { number: 24, name: "eth0-rx-0".to_owned() }];
    let known = |cpus| SchedFacts { interrupts: [("eth0".to_owned(), irqs.clone())].into(), ..host(cpus) };
    let moved = outline(&text, &known(3)).to_string();
    assert!(moved.contains("interrupt 24 (eth0 eth0-rx-0) to CPU 2\n"), "{moved}");
    let left = outline(&text, &known(2)).to_string();
    assert!(left.contains("note: interrupts 24 of eth0 stay where they are"), "{left}");
}

#[test]
fn what_check_prints() {
    let text = router(
        "edge",
        "pin = { vcpu = \"1\", vhost = \"0\" }\nsched = { vcpu = { policy = \"deadline\", runtime = \"170ms\", \
         period = \"200ms\" }, vhost = { policy = \"rr\", priority = 7 } }",
    );
    assert_eq!(
        outline(&text, &host(2)).to_string(),
        "thread edge/vcpu0 on CPU 1 (pin), deadline 170ms of 200ms (0.850 of a CPU)\n\
         thread edge/vhost on CPU 0 (pin), rr 7\n\
         cpuset CPU 1: exclusive, 0.850 of 0.950 reserved\n\
         note: of a CPU that real-time threads want wholly the kernel leaves others 50000 of each 1000000 µs \
         (sched_rt_runtime_us 950000)\n"
    );
}

#[test]
fn balancers_are_pinned_from_the_end_of_the_set_and_left_alone_without_one() {
    let file = |lines: &str| {
        format!(
            "[[group]]\nname = 'core'\nkind = 'multistage'\nbackends = 2\nbalancers = 2\n{lines}\n\
             [[group.nic]]\nname = 'a'\nattach = 'tap:a'\n[[group.nic]]\nname = 'b'\nattach = 'tap:b'\n"
        )
    };
    let balancers = |lines: &str, cpus: u32| {
        let places = places(&outline(&file(lines), &host(cpus)));
        places.into_iter().filter(|place| place.starts_with("core/")).collect::<Vec<_>>()
    };
    assert_eq!(balancers("pin = { vhost = '0-3' }", 4), ["core/lb0 3", "core/lb1 2"]);
    assert_eq!(balancers("pin = { vhost = '1' }", 2), ["core/lb0 1", "core/lb1 1"]);
    assert_eq!(balancers("", 8), ["core/lb0 any", "core/lb1 any"]);
    // Each is found by its own class, and so gets its own CPU.
    let placed = outline(&file("pin = { vhost = '0-3' }"), &host(4));
    let found = [0, 1, 2].map(|number| placed.slot("core", &Class::Balancer(number)));
    assert_eq!(found.map(|slot| slot.and_then(Slot::only_cpu)), [Some(3), Some(2), None]);
}
