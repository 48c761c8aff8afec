//! Headers of a frame up to its transport protocol, as far as classes depend on them. Bounded in steps, and without panics.

use crate::urgent::FIRST_ETHERTYPE;

/// Ethertypes.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV6: u16 = 0x86dd;
/// Ethertypes of VLAN tags (IEEE 802.1Q), and most tags that are skipped.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const MOST_TAGS: usize = 2;
/// Most extension headers of IPv6 that are skipped.
const MOST_EXTENSIONS: usize = 8;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried<'a> {
    /// Something else than IP, with this ethertype.
    Type(u16),
    /// LLC with this destination service access point.
    Llc(u8),
    Packet(Packet<'a>),
    /// Something cut short, or with headers of another version.
    Other,
}

/// IP packet, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Protocol of the payload, behind extension headers.
    pub(crate) protocol: u8,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Payload; empty if this is a later fragment.
    pub(crate) payload: &'a [u8],
}

/// Returns the ethertype (or length) of a frame behind its VLAN tags, and what follows it.
pub(crate) fn network(frame: &[u8]) -> (Option<u16>, &[u8]) {
    let (mut at, mut ethertype) = (14, short(frame, 12));
    for _ in 0..MOST_TAGS {
        if ethertype.is_some_and(|ethertype| TAGS.contains(&ethertype)) {
            (ethertype, at) = (short(frame, at + 2), at + 4);
        }
    }
    (ethertype, frame.get(at..).unwrap_or_default())
}

pub(crate) fn carried(frame: &[u8]) -> Carried<'_> {
    let (ethertype, payload) = network(frame);
    match ethertype {
        Some(IPV4) => ipv4(payload).map_or(Carried::Other, Carried::Packet),
        Some(IPV6) => ipv6(payload).map_or(Carried::Other, Carried::Packet),
        Some(length) if length < FIRST_ETHERTYPE => {
            payload.first().map_or(Carried::Other, |dsap| Carried::Llc(*dsap))
        }
        Some(ethertype) => Carried::Type(ethertype),
        None => Carried::Other,
    }
}

/// Reads the header of an IPv4 packet (RFC 791); its checksum is left to whoever gets it.
pub(crate) fn ipv4(octets: &[u8]) -> Option<Packet<'_>> {
    let header = octets.first_chunk::<20>()?;
    let len = usize::from(header[0] & 15) * 4;
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    if header[0] >> 4 != 4 || len < 20 {
        return None;
    }
    let payload: &[u8] = if is_later_fragment { &[] } else { octets.get(len..)? };
    Some(Packet { protocol: header[9], ttl: header[8], payload })
}

/// Reads the headers of an IPv6 packet (RFC 8200).
pub(crate) fn ipv6(octets: &[u8]) -> Option<Packet<'_>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let header = octets.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut protocol, ttl, mut rest) = (header[6], header[7], &octets[40..]);
    for _ in 0..MOST_EXTENSIONS {
        if !matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            break;
        }
        let [next, length, high, low] = *rest.first_chunk()?;
        let len = match protocol {
            FRAGMENT if u16::from_be_bytes([high, low]) & 0xfff8 != 0 => {
                return Some(Packet { protocol: next, ttl, payload: &[] });
            }
            FRAGMENT => 8,
            _ => (usize::from(length) + 1) * 8,
        };
        (protocol, rest) = (next, rest.get(len..)?);
    }
    Some(Packet { protocol, ttl, payload: rest })
}

/// Big-endian number of 16 bits at `at`.
pub(crate) fn short(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}
