extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn faults(list: &[u8]) -> Vec<Result<u8, usize>> {
    let walk = Walk { list, at: 0 };
    walk.map(|option| option.and_then(|option| examine(list, &option).map(|()| option.kind))).collect()
}

#[test]
fn what_is_well_formed_and_what_is_not() {
    let good: [&[u8]; 7] = [
        &[],
        &[1, 1, 0, 9],
        &[7, 7, 4, 0, 0, 0, 0],
        &[7, 7, 8, 1, 2, 3, 4],
        &[68, 8, 5, 0, 0, 0, 0, 0],
        &[68, 12, 5, 3, 1, 2, 3, 4, 0, 0, 0, 0],
        &[148, 4, 0, 0],
    ];
    for list in good {
        assert!(faults(list).iter().all(Result::is_ok), "{list:?}");
    }
    let bad: [(&[u8], usize); 8] = [
        (&[7], 0),
        (&[1, 7, 1, 0], 1),
        (&[7, 8, 4, 0, 0, 0, 0], 0),
        (&[7, 2, 0, 0], 1),
        (&[7, 7, 3, 0, 0, 0, 0], 2),
        (&[7, 7, 6, 0, 0, 0, 0], 2),
        (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 3),
        (&[68, 8, 5, 2, 0, 0, 0, 0], 3),
    ];
    for (list, at) in bad {
        assert_eq!(faults(list).last(), Some(&Err(at)), "{list:?}");
    }
}

#[test]
fn records_take_an_entry_until_they_are_full() {
    let is_own = |ip: u32| ip == 0x0102_0304;
    let entry = Entry { address: 0x0a00_0001, time: 0x8000_0005, is_own: &is_own };
    let mut list = [1, 7, 7, 4, 0, 0, 0, 0];
    assert!(fill(&mut list, &entry));
    assert_eq!(list, [1, 7, 7, 8, 10, 0, 0, 1]);
    assert!(!fill(&mut list, &entry), "it is full");
    let mut times = [68, 8, 5, 0, 0, 0, 0, 0];
    assert!(fill(&mut times, &entry) && fill(&mut times, &entry));
    assert_eq!(times, [68, 8, 9, 0x10, 0x80, 0, 0, 5], "the second is counted");
    let mut given = [68, 20, 5, 3, 1, 2, 3, 4, 0, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0];
    assert!(fill(&mut given, &entry));
    assert_eq!(given[2..12], [13, 3, 1, 2, 3, 4, 0x80, 0, 0, 5]);
    assert!(!fill(&mut given, &entry), "the next address is not ours");
}

proptest! {
    /// Whatever the options are, what is checked can be filled, stays well formed, and keeps its length.
    #[test]
    fn any_list_is_refused_or_filled(octets in prop::collection::vec(any::<u8>(), 0..40), times in 0..6usize) {
        let mut list = octets;
        let is_own = |ip: u32| ip.is_multiple_of(2);
        let entry = Entry { address: 7, time: 9, is_own: &is_own };
        for _ in 0..times {
            if faults(&list).iter().any(Result::is_err) {
                break;
            }
            let kinds: Vec<_> = faults(&list);
            fill(&mut list, &entry);
            prop_assert_eq!(kinds.len(), faults(&list).len());
        }
    }
}
