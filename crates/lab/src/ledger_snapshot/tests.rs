use ledger::NicDirection;

use super::Snapshot;

fn of(group: &NicDirection) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.take("wan.rx", group);
    snapshot
}

#[test]
fn a_difference_counts_from_the_earlier_list() {
    let group = NicDirection::default();
    group.frames.add(10);
    let earlier = of(&group);
    group.frames.add(32);
    group.drop_no_buffer.add(3);
    group.drop_too_long.add(4);
    let change = of(&group).since(&earlier);
    assert_eq!(change.get("wan.rx.frames"), Some(32));
    assert_eq!(change.total("drop_"), 7);
    assert_eq!(change.get("frames"), None);
    assert_eq!(of(&group).since(&Snapshot::new()).get("wan.rx.frames"), Some(42));
}

#[test]
fn lists_of_the_same_counters_add_up() {
    let group = NicDirection::default();
    group.bytes.add(5);
    let mut sum = of(&group);
    sum.add(&of(&group));
    assert_eq!(sum.get("wan.rx.bytes"), Some(10));
    let mut other = Snapshot::new();
    other.take("", &group);
    sum.add(&other);
    assert_eq!(sum.get("bytes"), Some(5));
}

#[test]
fn json_keeps_the_order_of_declaration() {
    let group = NicDirection::default();
    group.frames.add(1);
    let json = serde_json::to_string(&of(&group)).unwrap();
    assert!(json.starts_with(r#"{"wan.rx.frames":1,"wan.rx.bytes":0,"wan.rx.batches":0,"#), "{json}");
}
