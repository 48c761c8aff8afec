//! Which frames that arrive at a NIC are for the control plane. Exactly one of router and control plane answers what is asked:
//!
//! | frame | router | control plane |
//! |---|---|---|
//! | ARP request, neighbour solicitation for an address of the router | answers | never sees it |
//! | the same for another address of the control plane | never sees it | answers |
//! | ARP reply, gratuitous ARP, neighbour advertisement | learns | learns |
//! | router solicitation | answers if it advertises | answers if it advertises |
//! | echo request for an address of the router, or for a group | answers | never sees it |
//! | fragments of ICMP for an address of the router | puts them together | never sees them |
//! | anything else for one of the addresses, groups of one link, other ethertypes | never sees it | answers |
//! | anything else | forwards or drops | never sees it |

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::headers::{ARP, IPV4, IPV6, Packet, ipv4, ipv6, network, short};

/// Octets of a frame that [`verdict`] and [`crate::class_of`] look at: two VLAN tags, an IPv6 header, extension headers, and the
/// target of a solicitation. They may be given fewer than the frame has, but not fewer than these.
pub const HEAD: usize = 128;

/// Owner of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The router, and the control plane as well.
    Router,
    /// The control plane alone.
    Control,
}

/// Addresses of a router and of its control plane.
pub trait Addresses {
    /// Returns who has an address; `None`: neither of both.
    fn owner(&self, ip: IpAddr) -> Option<Owner>;
}

/// Receiver of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The router.
    Router,
    /// The control plane.
    Control,
    /// Both.
    Both,
}

/// Multicast addresses of IPv4 that no router forwards (RFC 5771, 4).
const ONE_LINK: [u8; 3] = [224, 0, 0];
const ICMP: u8 = 1;
const ECHO_REQUEST: u8 = 8;
const ICMPV6: u8 = 58;
const ECHO_REQUEST_6: u8 = 128;
const LISTENER_QUERY: u8 = 130;
const ROUTER_SOLICITATION: u8 = 133;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// Decides on a frame that has arrived at the NIC with this Ethernet address.
#[inline]
pub fn verdict(frame: &[u8], mac: [u8; 6], addresses: &impl Addresses) -> Verdict {
    let Some(to) = frame.first_chunk::<6>() else { return Verdict::Router };
    let to_group = to[0] & 1 != 0;
    if !to_group && *to != mac {
        return Verdict::Router;
    }
    match network(frame) {
        (Some(ARP), packet) => of_arp(packet, addresses).unwrap_or(Verdict::Router),
        (Some(IPV4), packet) => of_ipv4(packet, to_group, addresses).unwrap_or(Verdict::Router),
        (Some(IPV6), packet) => of_ipv6(packet, addresses).unwrap_or(Verdict::Router),
        (Some(_), _) => Verdict::Control,
        (None, _) => Verdict::Router,
    }
}

/// Decides on an ARP packet (RFC 826); `None`: it is too short.
fn of_arp(packet: &[u8], addresses: &impl Addresses) -> Option<Verdict> {
    const REQUEST: u16 = 1;
    let (sender, target) = (address(packet, 14)?, address(packet, 24)?);
    let is_question = short(packet, 6)? == REQUEST && sender != target;
    Some(match addresses.owner(target) {
        _ if !is_question => Verdict::Both,
        Some(Owner::Control) => Verdict::Control,
        Some(Owner::Router) | None => Verdict::Router,
    })
}

fn of_ipv4(octets: &[u8], to_group: bool, addresses: &impl Addresses) -> Option<Verdict> {
    let IpAddr::V4(to) = address(octets, 16)? else { return None };
    let owner = addresses.owner(to.into());
    if owner.is_none() && !to_group {
        return None;
    }
    let packet = ipv4(octets)?;
    if to.is_multicast() && !to.octets().starts_with(&ONE_LINK) {
        return None;
    }
    Some(match owner {
        Some(Owner::Control) => Verdict::Control,
        Some(Owner::Router) | None if is_routers(&packet, ICMP, ECHO_REQUEST) => Verdict::Router,
        Some(Owner::Router) | None => Verdict::Control,
    })
}

fn of_ipv6(octets: &[u8], addresses: &impl Addresses) -> Option<Verdict> {
    let to = address6(octets, 24)?;
    let owner = addresses.owner(to.into());
    if owner.is_none() && !is_one_link(to) {
        return None;
    }
    let packet = ipv6(octets)?;
    if packet.protocol == ICMPV6
        && let Some(verdict) = of_icmpv6(packet.payload, addresses)
    {
        return Some(verdict);
    }
    Some(match owner {
        Some(Owner::Control) => Verdict::Control,
        Some(Owner::Router) | None if is_routers(&packet, ICMPV6, ECHO_REQUEST_6) => Verdict::Router,
        Some(Owner::Router) | None => Verdict::Control,
    })
}

/// Decides on messages of neighbour discovery (RFC 4861) and listener discovery; `None`: it is another one.
fn of_icmpv6(message: &[u8], addresses: &impl Addresses) -> Option<Verdict> {
    match *message.first()? {
        SOLICITATION => Some(match addresses.owner(address6(message, 8)?.into()) {
            Some(Owner::Control) => Verdict::Control,
            Some(Owner::Router) | None => Verdict::Router,
        }),
        LISTENER_QUERY | ROUTER_SOLICITATION | ADVERTISEMENT => Some(Verdict::Both),
        _ => None,
    }
}

/// Returns true for what the router does itself among the packets for an address of its own: echo requests, and fragments, in
/// which there may be one.
fn is_routers(packet: &Packet<'_>, icmp: u8, echo_request: u8) -> bool {
    packet.protocol == icmp && packet.payload.first().is_none_or(|kind| *kind == echo_request)
}

/// Returns true for groups that are heard on one link only (RFC 4291, 2.7).
fn is_one_link(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 0xff && second & 15 <= 2
}

fn address(octets: &[u8], at: usize) -> Option<IpAddr> {
    let octets: &[u8; 4] = octets.get(at..)?.first_chunk()?;
    Some(Ipv4Addr::from(*octets).into())
}

fn address6(octets: &[u8], at: usize) -> Option<Ipv6Addr> {
    let octets: &[u8; 16] = octets.get(at..)?.first_chunk()?;
    Some(Ipv6Addr::from(*octets))
}

#[cfg(test)]
mod tests;
