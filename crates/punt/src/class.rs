//! Classes of frames.

use crate::headers::{Carried, Packet, carried, short};
use crate::urgent::{
    ETHERTYPES, ICMPV6_TYPES, NEIGHBOUR, PROTOCOLS, SERVICE_POINTS, TCP_PORTS, UDP_PORTS, class_in,
};

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

    /// Returns true if frames of this class pass full queues.
    pub const fn is_urgent(self) -> bool {
        !matches!(self, Self::Icmp | Self::Rest)
    }
}

/// Numbers of IP protocols.
mod protocol {
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ICMPV6: u8 = 58;
}

/// Class of a frame that is for the router. Frames that are too short for their headers are the rest.
pub fn class_of(frame: &[u8]) -> Class {
    let class = match carried(frame) {
        Carried::Type(ethertype) => class_in(ETHERTYPES, ethertype, NEIGHBOUR),
        Carried::Llc(point) => class_in(SERVICE_POINTS, point.into(), NEIGHBOUR),
        Carried::Packet(packet) => class_of_packet(&packet),
        Carried::Other => None,
    };
    class.unwrap_or(Class::Rest)
}

fn class_of_packet(packet: &Packet<'_>) -> Option<Class> {
    class_in(PROTOCOLS, packet.protocol.into(), packet.ttl).or_else(|| match packet.protocol {
        protocol::ICMP => Some(Class::Icmp),
        protocol::ICMPV6 => class_of_icmpv6(packet),
        protocol::TCP => class_of_tcp(packet),
        protocol::UDP => class_in(UDP_PORTS, short(packet.payload, 2)?, packet.ttl),
        _ => None,
    })
}

fn class_of_icmpv6(packet: &Packet<'_>) -> Option<Class> {
    let kind = *packet.payload.first()?;
    Some(class_in(ICMPV6_TYPES, kind.into(), packet.ttl).unwrap_or(Class::Icmp))
}

fn class_of_tcp(packet: &Packet<'_>) -> Option<Class> {
    [0, 2].into_iter().find_map(|at| class_in(TCP_PORTS, short(packet.payload, at)?, packet.ttl))
}

#[cfg(test)]
mod tests;
