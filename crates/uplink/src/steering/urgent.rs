//! Tells which frames are urgent, exactly as the kernel's program for copies of them does (`program::urgent_alone`).

use frame::ethernet::{IPV4, IPV6};
use frame::{ipv4, ipv6};
use punt::Class;
use punt::urgent::{
    ETHERTYPES, FIRST_ETHERTYPE, ICMPV6_TYPES, Kind, NEIGHBOUR, PROTOCOLS, SERVICE_POINTS, TCP_PORTS,
    UDP_PORTS, class_in,
};

/// Octets of a frame that are looked at, at most: an Ethernet header, the longest IPv4 header, and two ports.
pub(crate) const LOOKED_AT: usize = 14 + 60 + 4;

/// Returns true if a frame is urgent, and has no VLAN tag; given are its first octets.
pub(crate) fn is_urgent(frame: &[u8]) -> bool {
    told(frame).unwrap_or(false)
}

/// `None`: the frame is too short for what would tell.
fn told(frame: &[u8]) -> Option<bool> {
    match short(frame, 12)? {
        IPV4 => of_four(frame.get(14..)?),
        IPV6 => of_six(frame.get(14..)?),
        ethertype @ FIRST_ETHERTYPE.. => Some(is_in(ETHERTYPES, ethertype, NEIGHBOUR)),
        _ => Some(is_in(SERVICE_POINTS, u16::from(*frame.get(14)?), NEIGHBOUR)),
    }
}

fn of_four(packet: &[u8]) -> Option<bool> {
    let header = packet.first_chunk::<{ ipv4::HEADER }>()?;
    if !(0x45..=0x4f).contains(&header[0]) {
        return Some(false);
    }
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let payload = packet.get(usize::from(header[0] & 15) * 4..);
    of_protocol(header[9], header[8], payload.filter(|_| !is_later_fragment))
}

fn of_six(packet: &[u8]) -> Option<bool> {
    let (header, rest) = packet.split_first_chunk::<{ ipv6::HEADER }>()?;
    if header[0] >> 4 != 6 {
        return Some(false);
    }
    match (header[6], rest) {
        (ipv6::next::HOP_BY_HOP, [next, 0, ..]) => of_protocol(*next, header[7], rest.get(8..)),
        (ipv6::next::HOP_BY_HOP, _) => Some(false),
        (protocol, _) => of_protocol(protocol, header[7], Some(rest)),
    }
}

/// By the protocol of a packet, and its payload if that is there.
fn of_protocol(protocol: u8, ttl: u8, payload: Option<&[u8]>) -> Option<bool> {
    if let Some(class) = class_in(PROTOCOLS, protocol.into(), ttl) {
        return Some(class.is_urgent());
    }
    let payload = payload?;
    let has_port = |ports, at| Some(is_in(ports, short(payload, at)?, ttl));
    match protocol {
        ipv4::TCP => Some(has_port(TCP_PORTS, 0)? || has_port(TCP_PORTS, 2)?),
        ipv4::UDP => has_port(UDP_PORTS, 2),
        ipv6::next::ICMP => Some(is_in(ICMPV6_TYPES, u16::from(*payload.first()?), ttl)),
        _ => Some(false),
    }
}

fn is_in(kinds: &[Kind], number: u16, ttl: u8) -> bool {
    class_in(kinds, number, ttl).is_some_and(Class::is_urgent)
}

fn short(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}
