//! Packets for the router itself.

use frame::ipv6::Fragment;

use super::*;

fn echo(payload: &[u8]) -> (icmpv6::Header, Vec<u8>) {
    (icmpv6::Header { kind: icmpv6::ECHO_REQUEST, code: 0, rest: 0x1234_0001 }, payload.to_vec())
}

#[test]
fn echo_is_answered_from_the_address_that_was_asked() {
    let mut lab = Lab::six();
    for (from, own) in
        [(ip6(0, 2), ip6(0, 1)), (ip6(0, 2), ip6(1, 1)), (ip6(0, 2), ipv6::link_local(own_mac(0)))]
    {
        let (header, payload) = echo(b"some octets");
        let message = message6((from, own), header, &payload);
        lab.push(0, frame6(0, ipv6::Header::new(next::ICMP, from, own, 0), &message));
        let frame = lab.one_sent(0);
        let (ip, reply, rest) = read_icmp6(&frame);
        assert_eq!((ip.source, ip.destination, ip.hop_limit), (own, from, 64));
        assert_eq!((reply.kind, reply.rest, rest), (icmpv6::ECHO_REPLY, 0x1234_0001, &b"some octets"[..]));
    }
    assert_eq!(lab.counters.consumed.get(), 3);
}

#[test]
fn echo_to_all_nodes_is_answered_from_an_own_address() {
    let mut lab = Lab::six();
    let (header, payload) = echo(b"x");
    let ends = (ip6(0, 2), ipv6::ALL_NODES);
    let message = message6(ends, header, &payload);
    let to = (ipv6::group_mac(ends.1), peer_mac(0));
    lab.push(0, frame6_from(to, ipv6::Header::new(next::ICMP, ends.0, ends.1, 0), &message));
    assert_eq!(read_icmp6(&lab.one_sent(0)).0.source, ip6(0, 1));
}

#[test]
fn echo_to_the_address_of_all_routers_is_answered_from_an_own_address() {
    let mut lab = Lab::six();
    let (header, payload) = echo(b"x");
    let ends = (ip6(0, 2), ip6(0, 0));
    let message = message6(ends, header, &payload);
    lab.push(0, frame6(0, ipv6::Header::new(next::ICMP, ends.0, ends.1, 0), &message));
    let frame = lab.one_sent(0);
    let (ip, reply, _) = read_icmp6(&frame);
    assert_eq!((ip.source, ip.destination, reply.kind), (ip6(0, 1), ends.0, icmpv6::ECHO_REPLY));
}

#[test]
fn echo_behind_extension_headers() {
    let mut lab = Lab::six();
    let ends = (ip6(0, 2), ip6(0, 1));
    let (header, payload) = echo(b"x");
    let message = message6(ends, header, &payload);
    // Destination options, a routing header that is at its end, an atomic fragment.
    let chain = [
        next::ROUTING,
        0,
        1,
        4,
        0,
        0,
        0,
        0,
        next::FRAGMENT,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        next::ICMP,
        0,
        0,
        0,
        0,
        0,
        0,
        9,
    ];
    let all = [&chain[..], &message].concat();
    lab.push(0, frame6(0, ipv6::Header::new(next::DESTINATION, ends.0, ends.1, 0), &all));
    let frame = lab.one_sent(0);
    let (ip, reply, rest) = read_icmp6(&frame);
    assert_eq!((ip.next_header, reply.kind, rest), (next::ICMP, icmpv6::ECHO_REPLY, &b"x"[..]));
}

/// Next header, payload, the ICMPv6 error that answers it (type, code, word), and the counter.
type Case<'a> = (u8, Vec<u8>, Option<(u8, u8, u32)>, &'a str);

#[test]
fn what_the_router_does_not_speak() {
    let ends = (ip6(0, 2), ip6(0, 1));
    let udp = datagram6(ends.0, ends.1, 18);
    let cases: [Case<'_>; 7] = [
        (next::UDP, udp.clone(), Some((1, 4, 0)), "drop_local"),
        (89, vec![0; 20], Some((4, 1, 6)), "drop_local"),
        (next::NONE, vec![], None, "drop_local"),
        // A routing header with a segment left, of the type that was abolished.
        (
            next::ROUTING,
            [&[next::UDP, 0, 0, 1, 0, 0, 0, 0][..], &udp].concat(),
            Some((4, 0, 42)),
            "drop_source_route",
        ),
        (
            next::DESTINATION,
            [&[next::UDP, 0, 0x85, 4, 0, 0, 0, 0][..], &udp].concat(),
            Some((4, 2, 42)),
            "drop_option",
        ),
        (next::DESTINATION, vec![next::UDP, 3, 1, 0], None, "drop_ip_header"),
        // Hop-by-hop options that are not the first header.
        (next::DESTINATION, [0, 0, 1, 4, 0, 0, 0, 0].repeat(2), Some((4, 1, 40)), "drop_ip_header"),
    ];
    for (protocol, payload, answer, cause) in cases {
        let mut lab = Lab::six();
        lab.push(0, frame6(0, ipv6::Header::new(protocol, ends.0, ends.1, 0), &payload));
        let sent = lab.world.sent(0);
        let seen = sent.first().map(|frame| {
            let (_, message, _) = read_icmp6(frame);
            (message.kind, message.code, message.rest)
        });
        assert_eq!(seen, answer, "{protocol} {payload:?}");
        lab.only_drop(cause, 1);
    }
}

