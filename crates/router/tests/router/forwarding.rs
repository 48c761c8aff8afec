//! Forwarded packets, their changes, and packets that are not forwarded.

use frame::{Mac, icmp, ipv4};
use router::{Neighbour, Router};

use crate::world::*;

#[test]
fn a_packet_leaves_towards_its_gateway_one_hop_older() {
    let mut lab = Lab::default();
    let frame = udp_frame(0, ip(192, 168, 1, 1), 18);
    // The first frame takes the slow path and prepares the header, the others take the hot path.
    for _ in 0..3 {
        lab.push(0, frame.clone());
        let sent = lab.one_sent(1);
        let (ethernet, packet) = read_ipv4(&sent);
        assert_eq!((ethernet.destination, ethernet.source), (peer_mac(1), own_mac(1)));
        assert_eq!(packet.header().ttl, 63);
        let mut expected = frame.clone();
        expected[..12].copy_from_slice(&[peer_mac(1).0, own_mac(1).0].concat());
        ipv4::Header { ttl: 63, ..udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, 1), 18) }
            .write(&mut expected[14..])
            .unwrap();
        assert_eq!(sent, expected);
    }
    assert_eq!(lab.counters.forwarded.get(), 3);
    lab.only_drop("", 0);
}

#[test]
fn the_longest_prefix_decides() {
    let mut lab = Lab::default();
    for _ in 0..2 {
        lab.push(0, udp_frame(0, ip(192, 168, 7, 1), 18));
        lab.one_sent(2);
        lab.push(0, udp_frame(0, ip(192, 168, 8, 1), 18));
        lab.one_sent(1);
    }
}

#[test]
fn connected_hosts_are_their_own_next_hop() {
    let mut lab = Lab::default();
    let host = Mac([2, 0, 0, 0, 0x30, 9]);
    assert!(lab.neighbours.add_static(Neighbour { nic: 1, ip: ip(10, 0, 1, 9).into(), mac: host }));
    for _ in 0..2 {
        lab.push(0, udp_frame(0, ip(10, 0, 1, 2), 18));
        assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, peer_mac(1));
        lab.push(0, udp_frame(0, ip(10, 0, 1, 9), 18));
        assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, host);
    }
}

#[test]
fn a_packet_may_leave_by_the_nic_it_came_from() {
    let mut lab = Lab::default();
    lab.push(1, udp_frame(1, ip(192, 168, 1, 1), 18));
    lab.one_sent(1);
    assert_eq!((lab.counters.forwarded.get(), lab.counter("redirects")), (1, 1));
}

#[test]
fn options_are_forwarded() {
    let mut lab = Lab::default();
    let header = ipv4::Header {
        header_len: 24,
        total_len: 24 + 26,
        ..udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, 1), 18)
    };
    lab.push(0, ipv4_frame(0, header, &datagram(18)));
    let sent = lab.one_sent(1);
    let (_, packet) = read_ipv4(&sent);
    assert_eq!(packet.options(), [0; 4]);
    assert_eq!((packet.header().ttl, packet.payload()), (63, &datagram(18)[..]));
}

#[test]
fn order_is_kept_between_the_hot_and_the_slow_path() {
    let mut lab = Lab::default();
    lab.push(0, udp_frame(0, ip(192, 168, 1, 1), 18));
    lab.one_sent(1);
    for n in 0..64u16 {
        let header_len = if n % 3 == 0 { 24 } else { 20 };
        let header = ipv4::Header {
            header_len,
            total_len: u16::from(header_len) + 26,
            identification: n,
            ..udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, 1), 18)
        };
        lab.world.rx[0].push_back(ipv4_frame(0, header, &datagram(18)));
    }
    assert_eq!(lab.router.poll(&mut lab.world), 64);
    let seen: Vec<_> =
        lab.world.sent(1).iter().map(|frame| read_ipv4(frame).1.header().identification).collect();
    assert_eq!(seen, (0..64).collect::<Vec<_>>());
}

