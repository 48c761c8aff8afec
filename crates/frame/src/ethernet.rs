//! Ethernet II frames (IEEE 802.3), without FCS.

use core::fmt;

use crate::{
    Error,
    octets::{array, be16, first_mut},
};

/// Length of the header in octets.
pub const HEADER: usize = 14;
/// Length of the shortest frame on a wire in octets, without FCS.
pub const SHORTEST: usize = 60;
/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns true if the address names a group of stations, broadcast included.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns true if the address names exactly one station: no group, not all zeros.
    #[inline(always)]
    pub fn is_station(self) -> bool {
        !self.is_group() && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Address of the receiver, or of a group.
    pub destination: Mac,
    /// Address of the sender.
    pub source: Mac,
    /// Protocol of the payload ([`IPV4`], [`ARP`], …), or its length if below 1536.
    pub ethertype: u16,
}

impl Header {
    /// Parses the header; returns it with the payload.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), Error> {
        let header = frame.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let parsed = Self {
            destination: Mac(array(header, 0)?),
            source: Mac(array(header, 6)?),
            ethertype: be16(header, 12),
        };
        Ok((parsed, &frame[HEADER..]))
    }

    /// Encodes the header.
    #[inline]
    pub fn octets(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        header[12..].copy_from_slice(&self.ethertype.to_be_bytes());
        header
    }

    /// Writes the header at the start of `frame`.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) -> Result<(), Error> {
        *first_mut(frame)? = self.octets();
        Ok(())
    }
}
