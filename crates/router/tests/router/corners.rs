//! Corners of RFC 1812: options, source routes, redirects, reassembly, reserved destinations, priority tags.

use frame::{icmp, ipv4, vlan};

use crate::world::*;

/// Returns a UDP frame from 10.0.0.2 with these options, padded.
fn optioned(destination: u32, options: &[u8]) -> Vec<u8> {
    let header_len = (20 + options.len().next_multiple_of(4)) as u8;
    let header = ipv4::Header {
        header_len,
        total_len: u16::from(header_len) + 26,
        ..udp_header(ip(10, 0, 0, 2), destination, 18)
    };
    let mut frame = ipv4_frame(0, header, &datagram(18));
    frame[34..34 + options.len()].copy_from_slice(options);
    header.write(&mut frame[14..]).unwrap();
    frame
}

#[test]
fn a_record_of_the_route_is_filled_in() {
    let mut lab = Lab::default();
    lab.push(0, optioned(ip(192, 168, 1, 1), &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]));
    let sent = lab.one_sent(1);
    assert_eq!(read_ipv4(&sent).1.options(), [7, 11, 8, 10, 0, 1, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn timestamps_are_filled_in_or_counted() {
    let mut lab = Lab::default();
    lab.push(0, optioned(ip(192, 168, 1, 1), &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
    let sent = lab.one_sent(1);
    let options = read_ipv4(&sent).1.options();
    assert_eq!(options[..8], [68, 12, 13, 1, 10, 0, 1, 1]);
    assert_eq!(options[8] & 0x80, 0x80, "not since midnight");
    lab.push(0, optioned(ip(192, 168, 1, 1), &[68, 4, 5, 0]));
    let sent = lab.one_sent(1);
    assert_eq!(read_ipv4(&sent).1.options(), [68, 4, 5, 0x10]);
}

#[test]
fn malformed_options_are_answered_and_source_routes_dropped() {
    let mut lab = Lab::default();
    // A record without room in its header, a pointer that is too small, an option that is too long.
    for (options, at) in
        [(&[7, 2, 0, 0][..], 21), (&[7, 7, 3, 0, 0, 0, 0][..], 22), (&[1, 130, 11, 0][..], 21)]
    {
        lab.push(0, optioned(ip(192, 168, 1, 1), options));
        let frame = lab.one_sent(0);
        let (_, message, _) = read_icmp(&frame);
        assert_eq!((message.kind, message.code, message.rest >> 24), (icmp::PARAMETER_PROBLEM, 0, at));
    }
    assert_eq!(lab.counter("drop_ip_header"), 3);
    for kind in [131, 137] {
        for destination in [ip(192, 168, 1, 1), ip(10, 0, 0, 1)] {
            lab.push(0, optioned(destination, &[kind, 7, 4, 10, 0, 1, 9]));
        }
    }
    lab.none_sent();
    assert_eq!(lab.counter("drop_source_route"), 4);
}

#[test]
fn an_echo_returns_the_record_with_our_entry() {
    let mut lab = Lab::default();
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    let header = ipv4::Header {
        header_len: 32,
        total_len: 32 + 9,
        ..ipv4::Header::new(ipv4::ICMP, ip(10, 0, 0, 2), ip(10, 0, 0, 1), 9)
    };
    let mut frame = ipv4_frame(0, header, &message);
    frame[34..46].copy_from_slice(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    header.write(&mut frame[14..]).unwrap();
    lab.push(0, frame);
    let sent = lab.one_sent(0);
    assert_eq!(read_ipv4(&sent).1.options(), [7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0]);
    let (_, reply, payload) = read_icmp(&sent);
    assert_eq!((reply.kind, reply.rest, payload), (icmp::ECHO_REPLY, 7, &b"x"[..]));
}

#[test]
fn a_redirect_is_sent_only_if_it_is_wanted() {
    for redirects in [false, true] {
        let mut lab = Lab::wanted(table(), &Wanted { redirects, ..USUAL });
        (0..3).for_each(|nic| drop(lab.world.sent(nic)));
        lab.push(1, udp_frame(1, ip(192, 168, 1, 1), 18));
        let sent = lab.world.sent(1);
        assert_eq!((sent.len(), lab.counter("redirects")), (1 + usize::from(redirects), 1));
        if redirects {
            let (header, message, quoted) = read_icmp(&sent[0]);
            assert_eq!((header.source, header.destination), (ip(10, 0, 1, 1), ip(10, 0, 1, 2)));
            assert_eq!((message.kind, message.code, message.rest), (icmp::REDIRECT, 1, ip(10, 0, 1, 2)));
            assert_eq!(quoted, &udp_frame(1, ip(192, 168, 1, 1), 18)[14..42]);
        }
        assert_eq!(read_ipv4(sent.last().unwrap()).1.header().ttl, 63);
        // From another network than the one of the next hop: nothing to tell.
        lab.push(0, udp_frame(0, ip(192, 168, 1, 2), 18));
        assert_eq!(lab.counter("redirects"), 1);
    }
}

#[test]
fn there_is_no_route_to_reserved_addresses() {
    let mut lab = Lab::default();
    for destination in [ip(240, 0, 0, 1), ip(0, 1, 2, 3), ip(255, 0, 0, 1)] {
        lab.push(0, udp_frame(0, destination, 18));
        let frame = lab.one_sent(0);
        let (_, message, _) = read_icmp(&frame);
        assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::NET));
    }
    lab.only_drop("drop_martian", 3);
}

#[test]
fn a_route_may_refuse_its_packets() {
    let codes = [None, Some(icmp::unreachable::HOST), Some(icmp::unreachable::PROHIBITED)];
    for (n, code) in (1..).zip(codes) {
        let mut lab = Lab::default();
        lab.push(0, udp_frame(0, ip(22, n, 0, 9), 18));
        let sent = lab.world.sent(0);
        assert_eq!(sent.first().map(|frame| read_icmp(frame).1.code), code);
        lab.only_drop("drop_refused", 1);
    }
}

#[test]
fn a_priority_tag_is_taken_off() {
    let mut lab = Lab::default();
    let plain = udp_frame(0, ip(192, 168, 1, 1), 18);
    for tpid in [vlan::CUSTOMER, vlan::SERVICE] {
        let mut frame = [&plain[..], &[0; vlan::TAG]].concat();
        vlan::insert(&mut frame, vlan::Tag { tpid, tci: 0xe000 }).unwrap();
        lab.push(0, frame.clone());
        assert_eq!(lab.one_sent(1)[12..14], [8, 0]);
        // Another VLAN, and two such tags.
        let mut other = frame.clone();
        other[15] = 1;
        lab.push(0, other);
        frame.extend([0; vlan::TAG]);
        vlan::insert(&mut frame, vlan::Tag { tpid, tci: 0 }).unwrap();
        lab.push(0, frame);
        assert_eq!(lab.one_sent(1)[12..14], [8, 0]);
    }
    lab.only_drop("drop_protocol", 2);
}

/// Returns the frames of a packet for the router in fragments of this many octets of data.
fn fragments(protocol: u8, whole: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = whole.len().div_ceil(size);
    let one = |(n, data): (usize, &[u8])| {
        let header = ipv4::Header {
            identification: 9,
            more_fragments: n + 1 < count,
            fragment_offset: (n * size / 8) as u16,
            ..ipv4::Header::new(protocol, ip(10, 0, 0, 2), ip(10, 0, 0, 1), data.len() as u16)
        };
        ipv4_frame(0, header, data)
    };
    whole.chunks(size).enumerate().map(one).collect()
}

#[test]
fn an_echo_in_fragments_is_answered() {
    let mut lab = Lab::default();
    let octets: Vec<u8> = (0..5000_u32).map(|n| (n * 7) as u8).collect();
    let frames = fragments(ipv4::ICMP, &icmp_message(icmp::ECHO_REQUEST, 0, 7, &octets), 1480);
    let count = frames.len();
    for frame in frames.into_iter().rev() {
        lab.none_sent();
        lab.push(0, frame);
    }
    let mut whole = vec![];
    for frame in lab.world.sent(0) {
        let (_, packet) = read_ipv4(&frame);
        assert_eq!(usize::from(packet.header().fragment_offset) * 8, whole.len());
        assert_eq!((packet.header().source, packet.header().ttl), (ip(10, 0, 0, 1), 64));
        whole.extend(packet.payload());
    }
    let (reply, rest) = icmp::Header::parse(&whole).unwrap();
    assert_eq!((reply.kind, reply.rest, rest), (icmp::ECHO_REPLY, 7, &octets[..]));
    assert_eq!((lab.counters.consumed.get(), lab.router.held()), (count as u64, 0));
}

#[test]
fn a_datagram_in_fragments_is_refused_as_one() {
    let mut lab = Lab::default();
    for frame in fragments(ipv4::UDP, &datagram(3000), 1480) {
        lab.push(0, frame);
    }
    let frame = lab.one_sent(0);
    let (_, message, _) = read_icmp(&frame);
    assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::PORT));
    lab.only_drop("drop_local", 3);
}

#[test]
fn fragments_are_bounded_and_expire() {
    let mut lab = Lab::default();
    for identification in 0..100 {
        let header = ipv4::Header {
            identification,
            more_fragments: true,
            ..ipv4::Header::new(ipv4::UDP, ip(10, 0, 0, 2), ip(10, 0, 0, 1), 16)
        };
        lab.push(0, ipv4_frame(0, header, &[0; 16]));
    }
    assert_eq!((lab.router.held(), lab.counter("drop_reassembly")), (8, 92));
    lab.none_sent();
    lab.wait(30_000);
    let sent = lab.world.sent(0);
    assert_eq!((lab.router.held(), sent.len()), (0, 8));
    let (_, message, _) = read_icmp(&sent[0]);
    assert_eq!((message.kind, message.code), (icmp::TIME_EXCEEDED, 1));
}
