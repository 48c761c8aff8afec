extern crate std;

use core::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
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

#[test]
fn pieces_of_every_length_are_read_and_written_exactly_at_every_alignment() {
    fn check<const N: usize>() {
        let mut octets: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
        let original = octets.clone();
        let bytes = Bytes::from_slice(&mut octets);
        for at in 0..=64 - N {
            let read = bytes.read::<N>(at).expect("they are there");
            assert_eq!(read, original[at..at + N], "{N} at {at}");
            assert!(bytes.write(at, read.map(|octet| !octet)));
            let mut seen = [0; 64];
            bytes.copy_to_slice(&mut seen);
            for (i, (&seen, &before)) in seen.iter().zip(&original).enumerate() {
                let written = (at..at + N).contains(&i);
                assert_eq!(seen, if written { !before } else { before }, "{N} at {at}: {i}");
            }
            assert!(bytes.write(at, read));
        }
        assert_eq!((bytes.read::<N>(65 - N), bytes.read::<N>(usize::MAX)), (None, None));
        assert!(!bytes.write(65 - N, [0; N]) && !bytes.write(usize::MAX, [0; N]));
    }
    check::<1>();
    check::<2>();
    check::<3>();
    check::<4>();
    check::<6>();
    check::<7>();
    check::<8>();
    check::<12>();
    check::<15>();
    check::<16>();
    check::<26>();
    check::<31>();
}

/// The other party alternately stores two numbers; each value read must be one of them. Octets that are read one by one
/// would usually be a mixture.
#[test]
fn a_number_is_read_by_one_access() {
    fn check<const N: usize>(line: &Line, at: usize) {
        let whole = ptr::from_ref(line).cast_mut().cast();
        // SAFETY: 64 octets of atomics, which outlive the values made here.
        let bytes = unsafe { Bytes::from_raw(whole, 64) };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for turn in 0..10_000 {
                        bytes.write(at, [if turn % 2 == 0 { 0 } else { 0xff }; N]);
                    }
                    thread::yield_now();
                }
            });
            // Until the other thread has been seen at work this often.
            let (mut changes, mut last) = (0, [0; N]);
            while changes < 20 {
                for _ in 0..10_000 {
                    let now = bytes.read::<N>(at).expect("it is there");
                    if now != [0; N] && now != [0xff; N] {
                        done.store(true, Ordering::Relaxed);
                        panic!("{N} at {at}: {now:?}");
                    }
                    changes += usize::from(now != last);
                    last = now;
                }
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
    #[repr(align(64))]
    struct Line(#[expect(dead_code, reason = "it is looked at by address")] [AtomicU64; 8]);
    let line = Line([const { AtomicU64::new(0) }; 8]);
    // In an aligned word of eight octets, which every processor reads as a whole.
    [0, 56].into_iter().for_each(|at| check::<8>(&line, at));
    [0, 3, 12].into_iter().for_each(|at| check::<4>(&line, at));
    [0, 3, 62].into_iter().for_each(|at| check::<2>(&line, at));
}
