//! How a large frame is cut: TCP over IPv4 or IPv6 into segments, UDP into datagrams.
//!
//! ```text
//!   the frame    | headers |                  payload                   |
//!   segments     | headers |   size    |
//!                | headers |   size    |
//!                | headers | the rest |
//! ```
//!
//! Headers are read once, and checked against what is ordered: a frame that is not what its order says is refused as a
//! whole. Lengths in the headers are not believed but set.

use super::{BadOffload, Gso, LARGEST, Offload};
use crate::{checksum, ethernet, ipv4, tcp, udp};

/// Octets of all headers of a frame that can be cut, at most.
pub const HEADERS: usize = 256;
/// Most segments of one frame: the largest frame in segments of 64 octets. What is smaller serves nobody but who wants to
/// keep others busy.
pub const MOST_SEGMENTS: usize = 1024;

/// Ethertypes of VLAN tags.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TAG: usize = 4;
/// Tags that are looked through.
const MOST_TAGS: usize = 2;
const IPV6_HEADER: usize = 40;
/// IPv6 extension headers that may stand before the transport: hop-by-hop and destination options.
const EXTENSIONS: [u8; 2] = [0, 60];
const MOST_EXTENSIONS: usize = 4;
/// TCP flags that only the last segment has.
const FIN_PSH: u8 = 0x09;
/// The TCP flag that only the first segment has (RFC 3168, section 6.1.2).
const CWR: u8 = 0x80;
/// More fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;
/// Where the checksum lies in each header.
const TCP_SUM: u16 = 16;
const UDP_SUM: u16 = 6;

/// A frame that is to be cut.
#[derive(Clone, Debug)]
pub struct Segments {
    head: [u8; HEADERS],
    /// Octets of all headers.
    headers: usize,
    /// Where the IP header begins.
    network: usize,
    /// Where the TCP or UDP header begins.
    transport: usize,
    ipv6: bool,
    gso: Gso,
    /// Octets of payload in each segment but the last.
    size: usize,
    /// Octets of payload.
    payload: usize,
    /// The sum of the pseudo header without its length.
    pseudo: u16,
}

impl Segments {
    /// How a frame of `len` octets is cut that begins with `head`: its first [`HEADERS`] octets, or all.
    ///
    /// # Errors
    /// If the frame is not what the order says, or too large, or its segments are too many or too long.
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

    /// How many there are; at least one.
    pub const fn count(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Octets of the longest one.
    pub fn longest(&self) -> usize {
        self.headers + self.size.min(self.payload)
    }

    /// Octets of the headers, the same in each.
    pub const fn headers(&self) -> usize {
        self.headers
    }

    /// Where the payload of segment `number` lies in the frame.
    pub fn payload(&self, number: usize) -> core::ops::Range<usize> {
        let end = self.headers + self.payload;
        let start = self.headers.saturating_add(number.saturating_mul(self.size)).min(end);
        start..(start + self.size).min(end)
    }

    /// Writes the headers of segment `number` at the start of `target`, which is as long as the segment. The transport
    /// checksum is left to be done, as the answer says; its place holds the sum of the pseudo header.
    pub fn write(&self, number: usize, target: &mut [u8]) -> Offload {
        let len = target.len();
        if let (Some(place), Some(headers)) = (target.get_mut(..self.headers), self.head.get(..self.headers))
        {
            place.copy_from_slice(headers);
        }
        if self.ipv6 {
            put(target, self.network + 4, len.saturating_sub(self.network + IPV6_HEADER) as u16);
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

    /// Total length, identification, checksum.
    fn write_ipv4(&self, number: usize, target: &mut [u8]) {
        let ip = self.network;
        let total = target.len().saturating_sub(ip) as u16;
        put(target, ip + 2, total);
        put(target, ip + 4, be16(&self.head, ip + 4).wrapping_add(number as u16));
        put(target, ip + 10, 0);
        let header = target.get(ip..self.transport).unwrap_or(&[]);
        put(target, ip + 10, checksum::of(header));
    }

    /// Sequence number and flags.
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

/// Where the headers of a frame are.
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
        for _ in 0..MOST_TAGS {
            if !TAGS.contains(&ethertype) {
                break;
            }
            network += TAG;
            ethertype = word(head, network - 2)?;
        }
        match ethertype {
            ethernet::IPV4 => Self::ipv4(head, network),
            ethernet::IPV6 => Self::ipv6(head, network),
            _ => None,
        }
    }

    /// A packet that is not a fragment.
    fn ipv4(head: &[u8], network: usize) -> Option<Self> {
        let header = head.get(network..)?.first_chunk::<{ ipv4::HEADER }>()?;
        let len = usize::from(header[0] & 0xf) * 4;
        let fragment = word(header, 6)? & FRAGMENT != 0;
        if header[0] >> 4 != 4 || len < ipv4::HEADER || fragment {
            return None;
        }
        Some(Self { network, transport: network + len, ipv6: false, protocol: header[9] })
    }

    /// A packet without extension headers that would have to be in one of the segments only.
    fn ipv6(head: &[u8], network: usize) -> Option<Self> {
        let header = head.get(network..)?.first_chunk::<IPV6_HEADER>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let (mut protocol, mut transport) = (header[6], network + IPV6_HEADER);
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

/// Octets of the TCP header at `at`.
fn tcp_header(head: &[u8], at: usize) -> Option<usize> {
    let len = usize::from(*head.get(at + 12)? >> 4) * 4;
    (len >= tcp::HEADER).then_some(len)
}

/// The sum of addresses and protocol.
fn pseudo(head: &[u8; HEADERS], network: usize, (ipv6, protocol): (bool, u8)) -> u16 {
    let addresses = if ipv6 { network + 8..network + 40 } else { network + 12..network + 20 };
    checksum::sum(u16::from(protocol), head.get(addresses).unwrap_or(&[]))
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Of headers that were found to be there.
fn be16(octets: &[u8], at: usize) -> u16 {
    word(octets, at).unwrap_or_default()
}

/// Into headers that were found to be there.
fn put(octets: &mut [u8], at: usize, word: u16) {
    if let Some(place) = octets.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = word.to_be_bytes();
    }
}
