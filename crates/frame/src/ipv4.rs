//! IPv4 headers (RFC 791).

use crate::{
    Error, checksum,
    octets::{be16, be32, first_mut},
};

/// Length of a header without options in octets.
pub const HEADER: usize = 20;
/// Length of the longest header in octets.
pub const LONGEST_HEADER: usize = 60;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// Bit of the fragment word that forbids fragmentation.
const DONT_FRAGMENT: u16 = 0x4000;
/// Bit of the fragment word that announces further fragments.
const MORE_FRAGMENTS: u16 = 0x2000;

/// A header without its options and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the header in octets, options included: 20 to 60, a multiple of 4.
    pub header_len: u8,
    /// Differentiated services and ECN.
    pub tos: u8,
    /// Length of header and payload in octets.
    pub total_len: u16,
    /// Identification, which is equal in the fragments of one packet.
    pub identification: u16,
    /// True if the packet must not be fragmented.
    pub dont_fragment: bool,
    /// True if this is a fragment other than the last one.
    pub more_fragments: bool,
    /// Offset of the payload in the payload of the whole packet, in units of 8 octets; 13 bits.
    pub fragment_offset: u16,
    /// Time to live: number of routers that may still forward the packet, plus one.
    pub ttl: u8,
    /// Protocol of the payload ([`ICMP`], [`TCP`], [`UDP`], …).
    pub protocol: u8,
    /// Address of the sender.
    pub source: u32,
    /// Address of the receiver.
    pub destination: u32,
}

impl Header {
    /// Creates a header without options, fragmentation or a special type of service.
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

    /// Returns true if the packet is a fragment of a larger one.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Writes the header at the start of `octets`, with its checksum. Options (from octet 20 to the header's length)
    /// must already be in place.
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

/// A complete packet with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    octets: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet after checking version, lengths and header checksum (RFC 1812, 5.2.2). Ignores octets after the
    /// packet (Ethernet padding).
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let packet = Self::parse_quoted(octets)?;
        let header = &packet.header;
        let whole = octets.get(..usize::from(header.total_len)).ok_or(Error::Short)?;
        if !checksum::holds(&whole[..usize::from(header.header_len)]) {
            return Err(Error::Checksum);
        }
        Ok(Self { octets: whole, ..packet })
    }

    /// Parses a packet whose payload may be truncated, after checking version and lengths, but no checksum: for packets
    /// quoted in ICMP errors.
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

    /// Returns the header's fields.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the options, padded to a multiple of 4 octets.
    pub fn options(&self) -> &'a [u8] {
        &self.octets[HEADER..usize::from(self.header.header_len)]
    }

    /// Returns the payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.octets[usize::from(self.header.header_len)..]
    }

    /// Returns header and payload.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }
}

/// Returns the words of time to live and checksum (octets 8 to 11 of a header) of the packet after one more hop (RFC
/// 1624); the time to live must not be 0.
#[inline(always)]
pub fn age(words: [u8; 4]) -> [u8; 4] {
    let [ttl, protocol, high, low] = words;
    let checksum = u32::from(u16::from_be_bytes([high, low])) + 0x0100;
    // A sum of 0xffff and more carries around: 0xffff itself would be the other representation of zero, which a full
    // computation never yields.
    let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
    let [high, low] = checksum.to_be_bytes();
    [ttl.wrapping_sub(1), protocol, high, low]
}

/// Returns true if, by its first octet, a router must neither forward packets to this address nor accept packets from
/// it (RFC 1812, 5.3.7): this network, loopback, multicast, reserved.
#[inline(always)]
pub const fn is_martian(address: u32) -> bool {
    let first = address >> 24;
    first.wrapping_sub(1) >= 223 || first == 127
}
