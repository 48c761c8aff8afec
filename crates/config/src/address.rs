//! Addresses with a prefix length, and prefixes, of both families.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// IPv4 or IPv6 address.
pub trait Ip: Copy + Eq {
    /// Length in bits.
    const BITS: u8;

    /// The first `len` bits of the address; those behind are zero.
    #[must_use]
    fn masked(self, len: u8) -> Self;
}

impl Ip for Ipv4Addr {
    const BITS: u8 = 32;

    fn masked(self, len: u8) -> Self {
        Self::from_bits(self.to_bits() & mask(len))
    }
}

impl Ip for Ipv6Addr {
    const BITS: u8 = 128;

    fn masked(self, len: u8) -> Self {
        let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(len))).unwrap_or(0);
        Self::from_bits(self.to_bits() & mask)
    }
}

/// One of a router's own addresses, with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressOf<A> {
    /// IP address.
    pub ip: A,
    /// Prefix length of the network, at most that of an address.
    pub len: u8,
}

/// One of a router's own IPv4 addresses.
pub type Address = AddressOf<Ipv4Addr>;
/// One of a router's own IPv6 addresses.
pub type Address6 = AddressOf<Ipv6Addr>;

impl<A: Ip> AddressOf<A> {
    /// Network that contains the address.
    pub fn network(self) -> PrefixOf<A> {
        PrefixOf::containing(self.ip, self.len)
    }
}

impl<A: fmt::Display> fmt::Display for AddressOf<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.len)
    }
}

/// Range of addresses; the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PrefixOf<A> {
    /// First address.
    pub network: A,
    /// Prefix length, at most that of an address.
    pub len: u8,
}

/// Range of IPv4 addresses.
pub type Prefix = PrefixOf<Ipv4Addr>;
/// Range of IPv6 addresses.
pub type Prefix6 = PrefixOf<Ipv6Addr>;

impl<A: Ip> PrefixOf<A> {
    /// Returns the prefix of `len` bits (at most all of an address) that contains `ip`.
    pub fn containing(ip: A, len: u8) -> Self {
        Self { network: ip.masked(len), len: len.min(A::BITS) }
    }

    /// Returns true if `ip` is in this range.
    pub fn contains(self, ip: A) -> bool {
        ip.masked(self.len) == self.network
    }

    /// Returns true if both ranges have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        let shorter = self.len.min(other.len);
        Self::containing(self.network, shorter) == Self::containing(other.network, shorter)
    }
}

impl Prefix {
    /// Last address: the broadcast address of a network large enough to have one.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | !mask(self.len))
    }
}

impl<A: fmt::Display> fmt::Display for PrefixOf<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.network, self.len)
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(len))).unwrap_or(0)
}

/// Parses `a.b.c.d/len` or `2001:db8::1/64`.
pub(crate) fn parse_cidr<A: Ip + FromStr>(text: &str) -> Option<AddressOf<A>> {
    let (ip, len) = text.split_once('/')?;
    let most_digits = A::BITS.to_string().len();
    let digits = (1..=most_digits).contains(&len.len()) && len.bytes().all(|digit| digit.is_ascii_digit());
    let len = len.parse::<u8>().ok().filter(|len| digits && *len <= A::BITS)?;
    Some(AddressOf { ip: ip.parse().ok()?, len })
}
