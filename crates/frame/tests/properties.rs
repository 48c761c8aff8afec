//! Written headers parse back, incremental checksums equal recomputed ones, and no input makes a parser
//! panic.

use frame::{Mac, arp, checksum, ethernet, icmp, ipv4, tcp, udp};
use proptest::prelude::*;

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

fn ipv4_header() -> impl Strategy<Value = ipv4::Header> {
    let fragment = (any::<u16>(), any::<bool>(), any::<bool>(), 0u16..0x2000);
    let rest = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u32>(), any::<u32>());
    (5u8..=15, 0u16..200, fragment, rest).prop_map(|(words, payload, fragment, rest)| ipv4::Header {
        header_len: words * 4,
        tos: rest.0,
        total_len: u16::from(words) * 4 + payload,
        identification: fragment.0,
        dont_fragment: fragment.1,
        more_fragments: fragment.2,
        fragment_offset: fragment.3,
        ttl: rest.1,
        protocol: rest.2,
        source: rest.3,
        destination: rest.4,
    })
}

proptest! {
    #[test]
    fn ethernet_round_trip(destination in mac(), source in mac(), ethertype: u16, payload: [u8; 3]) {
        let header = ethernet::Header { destination, source, ethertype };
        let mut octets = [0; 17];
        octets[14..].copy_from_slice(&payload);
        header.write(&mut octets).unwrap();
        prop_assert_eq!(ethernet::Header::parse(&octets), Ok((header, &payload[..])));
    }

    #[test]
    fn arp_round_trip(request: bool, a in mac(), b in mac(), sender_ip: u32, target_ip: u32) {
        let operation = if request { arp::Operation::Request } else { arp::Operation::Reply };
        let packet = arp::Packet { operation, sender_mac: a, sender_ip, target_mac: b, target_ip };
        let mut octets = [0; 46];
        packet.write(&mut octets).unwrap();
        prop_assert_eq!(arp::Packet::parse(&octets), Ok(packet));
    }

    #[test]
    fn ipv4_round_trip(header in ipv4_header(), options: [u8; 40]) {
        let mut octets = [0xa5; 300];
        octets[20..60].copy_from_slice(&options);
        header.write(&mut octets).unwrap();
        let packet = ipv4::Packet::parse(&octets).unwrap();
        prop_assert_eq!(packet.header(), &header);
        prop_assert_eq!(packet.options(), &options[..usize::from(header.header_len) - 20]);
        prop_assert_eq!(packet.payload().len(), usize::from(header.total_len) - usize::from(header.header_len));
    }

    #[test]
    fn one_flipped_bit_breaks_the_ipv4_checksum(header in ipv4_header(), bit in 0usize..160) {
        let mut octets = [0; 300];
        header.write(&mut octets).unwrap();
        octets[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(ipv4::Packet::parse(&octets).is_err());
    }

    #[test]
    fn icmp_round_trip(kind: u8, code: u8, rest: u32, payload: [u8; 13]) {
        let header = icmp::Header { kind, code, rest };
        let mut octets = [0; 21];
        octets[8..].copy_from_slice(&payload);
        header.write(&mut octets).unwrap();
        prop_assert_eq!(icmp::Header::parse(&octets), Ok((header, &payload[..])));
        octets[20] ^= 4;
        prop_assert_eq!(icmp::Header::parse(&octets), Err(frame::Error::Checksum));
    }

    #[test]
    fn udp_round_trip(source: u16, destination: u16, from: u32, to: u32, payload: [u8; 9]) {
        let mut header = udp::Header { source, destination, len: 17, checksum: 0 };
        let mut octets = [0; 17];
        octets[8..].copy_from_slice(&payload);
        header.write(&mut octets).unwrap();
        header.checksum = udp::checksum(from, to, &octets);
        header.write(&mut octets).unwrap();
        prop_assert_eq!(udp::Header::parse(&octets), Ok((header, &payload[..])));
        prop_assert_ne!(header.checksum, 0);
    }

    #[test]
    fn checksum_agrees_with_the_definition(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut total = 0u32;
        for pair in octets.chunks(2) {
            total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            total = (total & 0xffff) + (total >> 16);
        }
        prop_assert_eq!(checksum::of(&octets), !(total as u16));
    }

    #[test]
    fn unrolled_check_agrees(octets: [u8; 20], correct: bool) {
        let mut octets = octets;
        if correct {
            octets[10..12].fill(0);
            let sum = checksum::of(&octets);
            octets[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        prop_assert_eq!(checksum::holds20(&octets), checksum::holds(&octets));
    }

    #[test]
    fn increment_agrees_with_a_fresh_checksum(octets: [u8; 20], word in 0usize..10, new: u16, wide: u32) {
        // A header is never all zeros, the only case in which the two zeros of ones' complement could differ.
        let mut octets = octets;
        octets[0] = 0x45;
        if word == 0 || word == 5 {
            return Ok(());
        }
        octets[10..12].fill(0);
        let old_sum = checksum::of(&octets);
        let at = word * 2;
        let old = u16::from_be_bytes([octets[at], octets[at + 1]]);
        octets[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(checksum::replace(old_sum, old, new), checksum::of(&octets));
        let sum = checksum::of(&octets);
        let before = u32::from_be_bytes(octets[12..16].try_into().unwrap());
        octets[12..16].copy_from_slice(&wide.to_be_bytes());
        prop_assert_eq!(checksum::replace32(sum, before, wide), checksum::of(&octets));
    }

    #[test]
    fn ageing_agrees_with_a_fresh_checksum(header in ipv4_header()) {
        prop_assume!(header.ttl > 0);
        let mut aged = [0; 300];
        header.write(&mut aged).unwrap();
        let words = ipv4::age(aged[8..12].try_into().unwrap());
        aged[8..12].copy_from_slice(&words);
        let mut fresh = [0; 300];
        ipv4::Header { ttl: header.ttl - 1, ..header }.write(&mut fresh).unwrap();
        prop_assert_eq!(aged, fresh);
    }

    #[test]
    fn any_octets_are_refused_or_read(octets in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = ethernet::Header::parse(&octets);
        let _ = arp::Packet::parse(&octets);
        let _ = icmp::Header::parse(&octets);
        let _ = udp::Header::parse(&octets);
        let _ = tcp::Header::parse(&octets);
        if let Ok(packet) = ipv4::Packet::parse_quoted(&octets) {
            let _ = (packet.options(), packet.payload());
        }
        let mut short = octets.clone();
        let _ = ipv4::Header::new(17, 1, 2, 8).write(&mut short);
        let _ = udp::Header { source: 1, destination: 2, len: 8, checksum: 0 }.write(&mut short);
        let _ = icmp::Header { kind: 0, code: 0, rest: 0 }.write(&mut short);
    }

    #[test]
    fn ageing_carries_around(protocol: u8, ttl in 1u8..=255) {
        // Sums at which the carry matters.
        for sum in [0xfefeu16, 0xfeff, 0xff00, 0xffff, 0] {
            let [high, low] = sum.to_be_bytes();
            let words = [ttl, protocol, high, low];
            let aged = ipv4::age(words);
            let old = u16::from_be_bytes([ttl, protocol]);
            let new = u16::from_be_bytes([ttl - 1, protocol]);
            prop_assert_eq!(u16::from_be_bytes([aged[2], aged[3]]), checksum::replace(sum, old, new));
        }
    }
}

#[test]
fn martians_are_known_by_their_first_octet() {
    for first in 0u32..256 {
        let expected = first == 0 || first == 127 || first >= 224;
        assert_eq!(ipv4::is_martian(first << 24 | 0x1234), expected, "{first}");
    }
}

#[test]
fn a_known_header_has_the_known_checksum() {
    // A UDP packet from 192.168.0.1 to 192.168.0.199.
    let octets =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert!(checksum::holds20(&octets));
    assert!(checksum::holds(&octets));
}
