//! Frames that the device segments (TSO).

use bootinfo::{Role, TrafficInfo, TransmitMode};

use super::bench::{Wish, benches};

/// Octets of Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;

/// Returns the ones' complement sum of big-endian words.
fn sum(start: u32, octets: &[u8]) -> u16 {
    let words =
        octets.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let mut total = start + words.sum::<u32>();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// Checks lengths and checksums of a segment; returns its sequence number and its octets of payload.
fn segment(frame: &[u8]) -> (u32, usize) {
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    assert_eq!(total + 14, frame.len());
    assert_eq!(sum(0, &frame[14..34]), 0xffff, "IPv4's checksum");
    let pseudo = u32::from(sum(6 + (total as u32 - 20), &frame[26..34]));
    assert_eq!(sum(pseudo, &frame[34..]), 0xffff, "TCP's checksum");
    (u32::from_be_bytes(frame[38..42].try_into().expect("four octets")), frame.len() - HEADERS)
}

#[test]
fn a_large_frame_leaves_in_segments_that_follow_one_another() {
    leave_in_segments(&[(TransmitMode::Base, 15_000 + HEADERS), (TransmitMode::Csb, 65_535 + 14)]);
}

mod all {
    use super::*;

    #[test]
    fn a_large_frame_leaves_in_segments_in_every_mode() {
        leave_in_segments(&[
            (TransmitMode::Async, 15_000 + HEADERS),
            (TransmitMode::SendCombining, 15_000 + HEADERS),
            (TransmitMode::Csb, 15_000 + HEADERS),
            (TransmitMode::Base, 65_535 + 14),
        ]);
    }
}

fn leave_in_segments(ways: &[(TransmitMode, usize)]) {
    for &(mode, octets) in ways {
        let base = Wish { role: Role::Source, mode, ..Wish::default() };
        let traffic = TrafficInfo { frame_len: octets as u32, segment_len: 1514, ..base.traffic };
        for mut bench in benches(&Wish { traffic, ..base }) {
            let frames = bench.sent(500);
            let mut next = 0u32;
            for frame in &frames {
                let (sequence, payload) = segment(frame);
                assert_eq!(sequence, next, "{}", bench.name);
                let whole = payload == 1460;
                let last = (u64::from(next) + payload as u64).is_multiple_of((octets - HEADERS) as u64);
                assert!(whole || last, "{}: {payload} octets at {sequence}", bench.name);
                next = next.wrapping_add(payload as u32);
            }
        }
    }
}
