//! Classification of frames by their headers: those that a group handles for its members, and probes that it takes out.

use frame::{ethernet, ipv6, nd, vlan};
use group::probe;
use port::Frame;

/// Offset in a frame without tags of the next header and the hop limit of an IPv6 packet.
const NEXT_HEADER: usize = ethernet::HEADER + 6;
/// Offset of the type of an ICMPv6 message behind an IPv6 header.
const ICMP: usize = ethernet::HEADER + ipv6::HEADER;

/// Kind of frame that the group handles for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ARP packet.
    Arp,
    /// A neighbour discovery message (RFC 4861) without preceding extension headers.
    Discovery,
}

/// Returns true if a packet is a neighbour discovery message. Its hop limit tells it from all packets that a member forwards.
#[inline]
fn is_near_message(frame: &Frame<'_>, shift: usize) -> bool {
    let near = Some([ipv6::next::ICMP, ipv6::LINK_HOPS]);
    let is_near = frame.octets().read::<2>(NEXT_HEADER + shift) == near;
    let kind = frame.octets().read::<1>(ICMP + shift);
    is_near && kind.is_some_and(|[kind]| (nd::ROUTER_SOLICIT..=nd::ADVERT).contains(&kind))
}

/// Returns the kind that a frame looks like, also behind VLAN tags.
#[inline(always)]
pub(super) fn kind(frame: &Frame<'_>) -> Option<Kind> {
    match ethertype(frame, 0)? {
        ethernet::ARP => Some(Kind::Arp),
        ethernet::IPV6 => is_near_message(frame, 0).then_some(Kind::Discovery),
        other if vlan::is_tag(other) => behind_tags(frame),
        _ => None,
    }
}

#[inline(never)]
fn behind_tags(frame: &Frame<'_>) -> Option<Kind> {
    let tags = (1..=vlan::MOST)
        .find(|tags| ethertype(frame, tags * vlan::TAG).is_some_and(|ethertype| !vlan::is_tag(ethertype)))?;
    let shift = tags * vlan::TAG;
    match ethertype(frame, shift)? {
        ethernet::ARP => Some(Kind::Arp),
        ethernet::IPV6 => is_near_message(frame, shift).then_some(Kind::Discovery),
        _ => None,
    }
}

#[inline(always)]
fn ethertype(frame: &Frame<'_>, shift: usize) -> Option<u16> {
    frame.octets().read(vlan::AT + shift).map(u16::from_be_bytes)
}

/// Returns true if a frame has the destination address at which probes are taken out, at any NIC: the last octet, the NIC's number, is not
/// compared.
#[inline(always)]
pub(super) fn is_back(frame: &Frame<'_>) -> bool {
    let [a, b, c, d, e, _] = probe::BACK.0;
    frame.octets().read::<5>(0) == Some([a, b, c, d, e])
}

/// Returns true if a frame is for more than one station.
#[inline(always)]
pub(super) fn is_for_many(frame: &Frame<'_>) -> bool {
    frame.octets().read::<1>(0).is_some_and(|[first]| first & 1 != 0)
}

#[inline(always)]
pub(super) fn is_for_us(frame: &Frame<'_>) -> bool {
    kind(frame).is_some() || is_back(frame)
}
