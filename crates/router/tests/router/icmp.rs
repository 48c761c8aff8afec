//! ICMP: echo, errors, conditions under which no error may be sent, and their rate.

use frame::{icmp, ipv4};

use crate::world::*;

/// Returns the single error that came back to the sender on NIC 0.
fn error(lab: &mut Lab) -> (ipv4::Header, icmp::Header, Vec<u8>) {
    error_from(lab, ip(10, 0, 0, 1))
}

fn error_from(lab: &mut Lab, source: u32) -> (ipv4::Header, icmp::Header, Vec<u8>) {
    let frame = lab.one_sent(0);
    let (header, message, quoted) = read_icmp(&frame);
    assert_eq!((header.source, header.destination), (source, ip(10, 0, 0, 2)));
    assert_eq!((header.tos, header.ttl), (0xc0, 64));
    (header, message, quoted.to_vec())
}

#[test]
fn echo_is_answered_from_every_own_address() {
    let mut lab = Lab::default();
    for own in [ip(10, 0, 0, 1), ip(10, 0, 1, 1)] {
        let message = icmp_message(icmp::ECHO_REQUEST, 0, 0x1234_0001, b"some octets");
        let header = ipv4::Header::new(ipv4::ICMP, ip(10, 0, 0, 2), own, message.len() as u16);
        lab.push(0, ipv4_frame(0, header, &message));
        let frame = lab.one_sent(0);
        let (ethernet, _) = read_ipv4(&frame);
        assert_eq!((ethernet.destination, ethernet.source), (peer_mac(0), own_mac(0)));
        let (header, reply, payload) = read_icmp(&frame);
        assert_eq!((header.source, header.destination, header.ttl), (own, ip(10, 0, 0, 2), 64));
        assert_eq!((reply.kind, reply.code, reply.rest), (icmp::ECHO_REPLY, 0, 0x1234_0001));
        assert_eq!(payload, b"some octets");
    }
    assert_eq!((lab.counters.consumed.get(), lab.counters.originated.get()), (2, 8));
}

#[test]
fn echo_drops_the_options() {
    let mut lab = Lab::default();
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    let header = ipv4::Header {
        header_len: 32,
        total_len: 32 + 9,
        ..ipv4::Header::new(ipv4::ICMP, ip(10, 0, 0, 2), ip(10, 0, 0, 1), 9)
    };
    lab.push(0, ipv4_frame(0, header, &message));
    let frame = lab.one_sent(0);
    let (header, _, payload) = read_icmp(&frame);
    assert_eq!((header.header_len, header.total_len, payload), (20, 29, &b"x"[..]));
}

#[test]
fn a_large_echo_reply_is_fragmented() {
    let mut lab = Lab::default();
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, &[9; 1000]);
    let header = ipv4::Header::new(ipv4::ICMP, ip(10, 0, 2, 2), ip(10, 0, 2, 1), 1008);
    lab.push(2, ipv4_frame(2, header, &message));
    let sent = lab.world.sent(2);
    assert_eq!(sent.len(), 2);
    assert_eq!((lab.counters.consumed.get(), lab.counters.originated.get()), (1, 8));
    lab.only_drop("", 0);
}

#[test]
fn what_the_router_has_no_use_for() {
    let mut lab = Lab::default();
    let own = ip(10, 0, 0, 1);
    let from = ip(10, 0, 0, 2);
    let icmp_header = |payload: &[u8]| ipv4::Header::new(ipv4::ICMP, from, own, payload.len() as u16);
    let mut damaged = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    damaged[8] ^= 1;
    let reply = icmp_message(icmp::ECHO_REPLY, 0, 7, b"x");
    let odd_code = icmp_message(icmp::ECHO_REQUEST, 3, 7, b"x");
    for message in [damaged, reply, odd_code, vec![8, 0, 0]] {
        lab.push(0, ipv4_frame(0, icmp_header(&message), &message));
    }
    // Broadcasts, one of them a fragment.
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    let piece =
        ipv4::Header { more_fragments: true, destination: ip(10, 0, 0, 255), ..icmp_header(&message) };
    lab.push(0, ipv4_frame(0, piece, &message));
    for destination in [u32::MAX, ip(10, 0, 0, 255), ip(10, 0, 0, 0)] {
        let mut frame = ipv4_frame(0, ipv4::Header { destination, ..icmp_header(&message) }, &message);
        frame[..6].fill(0xff);
        lab.push(0, frame);
    }
    lab.only_drop("drop_local", 8);
    lab.none_sent();
}

