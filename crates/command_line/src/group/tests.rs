use super::*;

fn router(name: &str, state: State, member: Option<&str>) -> RouterStatus {
    RouterStatus {
        name: name.to_owned(),
        engine: "kvm".to_owned(),
        state,
        since_ms: 10,
        restarts: 1,
        reason: None,
        pid: None,
        member: member.map(str::to_owned),
        threads: Vec::new(),
    }
}

#[test]
fn members_are_known_by_their_names() {
    assert_eq!(
        ["core_0", "core_63", "core", "core_", "_1", "core_x"].map(of),
        [Some("core"), Some("core"), None, None, None, None]
    );
    assert!(is_meant("core_1", "core") && is_meant("core_1", "core_1") && !is_meant("core_1", "cor"));
    assert_eq!(["core_lb0", "core_lb15", "core_lb", "core_3"].map(of), [None, None, None, Some("core")]);
    assert_eq!(
        ["core_lb0", "core_lb", "core_3", "core"].map(around),
        [Some("core"), None, Some("core"), None]
    );
    assert!(
        is_meant("core_lb1", "core") && is_meant("core_lb1", "core_lb1") && !is_meant("core_lb1", "core_lb0")
    );
}

#[test]
fn balancers_that_are_machines_are_parts_of_their_group() {
    let routers = [
        router("core_0", State::Running, Some("serving, 256 of 256 buckets")),
        router("core_lb0", State::Running, Some("serving, 2 of 2 links")),
        router("core_lb1", State::Waiting, None),
        router("edge", State::Running, None),
        router("core_1", State::Running, Some("parked, 0 of 256 buckets")),
    ];
    let folded = folded(&routers);
    let names: Vec<&str> = folded.iter().map(|router| router.name.as_str()).collect();
    assert_eq!(names, ["core", "edge"]);
    assert_eq!(
        folded[0].member.as_deref(),
        Some("2 members: 1 parked, 1 serving; 2 balancers: 1 serving, 1 waiting")
    );
    assert_eq!(folded[0].restarts, 4);
}

#[test]
fn a_group_is_one_router() {
    let routers = [
        router("edge", State::Stopped, None),
        router("core_0", State::Running, Some("serving, 4 of 8 queues")),
        router("core_1", State::Waiting, Some("suspect, 0 of 8 queues")),
        router("side_0", State::Failed, None),
    ];
    let folded = folded(&routers);
    let names: Vec<&str> = folded.iter().map(|router| router.name.as_str()).collect();
    assert_eq!(names, ["edge", "core", "side"]);
    assert_eq!((folded[1].state, folded[1].restarts), (State::Running, 2));
    assert_eq!(folded[1].member.as_deref(), Some("2 members: 1 serving, 1 suspect"));
    assert_eq!((folded[2].state, folded[2].member.as_deref()), (State::Failed, Some("1 members: 1 failed")));
    assert_eq!(folded[0], routers[0]);
}

#[test]
fn counters_of_members_are_added_up() {
    let values = |values: &[(&str, u64)]| -> BTreeMap<String, u64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let counters = values(&[
        ("core_0.wan.rx.frames", 3),
        ("core_1.wan.rx.frames", 4),
        ("core.wan.tap.read.frames", 7),
        ("edge.wan.rx.frames", 1),
        ("switch.core_wan.core_0.wan.out_frames", 9),
    ]);
    let cpu_ns = values(&[("core_0/vcpu0", 5), ("core_1/vcpu0", 6)]);
    let sum = added_up(Counters { counters, cpu_ns, ..Counters::default() });
    assert_eq!(
        sum.counters,
        values(&[
            ("core.wan.rx.frames", 7),
            ("core.wan.tap.read.frames", 7),
            ("edge.wan.rx.frames", 1),
            ("switch.core_wan.core_0.wan.out_frames", 9),
        ])
    );
    assert_eq!(sum.cpu_ns, values(&[("core/vcpu0", 11)]));
}

#[test]
fn a_member_that_was_restarted_or_has_left_does_not_make_a_sum_decrease() {
    let reading = |counters: &[(&str, u64)], cpu_ns: &[(&str, u64)]| {
        let values = |values: &[(&str, u64)]| -> BTreeMap<String, u64> {
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        Counters { counters: values(counters), cpu_ns: values(cpu_ns), ..Counters::default() }
    };
    let before = reading(
        &[("core_0.wan.rx.frames", 1000), ("core_1.wan.rx.frames", 900), ("core_2.wan.rx.frames", 800)],
        &[("core_0/vcpu0", 100), ("core_1/vcpu0", 90)],
    );
    let after = reading(
        &[("core_0.wan.rx.frames", 1005), ("core_1.wan.rx.frames", 7)],
        &[("core_0/vcpu0", 103), ("core_1/vcpu0", 2), ("core_3/vcpu0", 50)],
    );
    let (before, after) = both_added_up(before, after);
    assert_eq!(after.counters["core.wan.rx.frames"] - before.counters["core.wan.rx.frames"], 12);
    assert_eq!(after.cpu_ns["core/vcpu0"] - before.cpu_ns["core/vcpu0"], 5);
}
