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
                regions.cache(start);
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
    regions.cache(u64::MAX);
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

/// Checks every table of three ranges with these starts and lengths against a plain model, octet by octet.
fn every_table(starts: &[u64], lengths: &[usize]) -> usize {
    let backing: &'static mut [u8] = Box::leak(vec![0; 64].into_boxed_slice());
    let base = backing.as_mut_ptr();
    let ranges: Vec<Region> = starts
        .iter()
        .flat_map(|&guest| lengths.iter().map(move |&len| (guest, len as u64)))
        // SAFETY: no range is longer than the memory, which is leaked and not referred to otherwise.
        .map(|(guest, len)| unsafe { Region::new(base, guest, len) })
        .collect();
    let edges = starts.iter().flat_map(|&start| {
        [0, 1, 15, 16, 17, 32]
            .into_iter()
            .flat_map(move |by| [start.wrapping_add(by), start.wrapping_sub(by)])
    });
    let mut addresses: Vec<u64> = edges.chain([0, u64::MAX]).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut pieces = 0;
    for a in &ranges {
        for b in &ranges {
            for c in &ranges {
                pieces += check_table([*a, *b, *c], &addresses);
            }
        }
    }
    pieces
}

/// Returns true if a range has all octets of `[address, address + len)` contiguously: checked octet by octet.
fn has(range: &Region, address: u64, len: u32) -> bool {
    let place = |i: u64| address.wrapping_add(i).wrapping_sub(range.start());
    // An empty piece may also begin at the end of the range.
    let begins = place(0) <= range.len();
    begins && u64::from(len) <= range.len() && (0..u64::from(len)).all(|i| place(0) + i < range.len())
}

fn check_table(table: [Region; 3], addresses: &[u64]) -> usize {
    let regions = Regions::new(table).expect("three ranges");
    let mut pieces = 0;
    for &address in addresses {
        let mut visited = regions.clone();
        visited.cache(address);
        for len in [0, 1, 16, 17, u32::MAX] {
            let owners = || table.iter().filter(|range| has(range, address, len));
            let first = owners().next();
            assert_eq!(
                regions.find(address, u64::from(len)).map(|range| (range.start(), range.len())),
                first.map(|range| (range.start(), range.len()))
            );
            assert!(regions.find(address, u64::MAX).is_none());
            for (regions, near) in [(&regions, false), (&visited, len == 1)] {
                let found = regions.bytes(address, len);
                assert_eq!(found.is_some(), first.is_some(), "{table:?}: {address:#x}+{len:#x}");
                if let Some(found) = found {
                    pieces += 1;
                    assert_eq!(found.len(), len as usize);
                    let mut places = owners().map(|range| range.translate(address, u64::from(len)));
                    assert!(
                        places.any(|place| place == Some(found.as_ptr())),
                        "the octets of one that has them"
                    );
                    assert!(
                        !near || regions.near().bytes(address, len).is_some(),
                        "what was visited is near"
                    );
                }
            }
        }
    }
    pieces
}

#[test]
fn every_table_of_three_ranges_at_the_ends_of_what_can_be_addressed() {
    assert!(every_table(&[0, 16, u64::MAX - 15], &[0, 16, 32]) > 10_000);
}

mod all {
    #[test]
    fn every_table_of_three_ranges() {
        let starts = [0, 1, 16, 1 << 63, u64::MAX - 31, u64::MAX - 15, u64::MAX];
        assert!(super::every_table(&starts, &[0, 1, 16, 32]) > 1_000_000);
    }
}
