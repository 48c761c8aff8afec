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

#[test]
fn an_object_for_each_interval_says_of_which_run_it_is() {
    let at = |at_ns, frames| {
        let counters = [("edge.wan.rx.frames".to_owned(), frames)].into();
        let cpu_ns = [("edge/vcpu0".to_owned(), at_ns / 2)].into();
        Counters { at_ns, counters, cpu_ns, ..Counters::default() }
    };
    let text = line("lab", &Interval::between(&at(5, 1), &at(1_000_000_005, 8))).expect("JSON");
    assert_eq!(text.lines().count(), 1);
    support::schema::check_lines("top", &text);
    assert!(text.contains(r#""run":"lab""#), "{text}");
}

#[test]
fn seconds_that_were_missed_are_not_made_up_for() {
    let start = Instant::now();
    assert_eq!(following(start, start + SECOND / 2), start + SECOND, "however long the reading took");
    let late = start + 60 * SECOND;
    assert_eq!(following(start, late), late + SECOND);
}
