//! Frames with a missing checksum, or to be segmented: which are forwarded unchanged, which are refused, and which are
//! completed here.

use frame::offload::{Gso, Offload};
use frame::{checksum, ethernet, icmp, ipv4, tcp, udp};

use crate::world::*;

/// Offset in a frame of the transport header of a packet without options.
const TRANSPORT: usize = ethernet::HEADER + ipv4::HEADER;
/// Destinations behind NIC 1, whose MTU is 1500, and NIC 2, whose MTU is 576.
const WIDE: u32 = ip(192, 168, 1, 1);
const NARROW: u32 = ip(172, 16, 0, 1);

/// Returns the value in the field of a missing checksum: the sum of the pseudo header.
fn pseudo(header: &ipv4::Header, len: usize) -> u16 {
    let addresses = [header.source.to_be_bytes(), header.destination.to_be_bytes()].concat();
    let sum = checksum::sum(u16::from(header.protocol), &addresses);
    checksum::sum(sum, &(len as u16).to_be_bytes())
}

/// Returns true if the transport checksum of a packet is correct.
fn is_right(packet: &ipv4::Packet<'_>) -> bool {
    checksum::sum(pseudo(packet.header(), packet.payload().len()), packet.payload()) == 0xffff
}

/// Returns a TCP frame with `payload` octets of payload from 10.0.0.2.
fn tcp_frame(destination: u32, payload: usize, dont_fragment: bool) -> Vec<u8> {
    let len = tcp::HEADER + payload;
    let header = ipv4::Header {
        dont_fragment,
        identification: 7,
        ..ipv4::Header::new(ipv4::TCP, ip(10, 0, 0, 2), destination, len as u16)
    };
    let mut segment: Vec<u8> = (0..len).map(|n| ((n * 31) >> 3) as u8).collect();
    segment[..2].copy_from_slice(&4000u16.to_be_bytes());
    segment[4..8].copy_from_slice(&1000u32.to_be_bytes());
    segment[12..14].copy_from_slice(&[5 << 4, tcp::ACK]);
    segment[16..18].copy_from_slice(&pseudo(&header, len).to_be_bytes());
    ipv4_frame(0, header, &segment)
}

fn tcp_order(size: u16) -> Offload {
    Offload::checksum(TRANSPORT as u16, 16).unwrap().with_gso(Gso::Tcp4, size, 54)
}

/// Returns a UDP frame whose checksum is missing.
fn udp_order_frame(destination: u32, payload: usize) -> Vec<u8> {
    let header = udp_header(ip(10, 0, 0, 2), destination, payload);
    let mut octets = datagram(payload);
    let sum = pseudo(&header, octets.len());
    octets[6..8].copy_from_slice(&sum.to_be_bytes());
    ipv4_frame(0, header, &octets)
}

fn udp_order() -> Offload {
    Offload::checksum(TRANSPORT as u16, 6).unwrap()
}

/// Creates a router whose received frames carry this offload metadata, with its headers prepared or not.
fn lab(order: Offload, warm: bool) -> Lab {
    let mut lab = Lab::default();
    if warm {
        lab.warm_up();
    }
    lab.world.order = order;
    lab.world.left.clear();
    lab
}

#[test]
fn a_large_frame_goes_on_as_it_is() {
    for (warm, payload) in [(true, 64_000), (false, 64_000), (true, 1900), (false, 1900), (true, 65_495)] {
        let frame = tcp_frame(WIDE, payload, true);
        let mut lab = lab(tcp_order(1448), warm);
        lab.push(0, frame.clone());
        assert_eq!(lab.world.left, [tcp_order(1448)], "what is left to be done stays so");
        let sent = lab.one_sent(1);
        let (ethernet, packet) = read_ipv4(&sent);
        assert_eq!((ethernet.destination, ethernet.source), (peer_mac(1), own_mac(1)));
        assert_eq!((packet.header().ttl, usize::from(packet.header().total_len)), (63, 40 + payload));
        assert_eq!(sent[TRANSPORT..], frame[TRANSPORT..], "nothing behind the IP header has changed");
        lab.only_drop("", 0);
    }
}

