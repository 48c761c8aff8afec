use super::counters_of;

#[test]
fn the_counters_of_one_router_are_told_from_those_of_others() {
    let names =
        ["edge.wan.rx.frames", "edge2.wan.rx.frames", "edge/wan.passes", "switch.lan.edge.wan.in_frames"];
    let others = ["switch.edge.core.wan.in_frames", "ringroad/clock"];
    let all = names.iter().chain(&others).map(|name| ((*name).to_owned(), 1)).collect();
    let cpu_ns = [("edge/vcpu0".to_owned(), 1), ("edge2/vcpu0".to_owned(), 1)].into();
    let counters =
        counters_of(api::Counters { at_ns: 5, counters: all, cpu_ns, ..Default::default() }, "edge");
    assert_eq!(
        counters.counters.keys().map(String::as_str).collect::<Vec<_>>(),
        ["edge.wan.rx.frames", "edge/wan.passes", "switch.lan.edge.wan.in_frames"]
    );
    assert_eq!(counters.cpu_ns.keys().collect::<Vec<_>>(), ["edge/vcpu0"]);
}

#[test]
fn the_counters_of_a_group_are_those_of_its_members_as_well() {
    let names =
        ["core.wan.tap.read", "core/group.passes", "core_0.wan.rx.frames", "switch.lan.core_1.wan.in_frames"];
    let all = names.iter().chain(&["core2.wan.tap.read"]).map(|name| ((*name).to_owned(), 1));
    let all = api::Counters { at_ns: 5, counters: all.collect(), ..Default::default() };
    let of = |name: &str| counters_of(all.clone(), name).counters.into_keys().collect::<Vec<_>>();
    assert_eq!(of("core"), names);
    assert_eq!(of("core_0"), ["core_0.wan.rx.frames"]);
}
