use proptest::prelude::*;

use super::*;

/// The internet checksum by its definition (RFC 1071): the complement of the ones' complement sum of 16-bit words.
fn textbook(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn the_sum_covers_what_lies_between_start_and_end() {
    let frame: Vec<u8> = (0..100).collect();
    for (start, end, covered) in
        [(14, 33, 14..34), (0, 0, 0..100), (34, 0, 34..100), (10, 200, 10..100), (5, 5, 5..6)]
    {
        let mut got = frame.clone();
        Sum { start, at: 24, end }.insert(&mut got, Zero::Stays);
        let mut expected = frame.clone();
        expected[24..26].copy_from_slice(&textbook(&frame[covered]).to_be_bytes());
        assert_eq!(got, expected, "{start} to {end}");
    }
}

#[test]
fn a_place_or_start_outside_inserts_nothing() {
    let frame: Vec<u8> = (0..60).collect();
    for (start, at, end) in
        [(60, 10, 0), (255, 10, 0), (14, 59, 0), (14, 60, 0), (14, 255, 0), (14, 24, 13), (14, 24, 5)]
    {
        let mut got = frame.clone();
        Sum { start, at, end }.insert(&mut got, Zero::Stays);
        assert_eq!(got, frame, "{start} {at} {end}");
    }
    let mut got = frame.clone();
    Sum { start: 59, at: 58, end: 0 }.insert(&mut got, Zero::Stays);
    assert_eq!(got[58..], textbook(&[59]).to_be_bytes());
}

#[test]
fn a_sum_of_zero_is_stored_as_all_ones_where_zero_says_that_there_is_none() {
    for (zero, stored) in [(Zero::Stays, [0, 0]), (Zero::AllOnes, [0xff, 0xff])] {
        let mut frame = [0, 0, 0xff, 0xff];
        Sum { start: 2, at: 0, end: 0 }.insert(&mut frame, zero);
        assert_eq!(frame[..2], stored);
    }
}

#[test]
fn the_length_is_added_to_the_pseudo_header() {
    let mut frame = [0; 64];
    frame[50..52].copy_from_slice(&0xfff0_u16.to_be_bytes());
    Sum { start: 34, at: 50, end: 0 }.add_length(&mut frame);
    // 0xfff0 + 30 with end-around carry.
    assert_eq!(frame[50..52], [0, 0x0f]);
}

proptest! {
    #[test]
    fn any_octets_and_any_offsets_sum_as_in_the_textbook(
        frame in proptest::collection::vec(any::<u8>(), 0..300),
        (start, at, end) in (any::<u8>(), any::<u8>(), 0..400_u16),
        ones in any::<bool>(),
    ) {
        let mut expected = frame.clone();
        let until = if end == 0 { frame.len() } else { frame.len().min(usize::from(end) + 1) };
        if usize::from(start) < until && usize::from(at) + 2 <= frame.len() {
            let mut sum = textbook(&frame[usize::from(start)..until]);
            if ones && sum == 0 {
                sum = 0xffff;
            }
            expected[usize::from(at)..usize::from(at) + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let mut got = frame;
        Sum { start, at, end }.insert(&mut got, if ones { Zero::AllOnes } else { Zero::Stays });
        prop_assert_eq!(got, expected);
    }
}