#[test]
fn its_segments_are_what_must_fit() {
    // An MTU of 576 octets is 20 + 20 + 536.
    for (size, fits) in [(536, true), (537, false)] {
        for warm in [true, false] {
            let mut lab = lab(tcp_order(size), warm);
            lab.push(0, tcp_frame(NARROW, 3000, true));
            if fits {
                assert_eq!(lab.one_sent(2).len(), 54 + 3000);
                lab.only_drop("", 0);
            } else {
                lab.one_sent(0);
                lab.only_drop("drop_mtu", 1);
            }
        }
    }
}

#[test]
fn options_of_tcp_count() {
    let mut frame = tcp_frame(NARROW, 3000, true);
    frame[TRANSPORT + 12] = 8 << 4;
    let mut lab = lab(tcp_order(524), true);
    lab.push(0, frame.clone());
    assert_eq!(lab.one_sent(2).len(), frame.len());
    lab.world.order = tcp_order(525);
    lab.push(0, frame);
    lab.only_drop("drop_mtu", 1);
}

#[test]
fn datagrams_too() {
    let order = udp_order().with_gso(Gso::Udp, 548, 42);
    let mut lab = lab(order, true);
    let frame = udp_order_frame(NARROW, 5 * 548);
    lab.push(0, frame.clone());
    assert_eq!(lab.world.left, [order]);
    assert_eq!(lab.one_sent(2)[TRANSPORT..], frame[TRANSPORT..]);
    lab.world.order = udp_order().with_gso(Gso::Udp, 549, 42);
    lab.push(0, frame);
    assert_eq!(lab.counters.forwarded.get(), 4, "the datagrams may be fragmented");
    let sent = lab.world.sent(2);
    assert_eq!(sent.len(), 2 * 4 + 1, "four of 549 octets of payload in two fragments each, and one of 544");
    lab.only_drop("", 0);
}

#[test]
fn the_sender_is_told_what_would_have_gone_on() {
    let mut lab = lab(tcp_order(1448), false);
    let frame = tcp_frame(NARROW, 20_000, true);
    lab.push(0, frame.clone());
    assert_eq!(lab.world.left, [Offload::NONE]);
    let error = lab.one_sent(0);
    let (_, message, quoted) = read_icmp(&error);
    assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::FRAGMENTATION_NEEDED));
    assert_eq!(message.rest, 576);
    let header = *ipv4::Packet::parse_quoted(quoted).unwrap().header();
    assert_eq!((header.total_len, header.ttl), (1488, 64), "the first segment");
    assert_eq!(quoted.len(), 548);
    let mut segment = frame[TRANSPORT..TRANSPORT + 1468].to_vec();
    segment[16..18].copy_from_slice(&quoted[36..38]);
    assert_eq!(checksum::sum(pseudo(&header, 1468), &segment), 0xffff, "its checksum is filled in");
    assert!(checksum::holds(&quoted[..20]));
}

#[test]
fn what_may_be_fragmented_is_cut_here() {
    for payload in [1448, 20_000] {
        let mut lab = lab(tcp_order(1448), true);
        let frame = tcp_frame(NARROW, payload, false);
        lab.push(0, frame.clone());
        let mut whole = Vec::new();
        let mut packet: Vec<u8> = Vec::new();
        assert!(lab.world.left.iter().all(|left| left.is_none()));
        let sent = lab.world.sent(2);
        for fragment in &sent {
            let (ethernet, part) = read_ipv4(fragment);
            let header = *part.header();
            assert_eq!((ethernet.destination, header.ttl), (peer_mac(2), 63));
            assert!(header.total_len <= 576 && usize::from(header.fragment_offset) * 8 == packet.len());
            packet.extend_from_slice(part.payload());
            if !header.more_fragments {
                assert_eq!(checksum::sum(pseudo(&header, packet.len()), &packet), 0xffff);
                let sequence = u32::from_be_bytes(packet[4..8].try_into().unwrap());
                assert_eq!(sequence as usize, 1000 + whole.len());
                whole.extend_from_slice(&packet[20..]);
                packet.clear();
            }
        }
        assert_eq!(whole, frame[TRANSPORT + 20..]);
        // The frame itself counts as forwarded, and all resulting packets but the first as originated.
        let made = 6 + sent.len() as u64 - 1;
        assert_eq!((lab.counters.forwarded.get(), lab.counters.originated.get()), (3, made));
        lab.only_drop("", 0);
    }
}

