//! IPv6 packets as a trace sees them.
//!
//! Routers change the hop limit and nothing else. A packet is recognised by its addresses, its flow label, its length, and
//! the start of what follows the fixed header.

use std::fmt;
use std::net::Ipv6Addr;

use frame::{ethernet, icmpv6, ipv6, nd};

use super::{COMPARED, IpIdentity, show_tcp, show_udp};

/// Octets of an Ethernet header, a fixed IPv6 header, and the 8 octets beyond it.
pub(in crate::tracing) const SHORT6: usize = 14 + 40 + 8;

/// Returns a hash of the first octets of an IPv6 frame that is the same wherever the packet is seen, and never 0.
#[inline]
pub(in crate::tracing) fn fingerprint6(head: &[u8; SHORT6]) -> u64 {
    let word =
        |at: usize| u64::from(u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let long = |at: usize| word(at) << 32 | word(at + 4);
    // All but the hop limit: flow label, length and next header, both addresses, the start of the rest.
    let mut mixed = word(14) << 32 | word(18) & 0xffff_ff00;
    for at in [22, 30, 38, 46, 54] {
        mixed = (mixed ^ long(at)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 29;
    }
    mixed | 1
}

/// Returns a number that stands for an IPv6 address among the senders of followed packets; never 0.
pub(in crate::tracing) fn folded(address: u128) -> u32 {
    let mixed = (address >> 64) as u64 ^ address as u64;
    ((mixed >> 32) as u32 ^ mixed as u32) | 1
}

/// Returns the [`folded`] destination of an ICMPv6 frame without extension headers; 0 for other frames.
pub(in crate::tracing) fn answered(head: &[u8; SHORT6]) -> u32 {
    let (_, rest) = head.split_at(38);
    match rest.first_chunk() {
        Some(octets) if head[20] == ipv6::next::ICMP => folded(u128::from_be_bytes(*octets)),
        _ => 0,
    }
}

/// Returns the identity of the IPv6 packet that begins with these octets.
pub(super) fn identity(octets: &[u8]) -> Option<IpIdentity> {
    let packet = ipv6::Packet::parse_quoted(octets).ok()?;
    let (header, payload) = (packet.header(), packet.payload());
    let upper = packet.upper().ok();
    let transport = upper.filter(|upper| !upper.is_later_fragment()).map(|upper| upper.at - ipv6::HEADER);
    let mut start = [0; COMPARED];
    let start_len = payload.len().min(COMPARED);
    start[..start_len].copy_from_slice(&payload[..start_len]);
    Some(IpIdentity {
        source: header.source,
        destination: header.destination,
        protocol: upper.map_or(header.next_header, |upper| upper.protocol),
        identification: header.flow_label,
        offset: header.payload_len,
        start,
        start_len,
        transport,
        ttl: header.hop_limit,
    })
}

/// Returns true if the IPv6 packet that begins with these octets is a node's answer to `asked`.
pub(super) fn answers(octets: &[u8], asked: &IpIdentity) -> bool {
    let Some((header, message)) = message(octets) else { return false };
    if header.kind < icmpv6::ECHO_REQUEST {
        return identity(message).is_some_and(|quoted| quoted.is_same(asked));
    }
    let request = asked.transport.and_then(|at| asked.start[..asked.start_len].get(at..));
    let request = request.and_then(|octets| icmpv6::Header::parse_quoted(octets).ok());
    let Some((request, rest)) = request.filter(|_| asked.protocol == ipv6::next::ICMP) else { return false };
    match request.kind {
        icmpv6::ECHO_REQUEST => header.kind == icmpv6::ECHO_REPLY && header.rest == request.rest,
        // As much of the target as is kept.
        nd::SOLICIT => header.kind == nd::ADVERT && message.starts_with(rest),
        _ => false,
    }
}

/// Returns the ICMPv6 message of a packet.
fn message(packet: &[u8]) -> Option<(icmpv6::Header, &[u8])> {
    let packet = ipv6::Packet::parse_quoted(packet).ok()?;
    let upper = packet.upper().ok().filter(|upper| upper.protocol == ipv6::next::ICMP)?;
    icmpv6::Header::parse_quoted(packet.octets().get(upper.at..)?).ok()
}

/// Writes the headers of a packet.
pub(super) fn show(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let packet = match ipv6::Packet::parse_quoted(octets) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "IPv6, {error}"),
    };
    let header = packet.header();
    let (source, destination) = (Ipv6Addr::from(header.source), Ipv6Addr::from(header.destination));
    write!(f, "IPv6 {source} > {destination} ttl {}", header.hop_limit)?;
    if header.flow_label != 0 {
        write!(f, " flow {:05x}", header.flow_label)?;
    }
    let Ok(upper) = packet.upper() else { return f.write_str(", extension headers, cut off") };
    if let Some((fragment, _)) = upper.fragment.filter(|(fragment, _)| !fragment.is_whole()) {
        if fragment.offset != 0 {
            return write!(f, ", fragment at {}", u32::from(fragment.offset) * 8);
        }
        f.write_str(", first fragment")?;
    }
    let rest = packet.octets().get(upper.at..).unwrap_or(&[]);
    match upper.protocol {
        ipv6::next::ICMP => show_icmp(f, rest),
        ipv6::next::TCP => show_tcp(f, rest),
        ipv6::next::UDP => show_udp(f, rest),
        ipv6::next::NONE => f.write_str(", nothing"),
        other => write!(f, ", protocol {other}"),
    }
}

fn show_icmp(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let Ok((header, rest)) = icmpv6::Header::parse_quoted(octets) else {
        return f.write_str(", ICMPv6, cut off");
    };
    let (high, low) = (header.rest >> 16, header.rest & 0xffff);
    let target =
        rest.first_chunk().map_or(Ipv6Addr::UNSPECIFIED, |octets: &[u8; 16]| Ipv6Addr::from(*octets));
    match (header.kind, header.code) {
        (icmpv6::ECHO_REQUEST, _) => write!(f, ", ICMPv6 echo request id {high} seq {low}"),
        (icmpv6::ECHO_REPLY, _) => write!(f, ", ICMPv6 echo reply id {high} seq {low}"),
        (icmpv6::TIME_EXCEEDED, _) => f.write_str(", ICMPv6 time exceeded"),
        (icmpv6::TOO_BIG, _) => write!(f, ", ICMPv6 packet too big, MTU {}", header.rest),
        (icmpv6::UNREACHABLE, icmpv6::unreachable::NO_ROUTE) => f.write_str(", ICMPv6 no route"),
        (icmpv6::UNREACHABLE, icmpv6::unreachable::ADDRESS) => f.write_str(", ICMPv6 address unreachable"),
        (icmpv6::UNREACHABLE, icmpv6::unreachable::PORT) => f.write_str(", ICMPv6 port unreachable"),
        (nd::SOLICIT, _) => write!(f, ", ICMPv6 who has {target}"),
        (nd::ADVERT, _) => write!(f, ", ICMPv6 {target} is here"),
        (nd::ROUTER_SOLICIT, _) => f.write_str(", ICMPv6 router solicitation"),
        (nd::ROUTER_ADVERT, _) => f.write_str(", ICMPv6 router advertisement"),
        (kind, code) => write!(f, ", ICMPv6 type {kind} code {code}"),
    }
}

/// Returns the ethertype of a frame that begins with these octets.
#[inline]
pub(in crate::tracing) fn is_ipv6<const N: usize>(head: &[u8; N]) -> bool {
    head[12..14] == ethernet::IPV6.to_be_bytes()
}

#[cfg(test)]
mod tests;
