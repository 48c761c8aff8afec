//! What is urgent: frames of routing protocols, and of what these rest on, which pass full queues. There is no other list of them:
//! [`class_of`](crate::class_of) and the programs that the kernel runs in front of a queue are made from this one.

use core::ops::RangeInclusive;

use crate::Class;

/// First value of the ethertype field that is no length (IEEE 802.3): lengths are followed by a service access point.
pub const FIRST_ETHERTYPE: u16 = 0x0600;
/// Time to live that only a neighbour can send. What is no packet comes from a neighbour as well.
pub const NEIGHBOUR: u8 = 255;

/// Urgent frames, told by a number in one of their headers.
#[derive(Debug)]
pub struct Kind {
    /// Numbers in that header.
    pub numbers: RangeInclusive<u16>,
    /// Class of the frames.
    pub class: Class,
    /// True if packets with a smaller time to live than [`NEIGHBOUR`] are not urgent: they have crossed a router (RFC 5082).
    pub is_near: bool,
}

/// Ethertypes: ARP.
pub const ETHERTYPES: &[Kind] = &[Kind::one(0x0806, Class::Neighbours)];

/// Service access points: IS-IS (ISO 10589).
pub const SERVICE_POINTS: &[Kind] = &[Kind::one(0xfe, Class::Routing)];

/// Protocols of IP, whatever the packet holds and wherever it was cut into fragments: IGMP, EIGRP, OSPF, PIM, VRRP.
pub const PROTOCOLS: &[Kind] = &[
    Kind::one(2, Class::Neighbours),
    Kind::one(88, Class::Routing),
    Kind::one(89, Class::Routing),
    Kind::one(103, Class::Routing),
    Kind::one(112, Class::Routing).near(),
];

/// Ports of TCP on either side, because we may be the side that has opened the connection: BGP, LDP.
pub const TCP_PORTS: &[Kind] = &[Kind::one(179, Class::Routing), Kind::one(646, Class::Routing)];

/// Destination ports of UDP: BFD over one hop (RFC 5881) and over several (RFC 5883), RIP, RIPng, LDP.
pub const UDP_PORTS: &[Kind] = &[
    Kind::one(3784, Class::Bfd).near(),
    Kind::one(4784, Class::Multihop),
    Kind::one(520, Class::Routing),
    Kind::one(521, Class::Routing),
    Kind::one(646, Class::Routing),
];

/// Types of ICMPv6: neighbour discovery (RFC 4861), and group membership (RFC 2710, RFC 3810). Addresses are resolved by neighbours
/// alone: the kernel discards anybody else's messages of neighbour discovery anyway.
pub const ICMPV6_TYPES: &[Kind] = &[
    Kind::several(133..=137, Class::Neighbours).near(),
    Kind::several(130..=132, Class::Neighbours),
    Kind::one(143, Class::Neighbours),
];

impl Kind {
    const fn several(numbers: RangeInclusive<u16>, class: Class) -> Self {
        Self { numbers, class, is_near: false }
    }

    const fn one(number: u16, class: Class) -> Self {
        Self::several(number..=number, class)
    }

    const fn near(self) -> Self {
        Self { numbers: self.numbers, class: self.class, is_near: true }
    }
}

/// Returns the class of a frame whose number is among these kinds: theirs, or the rest if only neighbours send it. `None`: it is of
/// none of them.
pub fn class_in(kinds: &[Kind], number: u16, ttl: u8) -> Option<Class> {
    let kind = kinds.iter().find(|kind| kind.numbers.contains(&number))?;
    Some(if kind.is_near && ttl != NEIGHBOUR { Class::Rest } else { kind.class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_listed_is_urgent() {
        for kinds in [ETHERTYPES, SERVICE_POINTS, PROTOCOLS, TCP_PORTS, UDP_PORTS, ICMPV6_TYPES] {
            assert!(kinds.iter().all(|kind| kind.class.is_urgent()), "{kinds:?}");
        }
    }
}
