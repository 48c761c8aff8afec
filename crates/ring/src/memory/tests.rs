extern crate std;

use std::vec::Vec;

use super::*;

/// Sixteen octets of guard on both sides of each buffer.
const GUARD: usize = 16;

#[test]
fn copies_of_every_small_length_are_exact() {
    for len in 0..=300 {
        let mut from: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
        let expected = from.clone();
        let mut to = std::vec![0xaa; len + 2 * GUARD];
        let source = Bytes::from_slice(&mut from);
        assert!(source.copy_into(&Bytes::from_slice(&mut to[..len + GUARD]), GUARD));
        assert_eq!(to[GUARD..GUARD + len], expected, "{len}");
        assert!(to[..GUARD].iter().chain(&to[GUARD + len..]).all(|&octet| octet == 0xaa), "{len}");
    }
}

#[test]
fn overlapping_copies_move() {
    for len in 0..=200 {
        for shift in [0, 1, 15, 16, 31, 33, 64] {
            let mut octets: Vec<u8> = (0..300).map(|i| i as u8).collect();
            let mut expected = octets.clone();
            expected.copy_within(0..len, shift);
            let all = Bytes::from_slice(&mut octets);
            assert_eq!(all.take(len as u32).copy_to(&all.skip(shift as u32).take(len as u32)), len);
            assert_eq!(octets, expected, "{len} by {shift}");
        }
    }
}

#[test]
fn nothing_is_copied_where_it_does_not_fit() {
    let (mut from, mut to) = ([1u8; 40], [0u8; 50]);
    let (source, target) = (Bytes::from_slice(&mut from), Bytes::from_slice(&mut to));
    assert!(!source.copy_into(&target, 11));
    assert!(!source.copy_into(&target, usize::MAX));
    assert!(source.copy_into(&target, 10));
    assert_eq!(to[..10], [0; 10]);
    assert_eq!(to[10..], [1; 40]);
}

#[test]
fn a_region_gives_out_only_what_lies_in_it_as_a_whole() {
    let mut octets = std::vec![0u8; 4096];
    // SAFETY: the vector outlives the region and nothing else refers to it meanwhile.
    let region = unsafe { Region::new(octets.as_mut_ptr(), 0x1000, 4096) };
    for (address, len, inside) in [
        (0x1000, 4096, true),
        (0x1fff, 1, true),
        (0x2000, 0, true),
        (0x1fff, 2, false),
        (0xfff, 1, false),
        (0xfff, 0, false),
        (0x2001, 0, false),
        (u64::MAX, 2, false),
        (0x1000, u32::MAX, false),
    ] {
        assert_eq!(region.bytes(address, len).is_some(), inside, "{address:#x}+{len:#x}");
    }
}

#[test]
fn words_are_read_at_any_alignment() {
    let mut octets: Vec<u8> = (0..40).collect();
    let bytes = Bytes::from_slice(&mut octets);
    let expected =
        [u64::from_le_bytes([3, 4, 5, 6, 7, 8, 9, 10]), u64::from_le_bytes([11, 12, 13, 14, 15, 16, 17, 18])];
    assert_eq!(bytes.read_words(3), Some(expected));
    assert_eq!(bytes.read_words(25), None);
    assert_eq!(bytes.read_words(usize::MAX), None);
    assert_eq!(bytes.read::<2>(38), Some([38, 39]));
    assert_eq!(bytes.read::<2>(39), None);
}
