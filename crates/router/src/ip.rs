//! Addresses of both families as one kind of key.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The prefix of IPv4-mapped addresses, `::ffff:0:0/96`, which no packet on a wire may carry.
const MAPPED: u128 = 0xffff << 32;

/// An IPv4 or IPv6 address. One number holds both: an IPv4 address is its IPv4-mapped one (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Ip(u128);

impl Ip {
    /// Creates it from an IPv4 address in host byte order.
    #[inline]
    pub const fn v4(ip: u32) -> Self {
        Self(MAPPED | ip as u128)
    }

    /// Creates it from an IPv6 address in host byte order.
    #[inline]
    pub const fn v6(ip: u128) -> Self {
        Self(ip)
    }

    /// Returns the number that holds it.
    #[inline]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Returns the IPv4 address, if it is one.
    #[inline]
    pub const fn as_v4(self) -> Option<u32> {
        if self.0 >> 32 == MAPPED >> 32 { Some(self.0 as u32) } else { None }
    }

    /// Returns a hash of the address and a NIC.
    #[inline]
    pub(crate) const fn hash(self, nic: u8) -> u64 {
        let folded = (self.0 >> 64) as u64 ^ (self.0 as u64).rotate_left(29) ^ (nic as u64) << 57;
        let mixed = (folded ^ folded >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

impl From<u32> for Ip {
    fn from(ip: u32) -> Self {
        Self::v4(ip)
    }
}

impl From<u128> for Ip {
    fn from(ip: u128) -> Self {
        Self::v6(ip)
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_v4() {
            Some(ip) => Ipv4Addr::from_bits(ip).fmt(out),
            None => Ipv6Addr::from_bits(self.0).fmt(out),
        }
    }
}
