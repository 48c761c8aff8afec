//! Routes with several next hops: flows keep theirs, and next hops that are not reached are avoided.

use frame::ipv6::{self, next};
use frame::{Mac, ethernet, icmp, nd, udp};

use crate::world::*;

/// The station at [`SILENT`], once it answers.
const HOST: Mac = Mac([2, 0, 0, 0, 0x60, 9]);
/// Flows, by their source ports.
const FLOWS: std::ops::Range<u16> = 1000..1064;

/// Returns a packet of a flow whose route has the group.
fn flow(port: u16) -> Vec<u8> {
    let mut payload = datagram(18);
    payload[..2].copy_from_slice(&port.to_be_bytes());
    ipv4_frame(0, udp_header(ip(10, 0, 0, 2), ip(23, 1, 1, 1), 18), &payload)
}

/// Sends a packet of each flow; returns the ports of those that leave by NIC 1 and 2.
fn send_all(lab: &mut Lab) -> [Vec<u16>; 2] {
    FLOWS.for_each(|port| lab.push(0, flow(port)));
    [1, 2].map(|nic| {
        let frames = lab.world.sent(nic).into_iter().filter(|frame| frame[12..14] == [8, 0]);
        frames.map(|frame| u16::from_be_bytes([frame[34], frame[35]])).collect()
    })
}

#[test]
fn flows_are_spread_and_keep_their_next_hop_on_both_paths() {
    let mut lab = Lab::default();
    lab.push(1, arp_reply(1, HOST, SILENT));
    send_all(&mut lab);
    lab.push(1, arp_reply(1, HOST, SILENT));
    lab.world.sent(1);
    let [one, other] = send_all(&mut lab);
    assert_eq!(one.len() + other.len(), FLOWS.len());
    assert!((16..=48).contains(&one.len()), "{one:?}");
    // The headers are prepared now.
    for _ in 0..3 {
        assert_eq!(send_all(&mut lab), [one.clone(), other.clone()]);
    }
    lab.only_drop("", 0);
}

#[test]
fn a_next_hop_that_does_not_answer_is_avoided_and_asked_for_again() {
    let mut lab = Lab::default();
    let [none, other] = send_all(&mut lab);
    assert!(none.is_empty() && !other.is_empty());
    let waiting = lab.router.held();
    assert!(waiting > 0);
    for _ in 0..3 {
        lab.world.sent(1);
        lab.wait(1000);
    }
    // What has waited goes by the other one, and nobody is told that the destination is not reached.
    assert_eq!((lab.router.held(), lab.world.sent(2).len()), (0, waiting));
    assert!(lab.world.sent(0).is_empty());
    assert_eq!(lab.world.next_hops, [(false, GROUPED[0], false)]);
    let [none, all] = send_all(&mut lab);
    assert_eq!((none.len(), all.len()), (0, FLOWS.len()));
    // Its own route has no other next hop.
    lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    let refused = lab.one_sent(0);
    assert_eq!(read_icmp(&refused).1.code, icmp::unreachable::HOST);
    assert!(lab.router.next_deadline().is_some_and(|due| due <= 5000));
    lab.wait(5000);
    let asked = lab.world.sent(1);
    assert!(asked.iter().any(|frame| read_arp(frame).1.target_ip == SILENT));
    lab.push(1, arp_reply(1, HOST, SILENT));
    lab.wait(0);
    assert_eq!(lab.world.next_hops, [(false, GROUPED[0], false), (false, GROUPED[0], true)]);
    let [one, back] = send_all(&mut lab);
    assert_eq!((one.len() + back.len(), back), (FLOWS.len(), other), "as before");
}

#[test]
fn a_source_whose_route_has_a_group_has_a_way_back() {
    let mut lab = Lab::wanted(table(), &Wanted { reverse_path: router::ReversePath::Loose, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab.push(0, ipv4_frame(0, udp_header(ip(23, 1, 1, 1), ip(192, 168, 1, 1), 18), &datagram(18)));
    lab.one_sent(1);
}

/// Returns an IPv6 packet of a flow whose route has the group.
fn flow6(port: u16) -> Vec<u8> {
    let (from, to) = (ip6(0, 2), 0x2001_0db8_0014 << 80 | 9);
    let mut payload = datagram(18);
    payload[..2].copy_from_slice(&port.to_be_bytes());
    let sum = udp::checksum6(from, to, &payload);
    payload[6..8].copy_from_slice(&sum.to_be_bytes());
    let ethernet =
        ethernet::Header { destination: own_mac(0), source: peer_mac(0), ethertype: ethernet::IPV6 };
    let mut frame = vec![0; ethernet::HEADER + ipv6::HEADER];
    ethernet.write(&mut frame).unwrap();
    let header = ipv6::Header::new(next::UDP, from, to, payload.len() as u16);
    header.write(&mut frame[ethernet::HEADER..]).unwrap();
    frame.extend(payload);
    frame
}

#[test]
fn ipv6_has_groups_too() {
    let mut lab = Lab::six();
    FLOWS.for_each(|port| lab.push(0, flow6(port)));
    let first = lab.world.sent(2).len();
    assert!((16..=48).contains(&first), "{first}");
    let solicited = lab.world.sent(1);
    assert!(solicited.iter().all(|frame| frame[54] == nd::SOLICIT));
    let waiting = lab.router.held();
    for _ in 0..3 {
        lab.wait(1000);
    }
    assert_eq!((lab.router.held(), lab.world.sent(2).len()), (0, waiting));
    assert_eq!(lab.world.next_hops, [(true, GROUPED6[0], false)]);
    for _ in 0..2 {
        FLOWS.for_each(|port| lab.push(0, flow6(port)));
        assert_eq!(lab.world.sent(2).len(), FLOWS.len());
    }
}
