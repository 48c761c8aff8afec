use super::*;

#[test]
fn nics_are_known_by_their_counters() {
    let names = [
        "edge.lan.rx.frames",
        "edge.wan.rx.frames",
        "edge.wan.rx.bytes",
        "edge.wan.tx.frames",
        "edge.vcpu0.wan.rx_frames",
        "edge2.far.rx.frames",
        "switch.lan.edge.wan.rx.frames",
    ];
    let counters = names.map(|name| (name.to_owned(), 1)).into();
    let counters = Counters { counters, ..Counters::default() };
    assert_eq!(nics(&counters, "edge"), ["lan", "wan"]);
    assert_eq!(nics(&counters, "edge2"), ["far"]);
    assert!(nics(&counters, "edg").is_empty());
}