#[test]
fn a_burst_may_leave_by_several_nics() {
    let mut lab = Lab::default();
    for n in 0..64 {
        let to = if n % 2 == 0 { ip(192, 168, 1, n) } else { ip(172, 16, 0, n) };
        lab.world.rx[0].push_back(udp_frame(0, to, 18));
        lab.world.rx[1].push_back(udp_frame(1, to, 18));
    }
    assert_eq!(lab.router.poll(&mut lab.world), 128);
    lab.balance();
    assert_eq!((lab.world.sent(1).len(), lab.world.sent(2).len()), (64, 64));
    assert_eq!(lab.counters.forwarded.get(), 128);
}

#[test]
fn more_than_a_burst_for_one_nic_is_sent_in_order() {
    let mut lab = Lab::default();
    for n in 0..64 {
        for nic in 0..3 {
            lab.world.rx[usize::from(nic)].push_back(udp_frame(nic, ip(192, 168, 1, n), 18));
        }
    }
    assert_eq!(lab.router.poll(&mut lab.world), 192);
    lab.balance();
    let sent = lab.world.sent(1);
    assert_eq!(sent.len(), 192);
    let seen: Vec<_> = sent.iter().map(|frame| read_ipv4(frame).1.header().destination & 0xff).collect();
    assert_eq!(seen, (0..3).flat_map(|_| 0..64).collect::<Vec<_>>());
}

#[test]
fn padding_beyond_the_next_mtu_is_cut_off() {
    let mut lab = Lab::default();
    let mut frame = udp_frame(0, ip(172, 16, 0, 1), 18);
    frame.resize(1000, 7);
    for _ in 0..2 {
        lab.push(0, frame.clone());
        assert_eq!(lab.one_sent(2).len(), 60);
    }
}

#[test]
fn frames_for_others_are_not_ours() {
    let mut lab = Lab::default();
    lab.warm_up();
    let mut frame = udp_frame(0, ip(192, 168, 1, 1), 18);
    frame[5] ^= 1;
    lab.push(0, frame.clone());
    // From a group address, and shorter than a header.
    frame[5] ^= 1;
    frame[6] |= 1;
    lab.push(0, frame);
    lab.push(0, vec![2; 13]);
    lab.push(0, vec![]);
    lab.only_drop("drop_ethernet", 4);
    lab.none_sent();
}

#[test]
fn other_protocols_are_not_spoken() {
    let mut lab = Lab::default();
    lab.warm_up();
    for ethertype in [0x86ddu16, 0x8100, 0x88cc, 46] {
        let mut frame = udp_frame(0, ip(192, 168, 1, 1), 18);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        lab.push(0, frame);
    }
    lab.only_drop("drop_protocol", 4);
    lab.none_sent();
}

#[test]
fn broken_ip_headers_are_dropped() {
    let good = udp_frame(0, ip(192, 168, 1, 1), 18);
    // A wrong version, a short header, a short and a long total length, a wrong checksum.
    let changes: [(usize, &[u8]); 6] =
        [(14, &[0x55]), (14, &[0x44]), (16, &[0, 19]), (16, &[0, 47]), (24, &[1]), (14, &[0x4f, 1])];
    let mut lab = Lab::default();
    lab.warm_up();
    for (n, (at, octets)) in (1..).zip(changes) {
        let mut frame = good.clone();
        frame[at..at + octets.len()].copy_from_slice(octets);
        lab.push(0, frame);
        lab.only_drop("drop_ip_header", n);
    }
    // Truncated in the middle of the header, although octets after the frame's end would complete it.
    lab.push(0, good[..33].to_vec());
    lab.only_drop("drop_ip_header", 7);
    lab.none_sent();
}

#[test]
fn a_wrong_total_length_is_dropped_even_with_the_right_checksum() {
    let mut lab = Lab::default();
    lab.warm_up();
    // Shorter than the header, and longer than the frame.
    for (n, total) in [(1, 19), (2, 47)] {
        let mut frame = udp_frame(0, ip(192, 168, 1, 1), 18);
        frame[16..18].copy_from_slice(&[0, total]);
        frame[24..26].fill(0);
        let sum = frame::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        lab.push(0, frame);
        lab.only_drop("drop_ip_header", n);
    }
    lab.none_sent();
}

