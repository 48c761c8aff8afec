//! Classes of frames.

use crate::headers::{Carried, Packet, carried, short};

/// Class of a frame for the control plane, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// BFD over one hop: late packets cost adjacencies first. Only neighbours can send it.
    Bfd,
    /// BFD over several hops, which anybody can send.
    Multihop,
    /// Routing protocols, VRRP included.
    Routing,
    /// ARP and neighbour discovery, group membership.
    Neighbours,
    /// Other ICMP and ICMPv6.
    Icmp,
    /// Anything else: SSH, SNMP, DHCP, unknown ethertypes.
    Rest,
}

impl Class {
    /// All classes, the most urgent first: the order in which waiting frames go to the control plane.
    pub const ALL: [Self; 6] =
        [Self::Bfd, Self::Multihop, Self::Routing, Self::Neighbours, Self::Icmp, Self::Rest];

    /// Name in counters and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfd => "bfd",
            Self::Multihop => "multihop",
            Self::Routing => "routing",
            Self::Neighbours => "neighbours",
            Self::Icmp => "icmp",
            Self::Rest => "rest",
        }
    }
}

/// Numbers of IP protocols.
mod protocol {
    pub(super) const ICMP: u8 = 1;
    pub(super) const IGMP: u8 = 2;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const EIGRP: u8 = 88;
    pub(super) const OSPF: u8 = 89;
    pub(super) const PIM: u8 = 103;
    pub(super) const VRRP: u8 = 112;
}

/// TCP ports of BGP and LDP.
const ROUTING_TCP: [u16; 2] = [179, 646];
/// UDP ports of RIP, RIPng and LDP.
const ROUTING_UDP: [u16; 3] = [520, 521, 646];
/// UDP ports of BFD: one hop (RFC 5881), several (RFC 5883).
const BFD_ONE_HOP: u16 = 3784;
const BFD_SEVERAL_HOPS: u16 = 4784;
/// Service access point of IS-IS (ISO 10589).
const ISIS: u8 = 0xfe;
/// Time to live that only a neighbour can send.
const NEIGHBOUR: u8 = 255;

/// Class of a frame that is for the router. Frames that are too short for their headers are the rest.
pub fn class_of(frame: &[u8]) -> Class {
    match carried(frame) {
        Carried::Arp => Class::Neighbours,
        Carried::Llc(ISIS) => Class::Routing,
        Carried::Packet(packet) => class_of_packet(&packet),
        Carried::Llc(_) | Carried::Other => Class::Rest,
    }
}

fn class_of_packet(packet: &Packet<'_>) -> Class {
    let is_near = packet.ttl == NEIGHBOUR;
    match packet.protocol {
        protocol::ICMP => Class::Icmp,
        protocol::IGMP => Class::Neighbours,
        protocol::ICMPV6 => class_of_icmpv6(packet.payload.first().copied(), is_near),
        protocol::OSPF | protocol::PIM | protocol::EIGRP => Class::Routing,
        protocol::VRRP if is_near => Class::Routing,
        protocol::TCP => class_of_tcp(packet.payload),
        protocol::UDP => class_of_udp(packet.payload, is_near),
        _ => Class::Rest,
    }
}

/// Class by the type of an ICMPv6 message: RFC 4861 for neighbours, RFC 2710 and 3810 for groups.
fn class_of_icmpv6(kind: Option<u8>, is_near: bool) -> Class {
    match kind {
        Some(133..=137) if is_near => Class::Neighbours,
        // Addresses are resolved by neighbours alone: anybody else's are discarded by the kernel anyway.
        Some(133..=137) | None => Class::Rest,
        Some(130..=132 | 143) => Class::Neighbours,
        Some(_) => Class::Icmp,
    }
}

fn class_of_tcp(segment: &[u8]) -> Class {
    let is_routing = |at| short(segment, at).is_some_and(|port| ROUTING_TCP.contains(&port));
    // We may be the side that has opened the connection.
    if is_routing(0) || is_routing(2) { Class::Routing } else { Class::Rest }
}

fn class_of_udp(datagram: &[u8], is_near: bool) -> Class {
    match short(datagram, 2) {
        Some(BFD_ONE_HOP) if is_near => Class::Bfd,
        Some(BFD_SEVERAL_HOPS) => Class::Multihop,
        Some(port) if ROUTING_UDP.contains(&port) => Class::Routing,
        _ => Class::Rest,
    }
}

#[cfg(test)]
mod tests;
