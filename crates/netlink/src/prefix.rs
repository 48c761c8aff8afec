//! IP prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::AddressFamily;

/// A network, or an address in its network: an address with a prefix length in bits (0 to 32, 0 to 128).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Address.
    pub ip: IpAddr,
    /// Prefix length in bits.
    pub len: u8,
}

impl Prefix {
    /// Creates a prefix; `None` if the length exceeds that of the address.
    pub fn new(ip: impl Into<IpAddr>, len: u8) -> Option<Self> {
        let ip = ip.into();
        let most = if ip.is_ipv4() { 32 } else { 128 };
        (len <= most).then_some(Self { ip, len })
    }

    /// Prefix of length 0 of this address family: 0.0.0.0/0 or ::/0. `None` for another family.
    pub(crate) fn any(family: AddressFamily) -> Option<Self> {
        match family {
            AddressFamily::Inet => Some(Self { ip: Ipv4Addr::UNSPECIFIED.into(), len: 0 }),
            AddressFamily::Inet6 => Some(Self { ip: Ipv6Addr::UNSPECIFIED.into(), len: 0 }),
            _ => None,
        }
    }

    /// Broadcast address of an IPv4 network that has one.
    pub(crate) fn broadcast(self) -> Option<Ipv4Addr> {
        match self.ip {
            IpAddr::V4(ip) if self.len < 31 => Some(Ipv4Addr::from(u32::from(ip) | u32::MAX >> self.len)),
            _ => None,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.len)
    }
}

/// Family of an address.
pub(crate) const fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_bounds_and_broadcast_addresses() {
        let v4 = |octets: [u8; 4], len| Prefix::new(octets, len);
        assert_eq!(v4([192, 0, 2, 1], 33), None);
        assert_eq!(Prefix::new(Ipv6Addr::LOCALHOST, 129), None);
        let net = v4([192, 0, 2, 1], 24).expect("a prefix");
        assert_eq!(net.to_string(), "192.0.2.1/24");
        assert_eq!(net.broadcast(), Some(Ipv4Addr::new(192, 0, 2, 255)));
        assert_eq!(v4([10, 1, 2, 3], 0).and_then(Prefix::broadcast), Some(Ipv4Addr::BROADCAST));
        assert_eq!(v4([10, 1, 2, 3], 31).and_then(Prefix::broadcast), None);
        assert_eq!(Prefix::new(Ipv6Addr::LOCALHOST, 64).and_then(Prefix::broadcast), None);
    }
}
