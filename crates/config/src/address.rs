//! IPv4 addresses with a prefix length, and prefixes.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// One of a router's own addresses, with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// IPv4 address.
    pub ip: Ipv4Addr,
    /// Prefix length of the network, 0 to 32.
    pub len: u8,
}

impl Address {
    /// Network that contains the address.
    pub fn network(self) -> Prefix {
        Prefix::containing(self.ip, self.len)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.len)
    }
}

/// Range of addresses; the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix {
    /// First address.
    pub network: Ipv4Addr,
    /// Prefix length, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// Returns the prefix of `len` bits (at most 32) that contains `ip`.
    pub fn containing(ip: Ipv4Addr, len: u8) -> Self {
        Self { network: Ipv4Addr::from_bits(ip.to_bits() & mask(len)), len: len.min(32) }
    }

    /// Returns true if `ip` is in this range.
    pub fn contains(self, ip: Ipv4Addr) -> bool {
        ip.to_bits() & mask(self.len) == self.network.to_bits()
    }

    /// Returns true if both ranges have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        let shorter = self.len.min(other.len);
        Self::containing(self.network, shorter) == Self::containing(other.network, shorter)
    }

    /// Last address: the broadcast address of a network large enough to have one.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | !mask(self.len))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.network, self.len)
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(len))).unwrap_or(0)
}

/// Error: a text is not an IPv4 address, with a prefix length if there should be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Parses `a.b.c.d/len`.
pub(crate) fn parse_cidr(text: &str) -> Result<Address, Malformed> {
    let (ip, len) = text.split_once('/').ok_or(Malformed)?;
    let ip = ip.parse().map_err(|_| Malformed)?;
    let digits = (1..=2).contains(&len.len()) && len.bytes().all(|digit| digit.is_ascii_digit());
    match len.parse() {
        Ok(len) if digits && len <= 32 => Ok(Address { ip, len }),
        _ => Err(Malformed),
    }
}

/// Parses `a.b.c.d`.
pub(crate) fn parse_ip(text: &str) -> Result<Ipv4Addr, Malformed> {
    text.parse().map_err(|_| Malformed)
}