#[test]
fn martians_are_dropped() {
    let mut lab = Lab::default();
    lab.warm_up();
    let good = ip(192, 168, 1, 1);
    let sources = [ip(0, 1, 2, 3), ip(127, 0, 0, 1), ip(224, 0, 0, 5), ip(240, 0, 0, 1), u32::MAX];
    for source in sources {
        lab.push(0, ipv4_frame(0, udp_header(source, good, 18), &datagram(18)));
    }
    for destination in [ip(0, 0, 0, 0), ip(127, 0, 0, 1), ip(224, 0, 0, 5), ip(239, 0, 0, 1)] {
        lab.push(0, udp_frame(0, destination, 18));
    }
    lab.only_drop("drop_martian", 9);
    // Unicast in a link-layer broadcast, and a directed broadcast of another network.
    let mut frame = udp_frame(0, good, 18);
    frame[..6].fill(0xff);
    lab.push(0, frame);
    lab.push(0, udp_frame(0, ip(10, 0, 1, 255), 18));
    lab.only_drop("drop_martian", 11);
    lab.none_sent();
}

#[test]
fn what_claims_to_come_from_the_router_is_dropped() {
    let mut lab = Lab::default();
    lab.warm_up();
    let mut dropped = 0;
    // Sources: addresses of the NIC that the packet arrives at and of others. Destinations: to be forwarded, the router
    // itself, without a route; also with options. No error is sent for any of them.
    for source in [ip(10, 0, 0, 1), ip(10, 0, 1, 1), ip(10, 0, 2, 1)] {
        for destination in [ip(192, 168, 1, 1), ip(10, 0, 0, 1), ip(11, 1, 1, 1)] {
            lab.push(0, ipv4_frame(0, udp_header(source, destination, 18), &datagram(18)));
            let header = udp_header(source, destination, 18);
            let optioned = ipv4::Header { header_len: 24, total_len: header.total_len + 4, ..header };
            lab.push(0, ipv4_frame(0, optioned, &datagram(18)));
            let echo = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
            lab.push(0, ipv4_frame(0, ipv4::Header::new(ipv4::ICMP, source, destination, 9), &echo));
            dropped += 3;
        }
    }
    lab.only_drop("drop_own_source", dropped);
    lab.none_sent();
}

#[test]
fn what_claims_to_come_from_a_whole_network_is_dropped() {
    let mut lab = Lab::default();
    lab.warm_up();
    let sources = [ip(10, 0, 0, 0), ip(10, 0, 0, 255), ip(10, 0, 1, 0), ip(10, 0, 1, 255)];
    for source in sources {
        lab.push(0, ipv4_frame(0, udp_header(source, ip(192, 168, 1, 1), 18), &datagram(18)));
        lab.push(0, ipv4_frame(0, udp_header(source, ip(10, 0, 0, 1), 18), &datagram(18)));
    }
    lab.only_drop("drop_martian", 2 * sources.len() as u64);
    lab.none_sent();
}

#[test]
fn no_host_gets_the_packets_of_another() {
    let mut lab = Lab::default();
    let known = ip(20, 0, 0, 2);
    assert!(lab.neighbours.add_static(Neighbour { nic: 1, ip: known.into(), mac: peer_mac(1) }));
    lab.push(0, udp_frame(0, known, 18));
    lab.one_sent(1);
    // More hosts than there are entries for prepared headers.
    for n in 0..3000u16 {
        let [c, d] = (n + 3).to_be_bytes();
        lab.push(0, udp_frame(0, ip(20, 0, c, d), 18));
    }
    assert_eq!(lab.counters.forwarded.get(), 1);
}

#[test]
fn a_new_neighbour_address_is_used_at_once() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 5);
    let macs = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
    for mac in macs {
        lab.push(1, arp_reply(1, mac, host));
        for _ in 0..2 {
            lab.push(0, udp_frame(0, host, 18));
            assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, mac);
        }
    }
}

#[test]
fn the_router_fits_a_small_stack() {
    assert!(size_of::<Router<'static, Octets, List>>() < 40 << 10);
    assert!(size_of::<router::Interfaces>() < 72 << 10);
    assert!(size_of::<router::Waiting<Octets>>() < 40 << 10);
    assert!(size_of::<router::Adjacencies>() <= 160 << 10);
    assert!(size_of::<router::Neighbours>() <= 512);
    assert_eq!(size_of::<router::Bucket>(), 8 * 48);
}
