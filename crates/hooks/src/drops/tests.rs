use super::*;

#[test]
fn an_interface_is_one_key() {
    let key = |namespace, index| Interface { namespace, index }.key();
    assert_eq!(key(0xf000_0001, 7), 0xf000_0001_0000_0007);
    assert_ne!(key(1, 2), key(2, 1));
}

#[test]
fn places_are_given_and_taken_back() {
    let Some(mut drops) = crate::granted(DropCounters::start(2)) else { return };
    let interface = |index| Interface { namespace: 1, index };
    drops.watch(interface(1)).expect("there is room");
    drops.watch(interface(2)).expect("there is room");
    drops.watch(interface(1)).expect("it is watched already");
    let line = drops.watch(interface(3)).expect_err("there is no room").to_string();
    assert_eq!(line, "the number of interfaces is 3, expected 1 to 2");
    drops.forget(interface(1));
    drops.forget(interface(9));
    assert_eq!(drops.counted(interface(1)).expect("it is told"), None);
    drops.watch(interface(3)).expect("there is room again");
    assert_eq!(drops.counted(interface(3)).expect("it is told"), Some(BTreeMap::new()));
}

#[test]
fn a_place_that_is_given_anew_begins_with_nothing() {
    let Some(mut drops) = crate::granted(DropCounters::start(1)) else { return };
    let interface = |index| Interface { namespace: 1, index };
    drops.watch(interface(1)).expect("there is room");
    let mut words = [0_u64; REASONS as usize];
    (words[2], words[REASONS as usize - 1]) = (5, 6);
    let octets: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    drops.counters.put(0, &octets).expect("it is ours");
    let counted = drops.counted(interface(1)).expect("it is told").expect("it is watched");
    assert_eq!(counted.get("other"), Some(&6));
    assert_eq!(counted.values().sum::<u64>(), 11);
    drops.forget(interface(1));
    drops.watch(interface(2)).expect("there is room");
    assert_eq!(drops.counted(interface(2)).expect("it is told"), Some(BTreeMap::new()));
}
