extern crate std;

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::*;

fn range(guest: u64, len: usize) -> Region {
    Region::from_static(Box::leak(vec![0u8; len].into_boxed_slice()), guest)
}

#[test]
fn addresses_are_found_in_every_range_and_only_there() {
    let ranges: Vec<Region> = [(0, 0x1000), (0x10_0000, 0x4000), (0x100_0000, 0x2000)]
        .map(|(guest, len)| range(guest, len))
        .to_vec();
    let mut regions = Regions::new(ranges.iter().copied()).expect("three ranges");
    for range in &ranges {
        let (start, end) = (range.start(), range.start() + range.len());
        for visited in [false, true] {
            if visited {
                regions.visit(start);
            }
            let whole = regions.bytes(start, range.len() as u32).expect("it is there");
            assert_eq!(whole.as_ptr(), range.translate(start, 1).expect("it is there"));
            assert!(regions.bytes(end - 1, 1).is_some());
            assert!(regions.bytes(end - 1, 2).is_none(), "no piece goes from one range into another");
            assert!(regions.bytes(end, 1).is_none());
        }
        assert!(regions.near().bytes(start, 1).is_some(), "what was visited is near");
    }
    assert!(regions.bytes(u64::MAX, 2).is_none());
    regions.visit(u64::MAX);
}

#[test]
fn the_largest_range_is_near_from_the_start() {
    let regions = Regions::new([range(0, 0x1000), range(0x10_0000, 0x4000)]).expect("two ranges");
    assert!(regions.near().bytes(0x10_0000, 1).is_some());
    assert!(regions.near().bytes(0, 1).is_none());
}

#[test]
fn no_range_and_too_many_are_refused() {
    assert!(Regions::new([]).is_none());
    let one = range(0, 16);
    assert!(Regions::new(core::iter::repeat_n(one, MOST_REGIONS)).is_some());
    assert!(Regions::new(core::iter::repeat_n(one, MOST_REGIONS + 1)).is_none());
}
