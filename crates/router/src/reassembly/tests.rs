extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn key(identification: u32) -> Key {
    Key { nic: 0, source: Ip::v4(1), destination: Ip::v4(2), protocol: Some(17), identification }
}

fn part(at: u32, len: u32, more: bool) -> Part<u32> {
    Part { buffer: at, at, len, place: 34, more }
}

/// Adds a part, with room made as the router does; returns how many were lost for that.
fn add(all: &mut Reassembly<u32>, key: Key, part: Part<u32>) -> (usize, Collected<u32>) {
    let lost = all.make_room(&key).map_or(0, |parts| parts.len());
    (lost, all.add(key, part, 1000))
}

#[test]
fn an_overlap_loses_the_whole_datagram() {
    let mut all = Reassembly::new();
    assert!(matches!(add(&mut all, key(1), part(0, 16, true)).1, Collected::Waits));
    assert!(matches!(add(&mut all, key(1), part(8, 16, true)).1, Collected::Lost(parts) if parts.len() == 2));
    assert_eq!((all.held(), all.deadline()), (0, None));
}

#[test]
fn a_copy_is_all_that_is_lost() {
    let mut all = Reassembly::new();
    for copy in [false, true] {
        let outcome = add(&mut all, key(1), part(8, 8, false)).1;
        assert_eq!(matches!(outcome, Collected::Lost(parts) if parts.len() == 1), copy);
    }
    assert_eq!(all.held(), 1);
    assert!(matches!(add(&mut all, key(1), part(0, 8, true)).1, Collected::Whole(parts) if parts.len() == 2));
}

#[test]
fn what_lies_behind_the_end_or_ends_twice_is_lost() {
    for (first, second) in [
        (part(8, 8, false), part(16, 8, true)),
        (part(8, 8, false), part(16, 8, false)),
        (part(16, 8, true), part(8, 3, false)),
        (part(0, 8, true), part(65_528, 8, false)),
        (part(0, 8, true), part(8, 7, true)),
    ] {
        let mut all = Reassembly::new();
        assert!(matches!(add(&mut all, key(1), first).1, Collected::Waits));
        assert!(matches!(add(&mut all, key(1), second).1, Collected::Lost(_)));
    }
}

#[test]
fn a_datagram_is_as_long_as_the_length_field_of_its_family_tells() {
    let six = Key { source: Ip::v6(1 << 64), destination: Ip::v6(2 << 64), ..key(1) };
    for (key, largest) in [(key(1), 65_515), (six, 65_535)] {
        for too_long in [false, true] {
            let mut all = Reassembly::new();
            let last = part(65_504, largest - 65_504 + u32::from(too_long), false);
            assert_eq!(matches!(add(&mut all, key, last).1, Collected::Lost(_)), too_long);
        }
    }
}

#[test]
fn the_oldest_makes_room_and_what_is_late_expires() {
    let mut all = Reassembly::new();
    for n in 0..9 {
        let (lost, _) = add(&mut all, key(n), part(0, 8, true));
        assert_eq!(lost, usize::from(n == 8));
    }
    assert_eq!((all.held(), all.deadline()), (8, Some(1000 + LIFE)));
    assert!(all.expired(LIFE + 999).is_none());
    assert_eq!(core::iter::from_fn(|| all.expired(LIFE + 1000)).count(), 8);
}

proptest! {
    /// Fragments in any order, among those of another datagram, make up the whole one.
    #[test]
    fn any_order_will_do(lens in prop::collection::vec(1u32..5, 1..20), seed: u64) {
        let mut at = 0;
        let mut parts: Vec<(u32, u32, bool)> = Vec::new();
        for (n, units) in lens.iter().enumerate() {
            parts.push((at, units * 8, n + 1 < lens.len()));
            at += units * 8;
        }
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|n| (*n as u64 + 1).wrapping_mul(seed | 1));
        let mut all = Reassembly::new();
        add(&mut all, key(2), part(0, 8, true));
        for (n, which) in order.iter().enumerate() {
            let (at, len, more) = parts[*which];
            match add(&mut all, key(1), part(at, len, more)).1 {
                Collected::Whole(whole) => {
                    prop_assert_eq!(n + 1, parts.len());
                    let read: Vec<_> = whole.iter().map(|part| (part.at, part.len, part.more)).collect();
                    prop_assert_eq!(&read, &parts);
                }
                Collected::Waits => prop_assert!(n + 1 < parts.len()),
                Collected::Lost(_) => prop_assert!(false, "none overlaps"),
            }
        }
        prop_assert_eq!(all.held(), 1);
    }
}
