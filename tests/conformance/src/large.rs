//! Frames with pending offload metadata: a sink that supports the offload gets them unchanged, any other sink gets the
//! frames that a plain wire would carry.

use std::time::Instant;

use frame::checksum;
use frame::offload::{Gso, Offload};
use port::{Frame, deliver};
use ring::Bytes;

use super::pattern::Pattern;
use super::sink::SinkBench;

/// Length of Ethernet, IPv4 and TCP headers in octets.
const HEADERS: usize = 54;
const IP: usize = 14;
const TCP: usize = 34;
/// Ports by which the suite recognises its packets.
const PORTS: [u8; 4] = [0x9c, 0x40, 0x9c, 0x41];
const ADDRESSES: [u8; 8] = [198, 51, 100, 1, 198, 51, 100, 2];

/// Delivers a packet of two and a half segments, and one whose checksum is still missing; checks that every octet
/// arrives.
pub(super) fn comes_whole_or_as_on_a_wire(bench: &mut impl SinkBench) {
    let pattern = bench.pattern();
    if pattern.longest < pattern.shortest.max(HEADERS) + 64 {
        return;
    }
    let size = pattern.longest - HEADERS;
    let payload: Vec<u8> = (0..3 * size + size / 2).map(|at| (at * 7 + at / 251) as u8).collect();
    let (first, last) = payload.split_at(2 * size + size / 2);
    let left = Offload::checksum(TCP as u16, 16).unwrap_or_default();
    let mut frames = [
        (packet(&pattern, 0, first), left.with_gso(Gso::Tcp4, size as u16, HEADERS as u16)),
        (packet(&pattern, first.len(), last), left),
    ];
    let shown: Vec<_> = frames
        .iter_mut()
        .map(|(octets, left)| Frame::with_offload(Bytes::from_slice(octets), *left))
        .collect();
    assert_eq!(deliver(bench.sink(), &shown), 2, "a new port took only some of two frames");
    let deadline = Instant::now() + bench.patience();
    let mut came = vec![None; payload.len()];
    loop {
        let Some(received) = bench.received() else { return };
        for octets in received.iter().filter(|octets| octets.get(TCP..TCP + 4) == Some(&PORTS)) {
            put(&mut came, octets, size);
        }
        if came.iter().all(Option::is_some) || Instant::now() >= deadline {
            break;
        }
        std::thread::yield_now();
    }
    let wrong = came.iter().zip(&payload).position(|(came, sent)| *came != Some(*sent));
    assert_eq!(wrong, None, "octet {wrong:?} of {} did not come as it was sent", payload.len());
}

/// Creates a TCP packet in IPv4 whose transport checksum is still missing.
fn packet(pattern: &Pattern, sequence: usize, payload: &[u8]) -> Vec<u8> {
    let mut octets = [&pattern.destination[..], &pattern.source, &[8, 0]].concat();
    let total = (HEADERS - IP + payload.len()) as u16;
    octets.extend([0x45, 0]);
    octets.extend(total.to_be_bytes());
    octets.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
    octets.extend(ADDRESSES);
    let sum = checksum::of(&octets[IP..TCP]);
    octets[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    octets.extend(PORTS);
    octets.extend((sequence as u32).to_be_bytes());
    octets.extend([0, 0, 0, 1, 0x50, 0x10, 0x20, 0]);
    octets.extend(pseudo(HEADERS - TCP + payload.len()).to_be_bytes());
    octets.extend([0, 0]);
    octets.extend(payload);
    octets
}

/// Returns the sum of the pseudo header for `len` octets.
fn pseudo(len: usize) -> u16 {
    checksum::sum(checksum::sum(6, &ADDRESSES), &(len as u16).to_be_bytes())
}

/// Puts a received packet's payload at its place. A packet that is not larger than a segment must be ready for a wire,
/// unless the sink fills in checksums itself.
fn put(came: &mut [Option<u8>], octets: &[u8], size: usize) {
    let word = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    let end = IP + usize::from(word(IP + 2));
    assert!(end <= octets.len() && end >= HEADERS, "a packet of {end} octets in a frame of {}", octets.len());
    assert!(checksum::holds(&octets[IP..TCP]), "the checksum of the IPv4 header is wrong");
    let sum = checksum::sum(pseudo(end - TCP), &octets[TCP..end]);
    let as_it_was_left = word(TCP + 16) == pseudo(end - TCP);
    assert!(sum == 0xffff || as_it_was_left, "the checksum is neither right nor left to be filled in");
    let payload = &octets[HEADERS..end];
    assert!(payload.len() <= size || as_it_was_left, "a large frame that nobody is told of");
    let at = usize::from(word(TCP + 4)) << 16 | usize::from(word(TCP + 6));
    for (place, octet) in came.iter_mut().skip(at).zip(payload) {
        assert!(place.replace(*octet).is_none(), "an octet came twice");
    }
}