#[test]
fn without_buffers_it_is_lost() {
    for free in [0, 1, 5, 40] {
        let mut lab = lab(tcp_order(1448), true);
        lab.world.free = free;
        lab.push(0, tcp_frame(NARROW, 20_000, false));
        assert!(lab.world.out == 0);
        let lost = lab.counters.drop_no_memory.get() + lab.counters.originated_lost.get();
        assert!(lost > 0, "with {free} buffers");
    }
}

#[test]
fn an_order_that_does_not_fit_is_not_cut() {
    let mut lab = lab(Offload::checksum(60, 16).unwrap().with_gso(Gso::Tcp4, 1448, 54), true);
    lab.push(0, tcp_frame(NARROW, 20_000, false));
    lab.only_drop("drop_mtu", 1);
    lab.none_sent();
}

#[test]
fn a_checksum_is_left_to_be_filled_in() {
    let mut lab = lab(udp_order(), true);
    let frame = udp_order_frame(WIDE, 700);
    lab.push(0, frame.clone());
    assert_eq!(lab.world.left, [udp_order()]);
    assert_eq!(lab.one_sent(1)[TRANSPORT..], frame[TRANSPORT..]);
}

#[test]
fn it_is_filled_in_before_the_packet_is_fragmented() {
    // The longest consists of several buffers.
    for payload in [700, 1400, 9000] {
        let mut lab = lab(udp_order(), true);
        lab.push(0, udp_order_frame(NARROW, payload));
        assert!(lab.world.left.iter().all(|left| left.is_none()));
        let mut whole = Vec::new();
        let mut header = None;
        for fragment in lab.world.sent(2) {
            let (_, part) = read_ipv4(&fragment);
            assert_eq!(usize::from(part.header().fragment_offset) * 8, whole.len());
            header = Some(*part.header());
            whole.extend_from_slice(part.payload());
        }
        assert_eq!(whole.len(), udp::HEADER + payload);
        assert_eq!(checksum::sum(pseudo(&header.unwrap(), whole.len()), &whole), 0xffff);
        lab.only_drop("", 0);
    }
}

#[test]
fn and_before_it_is_quoted() {
    let mut lab = lab(udp_order(), true);
    lab.push(0, udp_order_frame(ip(10, 0, 0, 1), 100));
    assert_eq!(lab.world.left, [Offload::NONE]);
    let error = lab.one_sent(0);
    let (_, message, quoted) = read_icmp(&error);
    assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::PORT));
    assert!(is_right(&ipv4::Packet::parse(quoted).unwrap()));
    lab.only_drop("drop_local", 1);
}

#[test]
fn one_that_waits_for_its_neighbour_keeps_its_order() {
    let gateway = ip(198, 51, 100, 9);
    let mut lab = lab(tcp_order(1448), false);
    let frame = tcp_frame(gateway, 30_000, true);
    lab.push(0, frame.clone());
    let question = lab.one_sent(1);
    assert_eq!(read_arp(&question).1.target_ip, SILENT);
    lab.world.order = Offload::NONE;
    lab.push(1, arp_reply(1, peer_mac(1), SILENT));
    assert_eq!(lab.world.left, [tcp_order(1448)]);
    assert_eq!(lab.one_sent(1)[TRANSPORT..], frame[TRANSPORT..]);
}

#[test]
fn a_frame_of_several_pieces_is_answered_or_left_alone() {
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, &[9; 8000]);
    let header = ipv4::Header::new(ipv4::ICMP, ip(10, 0, 0, 2), ip(10, 0, 0, 1), message.len() as u16);
    let mut lab = lab(Offload::NONE, true);
    lab.push(0, ipv4_frame(0, header, &message));
    let reply: Vec<u8> =
        lab.world.sent(0).iter().flat_map(|part| read_ipv4(part).1.payload().to_vec()).collect();
    let (echo, payload) = icmp::Header::parse(&reply).unwrap();
    assert_eq!((echo.kind, payload.len()), (icmp::ECHO_REPLY, 8000));
    // With options, which the reply does not have, the whole message would have to move.
    let options = ipv4::Header { header_len: 24, total_len: header.total_len + 4, ..header };
    lab.push(0, ipv4_frame(0, options, &message));
    lab.none_sent();
    lab.only_drop("drop_local", 1);
}

#[test]
fn a_frame_shorter_than_its_packet_is_none() {
    let mut frame = tcp_frame(WIDE, 64_000, true);
    frame.truncate(50_000);
    let mut lab = lab(tcp_order(1448), true);
    lab.push(0, frame);
    lab.only_drop("drop_ip_header", 1);
}
