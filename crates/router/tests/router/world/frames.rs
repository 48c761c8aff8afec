//! Frames to the router, and parsed frames from it.

use frame::{Mac, arp, ethernet, icmp, ipv4, udp};

use super::routes::{ip, own_mac, peer_mac};

/// Returns a frame to the router's NIC `nic` from its peer, with this IPv4 header and payload.
pub(crate) fn ipv4_frame(nic: u8, header: ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let ethernet =
        ethernet::Header { destination: own_mac(nic), source: peer_mac(nic), ethertype: ethernet::IPV4 };
    let start = ethernet::HEADER + usize::from(header.header_len);
    let mut frame = vec![0; start + payload.len()];
    frame[start..].copy_from_slice(payload);
    ethernet.write(&mut frame).unwrap();
    header.write(&mut frame[ethernet::HEADER..]).unwrap();
    frame.resize(frame.len().max(ethernet::SHORTEST), 0);
    frame
}

/// Returns the header of a UDP packet with `payload` octets after the UDP header.
pub(crate) fn udp_header(source: u32, destination: u32, payload: usize) -> ipv4::Header {
    ipv4::Header::new(ipv4::UDP, source, destination, (payload + udp::HEADER) as u16)
}

/// Returns a UDP header and `len` counting octets.
pub(crate) fn datagram(len: usize) -> Vec<u8> {
    let mut octets: Vec<u8> = (0..udp::HEADER + len).map(|n| n as u8).collect();
    let header =
        udp::Header { source: 4000, destination: 5000, len: (len + udp::HEADER) as u16, checksum: 0 };
    header.write(&mut octets).unwrap();
    octets
}

/// Returns a UDP frame from 10.0.`nic`.2.
pub(crate) fn udp_frame(nic: u8, destination: u32, len: usize) -> Vec<u8> {
    ipv4_frame(nic, udp_header(ip(10, 0, nic, 2), destination, len), &datagram(len))
}

/// Returns an ICMP message.
pub(crate) fn icmp_message(kind: u8, code: u8, rest: u32, payload: &[u8]) -> Vec<u8> {
    let mut message = [&[0; icmp::HEADER], payload].concat();
    icmp::Header { kind, code, rest }.write(&mut message).unwrap();
    message
}

/// Returns an ARP frame.
pub(crate) fn arp_frame(to: Mac, packet: &arp::Packet) -> Vec<u8> {
    let mut frame = vec![0; ethernet::SHORTEST];
    let header = ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
    header.write(&mut frame).unwrap();
    packet.write(&mut frame[ethernet::HEADER..]).unwrap();
    frame
}

/// Returns an ARP reply to the router's NIC.
pub(crate) fn arp_reply(nic: u8, mac: Mac, from: u32) -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender_ip: from,
        target_mac: own_mac(nic),
        target_ip: ip(10, 0, nic, 1),
    };
    arp_frame(own_mac(nic), &packet)
}

/// Parses the Ethernet header and the ARP packet of a frame.
pub(crate) fn read_arp(frame: &[u8]) -> (ethernet::Header, arp::Packet) {
    let (header, rest) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, ethernet::ARP);
    (header, arp::Packet::parse(rest).unwrap())
}

/// Parses and checks the Ethernet header and the IPv4 packet of a frame.
pub(crate) fn read_ipv4(frame: &[u8]) -> (ethernet::Header, ipv4::Packet<'_>) {
    let (header, rest) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, ethernet::IPV4);
    (header, ipv4::Packet::parse(rest).unwrap())
}

/// Parses and checks the IPv4 header, the ICMP header and the rest.
pub(crate) fn read_icmp(frame: &[u8]) -> (ipv4::Header, icmp::Header, &[u8]) {
    let (_, packet) = read_ipv4(frame);
    assert_eq!(packet.header().protocol, ipv4::ICMP);
    let (message, rest) = icmp::Header::parse(packet.payload()).unwrap();
    (*packet.header(), message, rest)
}