#[test]
fn ports_and_protocols_of_the_router_are_unreachable() {
    let cases = [
        (ipv4::UDP, icmp::unreachable::PORT),
        (ipv4::TCP, icmp::unreachable::PORT),
        (89, icmp::unreachable::PROTOCOL),
    ];
    let mut lab = Lab::default();
    for (protocol, code) in cases {
        // Local by the addresses of the NICs, and only by the routes.
        for (destination, source) in [(ip(10, 0, 1, 1), ip(10, 0, 1, 1)), (ip(9, 9, 9, 9), ip(10, 0, 0, 1))] {
            let header = ipv4::Header { protocol, ..udp_header(ip(10, 0, 0, 2), destination, 18) };
            lab.push(0, ipv4_frame(0, header, &datagram(18)));
            let (_, message, _) = error_from(&mut lab, source);
            assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, code));
        }
    }
    lab.only_drop("drop_local", 6);
}

#[test]
fn time_exceeded() {
    let mut lab = Lab::default();
    for ttl in [0, 1] {
        let header = ipv4::Header { ttl, ..udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, 1), 18) };
        let frame = ipv4_frame(0, header, &datagram(18));
        lab.push(0, frame.clone());
        let (_, message, quoted) = error(&mut lab);
        assert_eq!((message.kind, message.code, message.rest), (icmp::TIME_EXCEEDED, 0, 0));
        assert_eq!(quoted, frame[14..]);
    }
    lab.only_drop("drop_ttl", 2);
}

#[test]
fn the_padding_of_a_frame_is_not_quoted() {
    let mut lab = Lab::default();
    let mut frame = udp_frame(0, ip(11, 1, 1, 1), 4);
    frame[46..].fill(0xee);
    lab.push(0, frame.clone());
    let (_, _, quoted) = error(&mut lab);
    assert_eq!(quoted, frame[14..46]);
}

#[test]
fn a_nic_without_address_sends_errors_from_that_of_another_one() {
    let mut lab = Lab::with_addresses(&[router::Address { ip: ip(10, 0, 0, 1), prefix: 24 }]);
    lab.push(1, udp_frame(1, ip(11, 1, 1, 1), 18));
    let frame = lab.one_sent(1);
    let (header, message, _) = read_icmp(&frame);
    assert_eq!((header.source, header.destination), (ip(10, 0, 0, 1), ip(10, 0, 1, 2)));
    assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::NET));
}

#[test]
fn a_nic_without_address_records_that_of_another_one() {
    let mut lab = Lab::with_addresses(&[router::Address { ip: ip(10, 0, 0, 1), prefix: 24 }]);
    let header = ipv4::Header {
        header_len: 28,
        total_len: 28 + 26,
        ..udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, 1), 18)
    };
    let mut frame = ipv4_frame(0, header, &datagram(18));
    frame[34..42].copy_from_slice(&[7, 7, 4, 0, 0, 0, 0, 0]);
    header.write(&mut frame[14..]).unwrap();
    lab.push(0, frame);
    assert_eq!(read_ipv4(&lab.one_sent(1)).1.options(), [7, 7, 8, 10, 0, 0, 1, 0]);
}

#[test]
fn the_router_itself_is_reached_with_the_last_hop() {
    let mut lab = Lab::default();
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    let header =
        ipv4::Header { ttl: 1, ..ipv4::Header::new(ipv4::ICMP, ip(10, 0, 0, 2), ip(10, 0, 1, 1), 9) };
    lab.push(0, ipv4_frame(0, header, &message));
    assert_eq!(read_icmp(&lab.one_sent(0)).1.kind, icmp::ECHO_REPLY);
}

#[test]
fn no_route() {
    let mut lab = Lab::default();
    // No matching prefix, a route without next hop, and a route by a NIC that does not exist.
    for destination in [ip(11, 1, 1, 1), ip(203, 0, 113, 5), ip(8, 8, 8, 8)] {
        lab.push(0, udp_frame(0, destination, 18));
        let (_, message, _) = error(&mut lab);
        assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::NET));
    }
    lab.only_drop("drop_no_route", 3);
}

#[test]
fn fragmentation_needed_tells_the_mtu() {
    let mut lab = Lab::default();
    for _ in 0..2 {
        let header =
            ipv4::Header { dont_fragment: true, ..udp_header(ip(10, 0, 0, 2), ip(172, 16, 0, 1), 1000) };
        lab.push(0, ipv4_frame(0, header, &datagram(1000)));
        let (header, message, quoted) = error(&mut lab);
        assert_eq!(
            (message.kind, message.code),
            (icmp::UNREACHABLE, icmp::unreachable::FRAGMENTATION_NEEDED)
        );
        assert_eq!((message.rest, header.total_len, quoted.len()), (576, 576, 548));
    }
    lab.only_drop("drop_mtu", 2);
    // A packet of exactly the MTU is forwarded.
    let header = ipv4::Header { dont_fragment: true, ..udp_header(ip(10, 0, 0, 2), ip(172, 16, 0, 1), 548) };
    lab.push(0, ipv4_frame(0, header, &datagram(548)));
    assert_eq!(lab.one_sent(2).len(), 590);
}

