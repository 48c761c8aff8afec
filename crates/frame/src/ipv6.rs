//! IPv6 headers (RFC 8200) and kinds of addresses (RFC 4291).

mod extensions;

use crate::{
    Error, Mac,
    octets::{array, be16, be32, first_mut},
};

pub use extensions::{
    Action, Fragment, MOST_HEADERS, MOST_OPTIONS, Opt, Options, Upper, is_cut_in_headers, misplaced, walk,
};

/// Length of the fixed header in octets.
pub const HEADER: usize = 40;
/// Minimum MTU of IPv6 in octets (RFC 8200, 5).
pub const SMALLEST_MTU: u16 = 1280;
/// Hop limit of messages that never leave their link (RFC 4861, 6.1 and 7.1).
pub const LINK_HOPS: u8 = 255;
/// Address of all nodes of a link.
pub const ALL_NODES: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0001;
/// Address of all routers of a link.
pub const ALL_ROUTERS: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0002;
/// Address of all routers of a link that listen to MLDv2 reports (RFC 3810, 5.2.14).
pub const ALL_MLD_ROUTERS: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0016;
/// First octets of the link-local addresses of interfaces: `fe80::/64`.
pub const LINK_LOCAL: u128 = 0xfe80 << 112;

/// Values of a next header field.
pub mod next {
    /// Hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// Routing header.
    pub const ROUTING: u8 = 43;
    /// Fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Authentication header (RFC 4302).
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMP: u8 = 58;
    /// Nothing follows.
    pub const NONE: u8 = 59;
    /// Destination options.
    pub const DESTINATION: u8 = 60;
}

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Length in octets of all that follows the fixed header.
    pub payload_len: u16,
    /// Kind of the header that follows: a value of [`next`] or another protocol.
    pub next_header: u8,
    /// Number of routers that may still forward the packet, plus one.
    pub hop_limit: u8,
    /// Address of the sender, in host byte order.
    pub source: u128,
    /// Address of the receiver, in host byte order.
    pub destination: u128,
}

impl Header {
    /// Creates a header with hop limit 64, without traffic class and flow label.
    pub const fn new(next_header: u8, source: u128, destination: u128, payload_len: u16) -> Self {
        Self { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, source, destination }
    }

    /// Returns the length of the whole packet in octets.
    pub const fn total_len(&self) -> usize {
        HEADER + self.payload_len as usize
    }

    /// Writes the header at the start of `octets`.
    pub fn write(&self, octets: &mut [u8]) -> Result<(), Error> {
        let header = first_mut::<HEADER>(octets)?;
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&word.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.to_be_bytes());
        header[24..40].copy_from_slice(&self.destination.to_be_bytes());
        Ok(())
    }
}

/// A packet with a valid fixed header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    octets: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a complete packet after checking version and length. Ignores octets after the packet (Ethernet padding).
    /// A payload length of 0 means an empty payload: jumbograms (RFC 2675) are not supported.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let packet = Self::parse_quoted(octets)?;
        let whole = octets.get(..packet.header.total_len()).ok_or(Error::Short)?;
        Ok(Self { octets: whole, ..packet })
    }

    /// Parses a packet whose payload may be truncated, after checking the version: for packets quoted in ICMPv6 errors,
    /// and for the first piece of a packet in several pieces.
    pub fn parse_quoted(octets: &'a [u8]) -> Result<Self, Error> {
        let fixed = octets.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let word = be32(fixed, 0);
        if word >> 28 != 6 {
            return Err(Error::Kind);
        }
        let header = Header {
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            payload_len: be16(fixed, 4),
            next_header: fixed[6],
            hop_limit: fixed[7],
            source: u128::from_be_bytes(array(fixed, 8)?),
            destination: u128::from_be_bytes(array(fixed, 24)?),
        };
        let end = octets.len().min(header.total_len());
        Ok(Self { header, octets: &octets[..end] })
    }

    /// Returns the header's fields.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns all that follows the fixed header.
    pub fn payload(&self) -> &'a [u8] {
        &self.octets[HEADER..]
    }

    /// Returns header and payload.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Returns the transport header's place, after the extension headers.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn upper(&self) -> Result<Upper, Error> {
        walk(self.octets)
    }
}

/// Returns true if the address names a group: `ff00::/8`.
#[inline(always)]
pub const fn is_multicast(address: u128) -> bool {
    address >> 120 == 0xff
}

/// Returns true if the address is valid only on its link: `fe80::/10`.
#[inline(always)]
pub const fn is_link_local(address: u128) -> bool {
    address >> 118 == 0x3fa
}

/// Returns true if no packet on a wire may have this source or destination (RFC 4291, 2.5.2, 2.5.3 and 2.5.5): the
/// unspecified address, loopback, IPv4-mapped addresses.
#[inline(always)]
pub const fn is_martian(address: u128) -> bool {
    address <= 1 || address >> 32 == 0xffff
}

/// Returns true if a router forwards packets between such addresses: no group, not of one link, no martian.
#[inline(always)]
pub const fn is_forwardable(address: u128) -> bool {
    // Multicast and link-local addresses are those above 0xfe7f; site-local ones (fec0::/10) are forwarded as any other
    // unicast address (RFC 3879).
    !is_multicast(address) && !is_link_local(address) && !is_martian(address)
}

/// Returns the scope of an address as a number of RFC 4007 and RFC 4291, 2.7: 1 interface, 2 link, 5 site, 14 global.
pub const fn scope(address: u128) -> u8 {
    if is_multicast(address) {
        (address >> 112) as u8 & 0xf
    } else if is_link_local(address) || address == 1 {
        2
    } else if address >> 118 == 0x3fb {
        5
    } else {
        14
    }
}

/// Returns the solicited-node group of an address (RFC 4291, 2.7.1).
pub const fn solicited_node(address: u128) -> u128 {
    0xff02_0000_0000_0000_0000_0001_ff00_0000 | address & 0xff_ffff
}

/// Returns the Ethernet address of a group (RFC 2464, 7).
pub const fn group_mac(group: u128) -> Mac {
    let [a, b, c, d] = (group as u32).to_be_bytes();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Returns the link-local address of an interface with this Ethernet address (RFC 4291, appendix A).
pub const fn link_local(mac: Mac) -> u128 {
    let [a, b, c, d, e, f] = mac.0;
    LINK_LOCAL | u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]) as u128
}

/// Returns the mask of a prefix of `len` bits.
pub const fn mask(len: u8) -> u128 {
    match len {
        0 => 0,
        1..=127 => u128::MAX << (128 - len),
        _ => u128::MAX,
    }
}
