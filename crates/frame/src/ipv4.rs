//! IPv4 headers (RFC 791).

use crate::{
    Error, checksum,
    octets::{be16, be32, first_mut},
};

/// Octets of a header without options.
pub const HEADER: usize = 20;
/// Octets of the longest header.
pub const LONGEST_HEADER: usize = 60;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// Bit of the fragment word that forbids fragmentation.
const DONT_FRAGMENT: u16 = 0x4000;
/// Bit of the fragment word that says that further fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;

/// A header without its options and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Octets of the header, options included: 20 to 60, a multiple of 4.
    pub header_len: u8,
    /// Differentiated services and ECN.
    pub tos: u8,
    /// Octets of header and payload.
    pub total_len: u16,
    /// Which fragments belong together.
    pub identification: u16,
    /// Whether the packet must not be fragmented.
    pub dont_fragment: bool,
    /// Whether this is a fragment and not the last one.
    pub more_fragments: bool,
    /// Where the payload lies in the whole packet's payload, in units of 8 octets; 13 bits.
    pub fragment_offset: u16,
    /// How many routers may still forward the packet, plus one.
    pub ttl: u8,
    /// What the payload is ([`ICMP`], [`TCP`], [`UDP`], …).
    pub protocol: u8,
    /// Address of the sender.
    pub source: u32,
    /// Address of the receiver.
    pub destination: u32,
}

impl Header {
    /// A header without options, fragments or special service.
    pub const fn new(protocol: u8, source: u32, destination: u32, payload: u16) -> Self {
        Self {
            header_len: HEADER as u8,
            tos: 0,
            total_len: payload.saturating_add(HEADER as u16),
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            source,
            destination,
        }
    }

    /// Whether the packet is a piece of a larger one.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Writes the header at the start of `octets`, with its checksum. Options (from octet 20 to the header's
    /// length) are taken as they stand there.
    pub fn write(&self, octets: &mut [u8]) -> Result<(), Error> {
        let len = usize::from(self.header_len);
        if !(HEADER..=LONGEST_HEADER).contains(&len) || len % 4 != 0 || usize::from(self.total_len) < len {
            return Err(Error::Length);
        }
        let octets = octets.get_mut(..len).ok_or(Error::Short)?;
        let header = first_mut::<HEADER>(octets)?;
        header[0] = 0x40 | (self.header_len / 4);
        header[1] = self.tos;
        header[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6..8].copy_from_slice(&self.fragment_word().to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&self.source.to_be_bytes());
        header[16..20].copy_from_slice(&self.destination.to_be_bytes());
        let sum = checksum::of(octets);
        octets[10..12].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    fn fragment_word(&self) -> u16 {
        let mut word = self.fragment_offset & 0x1fff;
        if self.dont_fragment {
            word |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            word |= MORE_FRAGMENTS;
        }
        word
    }
}

/// A packet whose header is in order and whose octets are all there.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    octets: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks version, lengths and header checksum (RFC 1812, 5.2.2). Octets behind the packet (Ethernet padding)
    /// are left alone.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let packet = Self::parse_quoted(octets)?;
        let header = &packet.header;
        let whole = octets.get(..usize::from(header.total_len)).ok_or(Error::Short)?;
        if !checksum::holds(&whole[..usize::from(header.header_len)]) {
            return Err(Error::Checksum);
        }
        Ok(Self { octets: whole, ..packet })
    }

    /// Checks version and lengths, but no checksum, of a packet whose payload may be cut off: as ICMP errors quote packets.
    pub fn parse_quoted(octets: &'a [u8]) -> Result<Self, Error> {
        let fixed = octets.first_chunk::<HEADER>().ok_or(Error::Short)?;
        if fixed[0] >> 4 != 4 {
            return Err(Error::Kind);
        }
        let header_len = (fixed[0] & 15) * 4;
        let total_len = be16(fixed, 2);
        if usize::from(header_len) < HEADER || total_len < u16::from(header_len) {
            return Err(Error::Length);
        }
        if octets.len() < usize::from(header_len) {
            return Err(Error::Short);
        }
        let fragment = be16(fixed, 6);
        let header = Header {
            header_len,
            tos: fixed[1],
            total_len,
            identification: be16(fixed, 4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: fragment & 0x1fff,
            ttl: fixed[8],
            protocol: fixed[9],
            source: be32(fixed, 12),
            destination: be32(fixed, 16),
        };
        let end = octets.len().min(usize::from(total_len));
        Ok(Self { header, octets: &octets[..end] })
    }

    /// The header's fields.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The options, padded to a multiple of 4 octets.
    pub fn options(&self) -> &'a [u8] {
        &self.octets[HEADER..usize::from(self.header.header_len)]
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.octets[usize::from(self.header.header_len)..]
    }

    /// Header and payload.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }
}

/// The time to live and checksum words (octets 8 to 11 of a header) of the packet one hop further (RFC 1624); the
/// time to live must not be 0.
#[inline(always)]
pub fn age(words: [u8; 4]) -> [u8; 4] {
    let [ttl, protocol, high, low] = words;
    let checksum = u32::from(u16::from_be_bytes([high, low])) + 0x0100;
    // A sum of 0xffff and more carries around: 0xffff itself would be the other zero, which a fresh computation
    // never gives.
    let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
    let [high, low] = checksum.to_be_bytes();
    [ttl.wrapping_sub(1), protocol, high, low]
}

/// Whether a router must neither forward to nor accept from this address by its first octet (RFC 1812, 5.3.7):
/// this network, loopback, multicast, reserved.
#[inline(always)]
pub const fn is_martian(address: u32) -> bool {
    let first = address >> 24;
    first.wrapping_sub(1) >= 223 || first == 127
}
