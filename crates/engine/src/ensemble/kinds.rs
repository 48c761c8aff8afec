//! Frames that a group hears or takes out, told from all others by their headers.

use frame::{ethernet, ipv6, nd};
use group::probe;
use port::Frame;

/// Offset in a frame of its ethertype.
const ETHERTYPE: usize = 12;
/// Offset of the next header and the hop limit of an IPv6 packet.
const NEXT_HEADER: usize = ethernet::HEADER + 6;
/// Offset of the type of an ICMPv6 message behind an IPv6 header.
const ICMP: usize = ethernet::HEADER + ipv6::HEADER;

#[inline(always)]
pub(super) fn is_arp(frame: &Frame<'_>) -> bool {
    frame.octets().read::<2>(ETHERTYPE) == Some(ethernet::ARP.to_be_bytes())
}

/// Whether a frame looks like a message of neighbour discovery (RFC 4861), without extension headers before it. No packet that a member
/// forwards has its hop limit.
#[inline(always)]
pub(super) fn is_discovery(frame: &Frame<'_>) -> bool {
    frame.octets().read::<2>(ETHERTYPE) == Some(ethernet::IPV6.to_be_bytes()) && is_near_message(frame)
}

#[inline]
fn is_near_message(frame: &Frame<'_>) -> bool {
    let is_near = frame.octets().read::<2>(NEXT_HEADER) == Some([ipv6::next::ICMP, ipv6::LINK_HOPS]);
    let kind = frame.octets().read::<1>(ICMP);
    is_near && kind.is_some_and(|[kind]| (nd::ROUTER_SOLICIT..=nd::ADVERT).contains(&kind))
}

/// Whether a frame looks like what is heard for all members.
#[inline(always)]
pub(super) fn is_spoken(frame: &Frame<'_>) -> bool {
    is_arp(frame) || is_discovery(frame)
}

/// Whether a frame is for where probes are taken out, at any NIC: what stands in the last octet only who looks closer needs to know.
#[inline(always)]
pub(super) fn is_back(frame: &Frame<'_>) -> bool {
    let [a, b, c, d, e, _] = probe::BACK.0;
    frame.octets().read::<5>(0) == Some([a, b, c, d, e])
}

#[inline(always)]
pub(super) fn is_for_us(frame: &Frame<'_>) -> bool {
    is_spoken(frame) || is_back(frame)
}
