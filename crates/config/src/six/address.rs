//! IPv6 addresses with a prefix length, and prefixes.

use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

/// One of a router's own IPv6 addresses, with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address6 {
    /// IPv6 address.
    pub ip: Ipv6Addr,
    /// Prefix length of the network, 0 to 128.
    pub len: u8,
}

impl Address6 {
    /// Network that contains the address.
    pub fn network(self) -> Prefix6 {
        Prefix6::containing(self.ip, self.len)
    }
}

impl fmt::Display for Address6 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.len)
    }
}

/// Range of IPv6 addresses; the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix6 {
    /// First address.
    pub network: Ipv6Addr,
    /// Prefix length, 0 to 128.
    pub len: u8,
}

impl Prefix6 {
    /// Returns the prefix of `len` bits (at most 128) that contains `ip`.
    pub fn containing(ip: Ipv6Addr, len: u8) -> Self {
        Self { network: Ipv6Addr::from_bits(ip.to_bits() & mask(len)), len: len.min(128) }
    }

    /// Returns true if `ip` is in this range.
    pub fn contains(self, ip: Ipv6Addr) -> bool {
        ip.to_bits() & mask(self.len) == self.network.to_bits()
    }

    /// Returns true if both ranges have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        let shorter = self.len.min(other.len);
        Self::containing(self.network, shorter) == Self::containing(other.network, shorter)
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.network, self.len)
    }
}

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(len))).unwrap_or(0)
}

/// Parses `2001:db8::1/64`.
pub(crate) fn parse_cidr6(text: &str) -> Option<Address6> {
    let (ip, len) = text.split_once('/')?;
    let digits = (1..=3).contains(&len.len()) && len.bytes().all(|digit| digit.is_ascii_digit());
    let len = len.parse().ok().filter(|len| digits && *len <= 128)?;
    Some(Address6 { ip: parse_ip6(ip)?, len })
}

/// Parses `2001:db8::1`.
pub(crate) fn parse_ip6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok()
}

/// Parses an address that a router may have.
pub(super) fn own(text: &str) -> Result<Address6, String> {
    let example = "write e.g. \"2001:db8::1/64\"";
    let address = parse_cidr6(text)
        .ok_or_else(|| format!("{text:?} is not an IPv6 address with a prefix length; {example}"))?;
    let ip = address.ip;
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.to_ipv4_mapped().is_some() {
        return Err(format!("{text:?} cannot be a router's own address; {example}"));
    }
    if address.len == 0 {
        return Err(format!("{text:?} is every network at once; {example}"));
    }
    if ip.is_unicast_link_local() && address.len != 64 {
        return Err(format!("{text:?}: the prefix of a link-local address has 64 bits; write \"{ip}/64\""));
    }
    if address.len < 127 && ip == address.network().network {
        return Err(format!(
            "{text:?} is the address of all routers of its network; write e.g. \"{}1/{}\"",
            ip, address.len
        ));
    }
    Ok(address)
}

/// Parses the IPv6 address of a gateway: link-local, or any single host's.
pub(crate) fn gateway(text: &str) -> Result<Ipv6Addr, String> {
    let example = "write e.g. \"2001:db8::fe\"";
    let ip = parse_ip6(text).ok_or_else(|| format!("{text:?} is not an IPv6 address; {example}"))?;
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.to_ipv4_mapped().is_some() {
        return Err(format!("{text:?} is no single host on a link; {example}"));
    }
    Ok(ip)
}
