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
