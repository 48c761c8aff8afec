//! Segmentation of a large frame: TCP over IPv4 or IPv6 into segments, UDP into datagrams.
//!
//! ```text
//!   the frame    | headers |                  payload                   |
//!   segments     | headers |   size    |
//!                | headers |   size    |
//!                | headers | the rest |
//! ```
//!
//! Headers are read once, and checked against the offload metadata: a frame that does not match its metadata is refused
//! as a whole. Length fields in the headers are not trusted but rewritten.

use super::{BadOffload, Gso, LARGEST, Offload};
use crate::{checksum, ethernet, ipv4, ipv6, tcp, udp, vlan};

/// Maximum length of all headers of a frame that can be segmented, in octets.
pub const HEADERS: usize = 256;
/// Maximum number of segments of one frame: the largest frame in segments of 64 octets. Smaller segments are only of
/// use for denial of service.
pub const MOST_SEGMENTS: usize = 1024;

/// IPv6 extension headers that may precede the transport header: each segment can have them.
const EXTENSIONS: [u8; 2] = [ipv6::next::HOP_BY_HOP, ipv6::next::DESTINATION];
const MOST_EXTENSIONS: usize = 4;
/// TCP flags set in the last segment only.
const FIN_PSH: u8 = 0x09;
/// TCP flag set in the first segment only (RFC 3168, section 6.1.2).
const CWR: u8 = 0x80;
/// Bits "more fragments" and the fragment offset.
const FRAGMENT: u16 = 0x3fff;
/// Offsets of the checksum in each header.
const TCP_SUM: u16 = 16;
const UDP_SUM: u16 = 6;

/// A frame to be segmented.
#[derive(Clone, Debug)]
pub struct Segments {
    head: [u8; HEADERS],
    /// Length of all headers in octets.
    headers: usize,
    /// Offset of the IP header.
    network: usize,
    /// Offset of the TCP or UDP header.
    transport: usize,
    ipv6: bool,
    gso: Gso,
    /// Octets of payload in each segment but the last.
    size: usize,
    /// Length of the payload in octets.
    payload: usize,
    /// Sum of the pseudo header without its length field.
    pseudo: u16,
}

impl Segments {
    /// Prepares the segmentation of a frame of `len` octets that begins with `head`: its first [`HEADERS`] octets, or
    /// all.
    ///
    /// # Errors
    /// If the frame does not match the metadata, or is too large, or its segments are too many or too long.
    pub fn new(offload: Offload, len: usize, head: &[u8]) -> Result<Self, BadOffload> {
        Self::parse(offload, len, head).ok_or(BadOffload)
    }

    fn parse(offload: Offload, len: usize, octets: &[u8]) -> Option<Self> {
        let mut head = [0; HEADERS];
        let known = octets.len().min(HEADERS);
        head[..known].copy_from_slice(&octets[..known]);
        let head = head;
        let (gso, size) = (offload.gso()?, usize::from(offload.gso_size()));
        let place = Place::find(&head[..known])?;
        let transport_len = match (gso, place.protocol) {
            (Gso::Tcp4, ipv4::TCP) if !place.ipv6 => tcp_header(&head, place.transport)?,
            (Gso::Tcp6, ipv4::TCP) if place.ipv6 => tcp_header(&head, place.transport)?,
            (Gso::Udp, ipv4::UDP) => udp::HEADER,
            _ => return None,
        };
        let sum = if gso == Gso::Udp { UDP_SUM } else { TCP_SUM };
        let headers = place.transport + transport_len;
        let ordered = usize::from(offload.csum_start()) == place.transport && offload.csum_offset() == sum;
        if !ordered || headers > known || len > LARGEST || len <= headers || size == 0 {
            return None;
        }
        let payload = len - headers;
        let fits = headers - place.network + size.min(payload) <= usize::from(u16::MAX);
        if !fits || payload.div_ceil(size) > MOST_SEGMENTS {
            return None;
        }
        let Place { network, transport, ipv6, protocol } = place;
        let pseudo = pseudo(&head, network, (ipv6, protocol));
        Some(Self { head, headers, network, transport, ipv6, gso, size, payload, pseudo })
    }