#[test]
fn no_error_about_an_error_a_later_fragment_or_a_broadcast() {
    let mut lab = Lab::default();
    let nowhere = ip(11, 1, 1, 1);
    let from = ip(10, 0, 0, 2);
    for kind in [3, 4, 5, 11, 12] {
        let message = icmp_message(kind, 0, 0, &[0; 28]);
        let header = ipv4::Header::new(ipv4::ICMP, from, nowhere, message.len() as u16);
        lab.push(0, ipv4_frame(0, header, &message));
    }
    // An ICMP message too short to determine its type.
    lab.push(0, ipv4_frame(0, ipv4::Header::new(ipv4::ICMP, from, nowhere, 3), &[8, 0, 0]));
    let later = ipv4::Header { fragment_offset: 3, ..udp_header(from, nowhere, 18) };
    lab.push(0, ipv4_frame(0, later, &datagram(18)));
    lab.only_drop("drop_no_route", 7);
    assert_eq!(lab.counters.originated_lost.get(), 0);
    lab.none_sent();
    // Errors may be sent about other ICMP messages.
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 0, &[0; 28]);
    let header = ipv4::Header::new(ipv4::ICMP, from, nowhere, message.len() as u16);
    lab.push(0, ipv4_frame(0, header, &message));
    error(&mut lab);
    // From an address that is not a single host.
    lab.push(0, ipv4_frame(0, udp_header(ip(10, 0, 0, 255), nowhere, 18), &datagram(18)));
    assert_eq!(lab.counter("drop_martian"), 1);
    lab.none_sent();
}

#[test]
fn no_error_about_a_datagram_to_a_broadcast_address() {
    let mut lab = Lab::default();
    lab.push(0, udp_frame(0, ip(10, 0, 0, 255), 18));
    lab.push(0, udp_frame(0, u32::MAX, 18));
    // To our own address, but in a link-layer broadcast.
    let mut frame = udp_frame(0, ip(10, 0, 0, 1), 18);
    frame[..6].fill(0xff);
    lab.push(0, frame);
    lab.only_drop("drop_local", 3);
    lab.none_sent();
}

#[test]
fn errors_are_limited_in_rate_for_each_nic() {
    let mut lab = Lab::default();
    lab.wait(0);
    for _ in 0..60 {
        lab.push(0, udp_frame(0, ip(11, 1, 1, 1), 18));
    }
    assert_eq!(lab.world.sent(0).len(), 50);
    assert_eq!(lab.counters.icmp_suppressed.get(), 10);
    lab.push(1, udp_frame(1, ip(11, 1, 1, 1), 18));
    assert_eq!(lab.world.sent(1).len(), 1);
    lab.wait(100);
    for _ in 0..20 {
        lab.push(0, udp_frame(0, ip(11, 1, 1, 1), 18));
    }
    assert_eq!(lab.world.sent(0).len(), 10);
    lab.only_drop("drop_no_route", 81);
}

#[test]
fn an_error_whose_own_way_is_unknown_is_lost_and_counted() {
    let mut lab = Lab::default();
    // There is no route back to the sender's address.
    let header = udp_header(ip(11, 1, 1, 1), ip(11, 2, 2, 2), 18);
    lab.push(0, ipv4_frame(0, header, &datagram(18)));
    lab.none_sent();
    assert_eq!(lab.counters.originated_lost.get(), 1);
    // The sender is behind a gateway that must be resolved first: the error waits.
    let header = udp_header(ip(198, 51, 100, 1), ip(11, 2, 2, 2), 18);
    lab.push(0, ipv4_frame(0, header, &datagram(18)));
    assert_eq!(lab.router.held_own(), 1);
    read_arp(&lab.one_sent(1));
}

#[test]
fn an_answer_to_ourselves_goes_nowhere() {
    let mut lab = Lab::default();
    // A spoofed sender that is local by the routes, though not by the addresses of the NICs.
    let source = ip(9, 9, 9, 9);
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    lab.push(0, ipv4_frame(0, ipv4::Header::new(ipv4::ICMP, source, ip(10, 0, 0, 1), 9), &message));
    lab.push(0, ipv4_frame(0, udp_header(source, ip(11, 1, 1, 1), 18), &datagram(18)));
    lab.none_sent();
    assert_eq!((lab.counters.consumed.get(), lab.counters.originated_lost.get()), (1, 2));
    lab.only_drop("drop_no_route", 1);
    assert_eq!(lab.router.held_own(), 0);
}
