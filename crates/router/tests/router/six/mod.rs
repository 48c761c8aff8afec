//! IPv6: frames for the tests, and the tests by subject.

mod discovery;
mod forwarding;
mod local;
mod properties;
mod tagged;

use frame::ipv6::{self, next};
use frame::{Mac, ethernet, icmpv6, udp};

use crate::world::*;

/// A host that is not a static neighbour.
const HOST: Mac = Mac([2, 0, 0, 0, 0x60, 1]);

/// Returns a frame to the router's NIC `nic` from its peer, with this IPv6 header and payload.
fn frame6(nic: u8, header: ipv6::Header, payload: &[u8]) -> Vec<u8> {
    frame6_from((own_mac(nic), peer_mac(nic)), header, payload)
}

/// Returns a frame between two stations.
fn frame6_from((to, from): (Mac, Mac), header: ipv6::Header, payload: &[u8]) -> Vec<u8> {
    let ethernet = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV6 };
    let start = ethernet::HEADER + ipv6::HEADER;
    let mut frame = vec![0; start + payload.len()];
    ethernet.write(&mut frame).unwrap();
    ipv6::Header { payload_len: payload.len() as u16, ..header }
        .write(&mut frame[ethernet::HEADER..])
        .unwrap();
    frame[start..].copy_from_slice(payload);
    frame.resize(frame.len().max(ethernet::SHORTEST), 0);
    frame
}

/// Returns a UDP datagram with a checksum.
fn datagram6(source: u128, destination: u128, len: usize) -> Vec<u8> {
    let mut octets = datagram(len);
    let sum = udp::checksum6(source, destination, &octets);
    octets[6..8].copy_from_slice(&sum.to_be_bytes());
    octets
}

/// Returns a UDP frame from `2001:db8:0:NIC::2`.
fn udp6(nic: u8, destination: u128, len: usize) -> Vec<u8> {
    let payload = datagram6(ip6(nic, 2), destination, len);
    frame6(nic, ipv6::Header::new(next::UDP, ip6(nic, 2), destination, 0), &payload)
}

/// Returns an ICMPv6 message between two addresses.
fn message6(ends: (u128, u128), header: icmpv6::Header, payload: &[u8]) -> Vec<u8> {
    let mut message = [&[0; icmpv6::HEADER], payload].concat();
    header.write(&mut message, ends).unwrap();
    message
}

/// Returns the frame of an ICMPv6 message for a link only, by `from`.
fn near6(from: Mac, ends: (u128, u128), header: icmpv6::Header, payload: &[u8]) -> Vec<u8> {
    let to = if ipv6::is_multicast(ends.1) { ipv6::group_mac(ends.1) } else { own_mac(1) };
    let message = message6(ends, header, payload);
    let ip = ipv6::Header { hop_limit: 255, ..ipv6::Header::new(next::ICMP, ends.0, ends.1, 0) };
    frame6_from((to, from), ip, &message)
}

/// Parses the Ethernet header and the IPv6 packet of a frame.
fn read6(frame: &[u8]) -> (ethernet::Header, ipv6::Packet<'_>) {
    let (header, rest) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, ethernet::IPV6);
    (header, ipv6::Packet::parse(rest).unwrap())
}

/// Parses and checks the IPv6 header, the ICMPv6 header and the rest.
fn read_icmp6(frame: &[u8]) -> (ipv6::Header, icmpv6::Header, &[u8]) {
    let (_, packet) = read6(frame);
    let upper = packet.upper().unwrap();
    assert_eq!(upper.protocol, next::ICMP);
    let header = *packet.header();
    let ends = (header.source, header.destination);
    let (message, rest) = icmpv6::Header::parse(&packet.octets()[upper.at..], ends).unwrap();
    (header, message, rest)
}