    /// Returns the number of segments; at least one.
    pub const fn count(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Returns the length of the longest segment in octets.
    pub fn longest(&self) -> usize {
        self.headers + self.size.min(self.payload)
    }

    /// Returns the length of the headers in octets, equal in each segment.
    pub const fn headers(&self) -> usize {
        self.headers
    }

    /// Returns the range of the frame that is the payload of segment `number`.
    pub fn payload(&self, number: usize) -> core::ops::Range<usize> {
        let end = self.headers + self.payload;
        let start = self.headers.saturating_add(number.saturating_mul(self.size)).min(end);
        start..(start + self.size).min(end)
    }

    /// Writes the headers of segment `number` at the start of `target`, which is as long as the segment. The transport
    /// checksum is left to be filled in, as the returned metadata says; its field holds the sum of the pseudo header.
    pub fn write(&self, number: usize, target: &mut [u8]) -> Offload {
        let len = target.len();
        if let (Some(place), Some(headers)) = (target.get_mut(..self.headers), self.head.get(..self.headers))
        {
            place.copy_from_slice(headers);
        }
        if self.ipv6 {
            put(target, self.network + 4, len.saturating_sub(self.network + ipv6::HEADER) as u16);
        } else {
            self.write_ipv4(number, target);
        }
        let transport_len = len.saturating_sub(self.transport) as u16;
        let pseudo = checksum::sum(self.pseudo, &transport_len.to_be_bytes());
        let sum = if self.gso == Gso::Udp {
            put(target, self.transport + 4, transport_len);
            UDP_SUM
        } else {
            self.write_tcp(number, target);
            TCP_SUM
        };
        put(target, self.transport + usize::from(sum), pseudo);
        Offload::checksum(self.transport as u16, sum).unwrap_or_default()
    }

    /// Sets total length, identification and checksum.
    fn write_ipv4(&self, number: usize, target: &mut [u8]) {
        let ip = self.network;
        let total = target.len().saturating_sub(ip) as u16;
        put(target, ip + 2, total);
        put(target, ip + 4, be16(&self.head, ip + 4).wrapping_add(number as u16));
        put(target, ip + 10, 0);
        let header = target.get(ip..self.transport).unwrap_or(&[]);
        put(target, ip + 10, checksum::of(header));
    }

    /// Sets sequence number and flags.
    fn write_tcp(&self, number: usize, target: &mut [u8]) {
        let tcp = self.transport;
        let sequence = u32::from(be16(&self.head, tcp + 4)) << 16 | u32::from(be16(&self.head, tcp + 6));
        let sequence = sequence.wrapping_add((number * self.size) as u32);
        put(target, tcp + 4, (sequence >> 16) as u16);
        put(target, tcp + 6, sequence as u16);
        let mut flags = self.head.get(tcp + 13).copied().unwrap_or_default();
        if number + 1 < self.count() {
            flags &= !FIN_PSH;
        }
        if number > 0 {
            flags &= !CWR;
        }
        if let Some(place) = target.get_mut(tcp + 13) {
            *place = flags;
        }
    }
}

/// Location of the headers of a frame.
struct Place {
    network: usize,
    transport: usize,
    ipv6: bool,
    protocol: u8,
}

impl Place {
    fn find(head: &[u8]) -> Option<Self> {
        let mut network = ethernet::HEADER;
        let mut ethertype = word(head, network - 2)?;
        for _ in 0..vlan::MOST {
            if !vlan::is_tag(ethertype) {
                break;
            }
            network += vlan::TAG;
            ethertype = word(head, network - 2)?;
        }
        match ethertype {
            ethernet::IPV4 => Self::ipv4(head, network),
            ethernet::IPV6 => Self::ipv6(head, network),
            _ => None,
        }
    }

    /// Locates the headers of an IPv4 packet that is not a fragment.
    fn ipv4(head: &[u8], network: usize) -> Option<Self> {
        let header = head.get(network..)?.first_chunk::<{ ipv4::HEADER }>()?;
        let len = usize::from(header[0] & 0xf) * 4;
        let fragment = word(header, 6)? & FRAGMENT != 0;
        if header[0] >> 4 != 4 || len < ipv4::HEADER || fragment {
            return None;
        }
        Some(Self { network, transport: network + len, ipv6: false, protocol: header[9] })
    }

    /// Locates the headers of an IPv6 packet without extension headers that would have to be in only one of the
    /// segments.
    fn ipv6(head: &[u8], network: usize) -> Option<Self> {
        let header = head.get(network..)?.first_chunk::<{ ipv6::HEADER }>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let (mut protocol, mut transport) = (header[6], network + ipv6::HEADER);
        for _ in 0..MOST_EXTENSIONS {
            if !EXTENSIONS.contains(&protocol) {
                break;
            }
            let &[next, len] = head.get(transport..)?.first_chunk::<2>()?;
            (protocol, transport) = (next, transport + (usize::from(len) + 1) * 8);
        }
        Some(Self { network, transport, ipv6: true, protocol })
    }
}

/// Returns the length of the TCP header at `at`.
fn tcp_header(head: &[u8], at: usize) -> Option<usize> {
    let len = usize::from(*head.get(at + 12)? >> 4) * 4;
    (len >= tcp::HEADER).then_some(len)
}

/// Returns the sum of addresses and protocol.
fn pseudo(head: &[u8; HEADERS], network: usize, (ipv6, protocol): (bool, u8)) -> u16 {
    let addresses = if ipv6 { network + 8..network + 40 } else { network + 12..network + 20 };
    checksum::sum(u16::from(protocol), head.get(addresses).unwrap_or(&[]))
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Reads a word of headers that are known to be complete.
fn be16(octets: &[u8], at: usize) -> u16 {
    word(octets, at).unwrap_or_default()
}

/// Writes a word of headers that are known to be complete.
fn put(octets: &mut [u8], at: usize, word: u16) {
    if let Some(place) = octets.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = word.to_be_bytes();
    }
}