/// Returns the frames of a packet in fragments of this many octets of data.
fn fragments(ends: (u128, u128), protocol: u8, whole: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = whole.len().div_ceil(size);
    let one = |(n, data): (usize, &[u8])| {
        let fragment = Fragment { offset: (n * size / 8) as u16, more: n + 1 < count, identification: 7 };
        let payload = [&fragment.octets(protocol)[..], data].concat();
        frame6(0, ipv6::Header::new(next::FRAGMENT, ends.0, ends.1, 0), &payload)
    };
    whole.chunks(size).enumerate().map(one).collect()
}

#[test]
fn an_echo_in_fragments_is_answered_in_fragments() {
    let mut lab = Lab::six();
    let ends = (ip6(0, 2), ip6(0, 1));
    let octets: Vec<u8> = (0..4000_u32).map(|n| (n * 7) as u8).collect();
    let (header, payload) = echo(&octets);
    let mut frames = fragments(ends, next::ICMP, &message6(ends, header, &payload), 1232);
    frames.rotate_left(1);
    let count = frames.len();
    for (n, frame) in frames.into_iter().enumerate() {
        lab.none_sent();
        lab.push(0, frame);
        assert_eq!(lab.router.held(), if n + 1 < count { n + 1 } else { 0 });
    }
    let mut whole = vec![];
    for frame in lab.world.sent(0) {
        let (_, packet) = read6(&frame);
        let upper = packet.upper().unwrap();
        let (fragment, _) = upper.fragment.unwrap();
        assert_eq!((usize::from(fragment.offset) * 8, upper.protocol), (whole.len(), next::ICMP));
        whole.extend(&packet.octets()[48..]);
    }
    let (reply, rest) = icmpv6::Header::parse(&whole, (ends.1, ends.0)).unwrap();
    assert_eq!((reply.kind, rest), (icmpv6::ECHO_REPLY, &octets[..]));
    assert_eq!(lab.counters.consumed.get(), count as u64);
}

#[test]
fn what_the_router_does_not_speak_is_reported_in_fragments_too() {
    let ends = (ip6(0, 2), ip6(0, 1));
    let behind_options = [&[next::UDP, 0, 1, 4, 0, 0, 0, 0][..], &[0; 1992]].concat();
    let cases = [
        (next::UDP, vec![0; 2000], (1, 4, 0)),
        (89, vec![0; 2000], (4, 1, 40)),
        (next::DESTINATION, behind_options, (1, 4, 0)),
    ];
    for ((protocol, whole, answer), last) in cases.iter().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut lab = Lab::six();
        let mut frames = fragments(ends, *protocol, whole, 1232);
        // Only the first fragment tells what it is.
        frames[1][ethernet::HEADER + ipv6::HEADER] = 253;
        frames.rotate_left(last);
        frames.into_iter().for_each(|frame| lab.push(0, frame));
        let frame = lab.one_sent(0);
        let (_, message, _) = read_icmp6(&frame);
        assert_eq!((message.kind, message.code, message.rest), *answer, "{protocol}");
        lab.only_drop("drop_local", 2);
        assert_eq!(lab.router.held(), 0);
    }
}

#[test]
fn a_first_fragment_without_all_headers_is_reported() {
    let ends = (ip6(0, 2), ip6(0, 1));
    // Destination options that end in the next fragment, and a part of a header of TCP.
    for (protocol, data) in [(next::DESTINATION, [next::UDP, 1, 1, 4, 0, 0, 0, 0]), (next::TCP, [0; 8])] {
        let mut lab = Lab::six();
        let fragment = Fragment { offset: 0, more: true, identification: 7 };
        let payload = [&fragment.octets(protocol)[..], &data].concat();
        lab.push(0, frame6(0, ipv6::Header::new(next::FRAGMENT, ends.0, ends.1, 0), &payload));
        let frame = lab.one_sent(0);
        let (_, message, _) = read_icmp6(&frame);
        assert_eq!((message.kind, message.code, message.rest), (icmpv6::PARAMETER_PROBLEM, 3, 0));
        lab.only_drop("drop_ip_header", 1);
        assert_eq!(lab.router.held(), 0);
    }
}

#[test]
fn fragments_that_cannot_be_put_together_are_reported() {
    let ends = (ip6(0, 2), ip6(0, 1));
    // Not a multiple of 8 octets before others, and more than 65535 octets in all.
    for (offset, more, len, at) in [(0, true, 15, 4), (8191, false, 8, 42)] {
        let mut lab = Lab::six();
        let fragment = Fragment { offset, more, identification: 7 };
        let payload = [&fragment.octets(next::UDP)[..], &[0; 16][..len]].concat();
        lab.push(0, frame6(0, ipv6::Header::new(next::FRAGMENT, ends.0, ends.1, 0), &payload));
        let frame = lab.one_sent(0);
        let (_, message, _) = read_icmp6(&frame);
        assert_eq!((message.kind, message.code, message.rest), (icmpv6::PARAMETER_PROBLEM, 0, at));
        lab.only_drop("drop_reassembly", 1);
        assert_eq!(lab.router.held(), 0);
    }
}

#[test]
fn what_stays_incomplete_is_reported_after_a_minute() {
    let mut lab = Lab::six();
    let ends = (ip6(0, 2), ip6(0, 1));
    let (header, payload) = echo(&[0; 3000]);
    let frames = fragments(ends, next::UDP, &message6(ends, header, &payload), 1232);
    lab.push(0, frames[0].clone());
    assert_eq!(lab.router.held(), 1);
    lab.wait(59_999);
    lab.none_sent();
    lab.wait(1);
    let frame = lab.one_sent(0);
    let (_, message, _) = read_icmp6(&frame);
    assert_eq!((message.kind, message.code), (icmpv6::TIME_EXCEEDED, 1));
    lab.only_drop("drop_reassembly", 1);
}
