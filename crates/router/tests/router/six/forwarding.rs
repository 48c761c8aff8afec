//! Forwarded packets, and packets that are not forwarded.

use frame::offload::{Gso, Offload};
use router::ReversePath;

use super::*;

/// Returns the single error that came back to the sender on NIC 0.
fn error(lab: &mut Lab) -> (icmpv6::Header, Vec<u8>) {
    let frame = lab.one_sent(0);
    let (header, message, quoted) = read_icmp6(&frame);
    assert_eq!((header.source, header.destination), (ip6(0, 1), ip6(0, 2)));
    assert!(header.total_len() <= 1280);
    (message, quoted.to_vec())
}

#[test]
fn a_packet_leaves_towards_its_gateway_with_one_hop_less() {
    let mut lab = Lab::six();
    let frame = udp6(0, BEYOND[0], 18);
    // The first frame takes the slow path and prepares the header, the others take the hot path.
    for _ in 0..3 {
        lab.push(0, frame.clone());
        let sent = lab.one_sent(1);
        let mut expected = frame.clone();
        expected[..12].copy_from_slice(&[peer_mac(1).0, own_mac(1).0].concat());
        expected[21] = 63;
        assert_eq!(sent, expected);
    }
    assert_eq!(lab.counters.forwarded.get(), 3);
    lab.only_drop("", 0);
}

