use crate::{Counter, Group, PortCounters};

#[test]
fn adds_wrap_instead_of_panicking() {
    let c = Counter::new();
    c.add(u64::MAX);
    c.add_shared(2);
    assert_eq!(c.get(), 1);
}

#[test]
fn a_group_lists_each_field_once_under_its_own_name() {
    let port = PortCounters::default();
    port.drop_full.add(3);
    let mut seen = [("", 0); 16];
    let mut n = 0;
    port.each(&mut |name, value| {
        seen[n] = (name, value);
        n += 1;
    });
    assert_eq!(n, size_of::<PortCounters>() / size_of::<Counter>());
    assert_eq!(seen[9], ("drop_full", 3));
}

#[test]
fn a_group_explains_each_field() {
    assert_eq!(PortCounters::FIELDS.len(), size_of::<PortCounters>() / size_of::<Counter>());
    let (name, text) = PortCounters::FIELDS[0];
    assert_eq!((name, text.trim()), ("in_frames", "Frames that entered the switch at this port."));
}

#[test]
fn groups_add_up_field_by_field() {
    let (sum, other) = (PortCounters::default(), PortCounters::default());
    sum.moves.add(1);
    other.moves.add(2);
    other.in_bytes.add(5);
    sum.add_all(&other);
    assert_eq!((sum.moves.get(), sum.in_bytes.get(), sum.drop_full.get()), (3, 5, 0));
}