#[test]
fn both_families_of_a_burst_leave_in_order() {
    let mut lab = Lab::six();
    lab.push(0, udp6(0, BEYOND[0], 18));
    lab.push(0, udp_frame(0, ip(192, 168, 1, 1), 18));
    lab.world.sent(1);
    for n in 0..64_u8 {
        let frame = match n % 3 {
            0 => udp6(0, BEYOND[0] + u128::from(n), 18),
            1 => udp_frame(0, ip(192, 168, 1, n), 18),
            // Options: the slow path.
            _ => frame6(
                0,
                ipv6::Header::new(next::HOP_BY_HOP, ip6(0, 2), BEYOND[0] + u128::from(n), 0),
                &[59, 0, 1, 4, 0, 0, 0, 0],
            ),
        };
        lab.world.rx[0].push_back(frame);
    }
    assert_eq!(lab.router.poll(&mut lab.world), 64);
    lab.balance();
    let sent = lab.world.sent(1);
    let last = |frame: &Vec<u8>| if frame[12] == 8 { frame[33] } else { frame[53].wrapping_sub(9) };
    assert_eq!(sent.iter().map(last).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
}

#[test]
fn a_connected_host_is_asked_for_by_its_solicited_node_group() {
    let mut lab = Lab::six();
    let host = ip6(1, 0x1234_5678);
    lab.push(0, udp6(0, host, 18));
    let frame = lab.one_sent(1);
    let (header, message, payload) = read_icmp6(&frame);
    assert_eq!(message.kind, frame::nd::SOLICIT);
    assert_eq!((header.source, header.destination), (ip6(1, 1), ipv6::solicited_node(host)));
    assert_eq!((read6(&frame).0.destination, header.hop_limit), (ipv6::group_mac(header.destination), 255));
    let solicit = frame::nd::Solicit::parse(payload).unwrap();
    assert_eq!((solicit.target, solicit.source_mac), (host, Some(own_mac(1))));
    assert_eq!(lab.router.held(), 1);
    lab.push(1, discovery::advert(HOST, host, true));
    assert_eq!(read6(&lab.one_sent(1)).0.destination, HOST);
    for _ in 0..2 {
        lab.push(0, udp6(0, host, 18));
        assert_eq!(read6(&lab.one_sent(1)).0.destination, HOST);
    }
}

#[test]
fn a_silent_gateway_is_given_up_and_the_sender_told() {
    let mut lab = Lab::six();
    lab.push(0, udp6(0, BEYOND[2], 18));
    for _ in 0..2 {
        assert_eq!(read_icmp6(&lab.one_sent(1)).1.kind, frame::nd::SOLICIT);
        lab.wait(1000);
    }
    assert_eq!(read_icmp6(&lab.one_sent(1)).1.kind, frame::nd::SOLICIT);
    lab.wait(1000);
    let (message, quoted) = error(&mut lab);
    assert_eq!((message.kind, message.code), (icmpv6::UNREACHABLE, icmpv6::unreachable::ADDRESS));
    assert_eq!(quoted, udp6(0, BEYOND[2], 18)[14..]);
    lab.only_drop("drop_no_neighbour", 1);
}

/// Asserts that a frame tells the peer on NIC 1 that `host`, whose Ethernet address is [`HOST`], is on its link, and quotes `about`.
fn is_redirect(told: &[u8], host: u128, about: &[u8]) {
    let (header, message, payload) = read_icmp6(told);
    assert_eq!((header.source, header.destination), (ipv6::link_local(own_mac(1)), ip6(1, 2)));
    assert_eq!((read6(told).0.destination, header.hop_limit), (peer_mac(1), 255));
    assert_eq!((message.kind, message.code), (icmpv6::REDIRECT, 0));
    assert_eq!(payload[..32], [host.to_be_bytes(); 2].concat());
    let options: Vec<_> = frame::nd::Options::new(&payload[32..]).map(Result::unwrap).collect();
    assert_eq!(options[0].mac(frame::nd::option::TARGET_MAC), Some(HOST));
    // A packet of 66 octets, in units of 8.
    assert_eq!(options[1].kind, frame::nd::option::REDIRECTED);
    assert_eq!(options[1].body[6..], about[14..14 + 64]);
}

#[test]
fn a_redirect_is_sent_only_if_it_is_wanted() {
    let host = ip6(1, 0x99);
    for redirects in [false, true] {
        let mut lab = Lab::six_with(&Wanted { redirects, ..USUAL });
        let about = udp6(1, host, 18);
        lab.push(1, about.clone());
        assert_eq!(read_icmp6(&lab.one_sent(1)).1.kind, frame::nd::SOLICIT);
        lab.push(1, discovery::advert(HOST, host, true));
        let frames = lab.world.sent(1);
        assert_eq!((frames.len(), lab.counter("redirects")), (1 + usize::from(redirects), 1));
        let (last, before) = frames.split_last().unwrap();
        assert_eq!(read6(last).1.header().hop_limit, 63);
        before.iter().for_each(|told| is_redirect(told, host, &about));
        // By a gateway of which the router knows no link-local address, by which hosts know it.
        lab.push(1, udp6(1, BEYOND[0], 18));
        // From another link than that of the next hop.
        lab.push(0, udp6(0, host, 18));
        assert_eq!((lab.world.sent(1).len(), lab.counter("redirects")), (2, 1));
        lab.only_drop("", 0);
    }
}

#[test]
fn what_is_too_big_is_never_fragmented() {
    let mut lab = Lab::six();
    for _ in 0..2 {
        lab.push(0, udp6(0, BEYOND[1], 1400));
        let (message, quoted) = error(&mut lab);
        assert_eq!((message.kind, message.code, message.rest), (icmpv6::TOO_BIG, 0, 1280));
        assert_eq!(quoted.len(), 1280 - 48);
    }
    lab.only_drop("drop_mtu", 2);
    lab.push(0, udp6(0, BEYOND[1], 1280 - 48));
    assert_eq!(lab.one_sent(2).len(), 1294);
}

#[test]
fn a_hop_limit_that_expires_and_a_missing_route() {
    let mut lab = Lab::six();
    for hop_limit in [0, 1] {
        let header = ipv6::Header { hop_limit, ..ipv6::Header::new(next::UDP, ip6(0, 2), BEYOND[0], 0) };
        lab.push(0, frame6(0, header, &datagram6(ip6(0, 2), BEYOND[0], 18)));
        let (message, _) = error(&mut lab);
        assert_eq!((message.kind, message.code), (icmpv6::TIME_EXCEEDED, 0));
    }
    for destination in [0x2001_0db8_0004 << 80, 0x3fff << 112] {
        lab.push(0, udp6(0, destination, 18));
        let (message, _) = error(&mut lab);
        assert_eq!((message.kind, message.code), (icmpv6::UNREACHABLE, icmpv6::unreachable::NO_ROUTE));
    }
    assert_eq!((lab.counter("drop_ttl"), lab.counter("drop_no_route")), (2, 2));
}

#[test]
fn errors_are_limited_in_rate_for_each_nic() {
    let (mut lab, nowhere) = (Lab::six(), 0x3fff << 112);
    for _ in 0..60 {
        lab.push(0, udp6(0, nowhere, 18));
    }
    assert_eq!((lab.world.sent(0).len(), lab.counters.icmp_suppressed.get()), (50, 10));
    lab.push(1, udp6(1, nowhere, 18));
    assert_eq!(lab.world.sent(1).len(), 1);
    lab.wait(100);
    for _ in 0..20 {
        lab.push(0, udp6(0, nowhere, 18));
    }
    assert_eq!(lab.world.sent(0).len(), 10);
    lab.only_drop("drop_no_route", 81);
}

#[test]
fn an_error_is_reported_about_a_later_fragment_too() {
    let mut lab = Lab::six();
    let fragment = ipv6::Fragment { offset: 8, more: false, identification: 3 };
    let payload = [&fragment.octets(next::UDP)[..], &[0; 64]].concat();
    let header = ipv6::Header { hop_limit: 1, ..ipv6::Header::new(next::FRAGMENT, ip6(0, 2), BEYOND[0], 0) };
    lab.push(0, frame6(0, header, &payload));
    assert_eq!(error(&mut lab).0.kind, icmpv6::TIME_EXCEEDED);
}

#[test]
fn a_route_may_refuse_its_packets() {
    use icmpv6::unreachable::{NO_ROUTE, PROHIBITED};
    for (n, code) in [(0x11, None), (0x12, Some(NO_ROUTE)), (0x13, Some(PROHIBITED))] {
        let mut lab = Lab::six();
        lab.push(0, udp6(0, (0x2001_0db8_0000 | n) << 80 | 9, 18));
        let sent = lab.world.sent(0);
        assert_eq!(sent.first().map(|frame| read_icmp6(frame).1.code), code);
        lab.only_drop("drop_refused", 1);
    }
}

#[test]
fn a_source_needs_a_way_back() {
    // Sources behind NIC 0, behind NIC 2, without a route, and whose route refuses packets.
    let sources = [ip6(0, 2), BEYOND[1], 0x3fff << 112, 0x2001_0db8_0011 << 80 | 9];
    for (reverse_path, passing) in [(ReversePath::Off, 4), (ReversePath::Loose, 2), (ReversePath::Strict, 1)]
    {
        let mut lab = Lab::six_with(&Wanted { reverse_path, ..USUAL });
        // Twice: at first the header is not prepared.
        for _ in 0..2 {
            for source in sources {
                let header = ipv6::Header::new(next::UDP, source, BEYOND[0], 0);
                lab.push(0, frame6(0, header, &datagram6(source, BEYOND[0], 18)));
            }
            assert_eq!(lab.world.sent(1).len(), passing, "{reverse_path:?}");
        }
        lab.only_drop("drop_reverse_path", 2 * (4 - passing as u64));
        lab.none_sent();
    }
}

#[test]
fn what_belongs_to_one_link_stays_there() {
    let mut lab = Lab::six();
    let near = ipv6::link_local(peer_mac(0));
    let header = ipv6::Header::new(next::UDP, near, BEYOND[0], 0);
    lab.push(0, frame6(0, header, &datagram6(near, BEYOND[0], 18)));
    let frame = lab.one_sent(0);
    let (header, solicit, _) = read_icmp6(&frame);
    assert_eq!(solicit.kind, frame::nd::SOLICIT, "the error waits for its receiver");
    assert_eq!((header.source, lab.router.held_own()), (ipv6::link_local(own_mac(0)), 1));
    for (source, destination) in [
        (ip6(0, 2), ipv6::LINK_LOCAL | 7),
        (1, BEYOND[0]),
        (0, BEYOND[0]),
        (0xff02 << 112 | 1, BEYOND[0]),
        (0xffff_0a00_0001, BEYOND[0]),
    ] {
        let header = ipv6::Header::new(next::UDP, source, destination, 0);
        lab.push(0, frame6(0, header, &datagram6(source, destination, 18)));
        lab.none_sent();
    }
    lab.only_drop("drop_martian", 6);
}

#[test]
fn own_sources_groups_and_broken_headers() {
    let mut lab = Lab::six();
    let spoofed = ipv6::Header::new(next::UDP, ip6(1, 1), BEYOND[0], 0);
    lab.push(0, frame6(0, spoofed, &datagram6(ip6(1, 1), BEYOND[0], 18)));
    let group = 0xff02 << 112 | 0xfb;
    let header = ipv6::Header::new(next::UDP, ip6(0, 2), group, 0);
    lab.push(0, frame6_from((ipv6::group_mac(group), peer_mac(0)), header, &datagram(18)));
    let mut broken = udp6(0, BEYOND[0], 18);
    broken[18..20].copy_from_slice(&900_u16.to_be_bytes());
    lab.push(0, broken);
    let mut version = udp6(0, BEYOND[0], 18);
    version[14] = 0x45;
    lab.push(0, version);
    lab.none_sent();
    let counted = ["drop_own_source", "drop_multicast", "drop_ip_header"].map(|name| lab.counter(name));
    assert_eq!(counted, [1, 1, 2]);
}

#[test]
fn the_address_of_all_routers_may_be_a_source_but_gets_no_error() {
    let mut lab = Lab::six();
    let source = ip6(0, 0);
    let from_there = |destination, hop_limit| {
        let header = ipv6::Header { hop_limit, ..ipv6::Header::new(next::UDP, source, destination, 0) };
        frame6(0, header, &datagram6(source, destination, 18))
    };
    slow_ones();
    for round in 0..3 {
        lab.push(0, from_there(BEYOND[0], 64));
        assert_eq!(read6(&lab.one_sent(1)).1.header().source, source);
        assert_eq!(slow_ones() == 0, round > 0, "the hot path does as the slow one");
    }
    lab.push(0, from_there(BEYOND[0], 1));
    lab.push(0, from_there(ip6(0, 1), 64));
    lab.none_sent();
    assert_eq!(lab.counters.forwarded.get(), 3);
    assert_eq!(["drop_ttl", "drop_local"].map(|name| lab.counter(name)), [1, 1]);
}

#[test]
fn a_router_without_ipv6_speaks_none() {
    let mut lab = Lab::default();
    lab.push(0, udp6(0, BEYOND[0], 18));
    lab.only_drop("drop_protocol", 1);
    assert_eq!(lab.router.next_deadline(), None);
}

#[test]
fn ipv4_goes_by_a_gateway_with_an_ipv6_address() {
    let mut lab = Lab::six();
    for _ in 0..2 {
        lab.push(0, udp_frame(0, ip(21, 1, 1, 1), 18));
        let sent = lab.one_sent(1);
        let (ethernet, packet) = read_ipv4(&sent);
        assert_eq!((ethernet.destination, packet.header().ttl), (peer_mac(1), 63));
    }
}

#[test]
fn options_on_the_way_are_obeyed() {
    let cases = [
        // Kind of the option, and whether the packet is forwarded, dropped, or answered.
        (0x1e, "forwarded"),
        (0x5e, "dropped"),
        (0x9e, "answered"),
        (0xde, "answered"),
    ];
    for (kind, fate) in cases {
        let mut lab = Lab::six();
        let payload =
            [&[next::UDP, 0, kind, 4, 0, 0, 0, 0][..], &datagram6(ip6(0, 2), BEYOND[0], 18)].concat();
        lab.push(0, frame6(0, ipv6::Header::new(next::HOP_BY_HOP, ip6(0, 2), BEYOND[0], 0), &payload));
        match fate {
            "forwarded" => drop(lab.one_sent(1)),
            "dropped" => lab.none_sent(),
            _ => {
                let (message, _) = error(&mut lab);
                assert_eq!((message.kind, message.code, message.rest), (icmpv6::PARAMETER_PROBLEM, 2, 42));
            }
        }
        assert_eq!(lab.counter("drop_option"), u64::from(fate != "forwarded"));
    }
}

#[test]
fn a_large_frame_goes_on_as_it_is_if_its_segments_fit() {
    let payload = 40_000;
    let mut segment = vec![7; 20 + payload];
    segment[12] = 5 << 4;
    let destination = BEYOND[0];
    let frame = frame6(0, ipv6::Header::new(next::TCP, ip6(0, 2), destination, 0), &segment);
    let order = |size: u16| Offload::checksum(54, 16).unwrap().with_gso(Gso::Tcp6, size, 74);
    for (size, fits) in [(1440, true), (1441, false)] {
        for warm in [false, true] {
            let mut lab = Lab::six();
            if warm {
                lab.push(0, udp6(0, destination, 18));
                lab.one_sent(1);
            }
            lab.world.order = order(size);
            lab.push(0, frame.clone());
            if fits {
                assert_eq!(lab.world.left.last(), Some(&order(size)), "what is left to be done stays so");
                assert_eq!(lab.one_sent(1)[54..], frame[54..]);
            } else {
                let (message, _) = error(&mut lab);
                assert_eq!((message.kind, message.rest), (icmpv6::TOO_BIG, 1500));
            }
        }
    }
}
