//! IPv6 addresses that a file gives.

use std::net::Ipv6Addr;

use crate::address::{Address6, parse_cidr};

/// Parses an address that a router may have.
pub(super) fn own(text: &str) -> Result<Address6, String> {
    let example = "write e.g. \"2001:db8::1/64\"";
    let address: Address6 = parse_cidr(text)
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
    let ip: Ipv6Addr = text.parse().map_err(|_| format!("{text:?} is not an IPv6 address; {example}"))?;
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.to_ipv4_mapped().is_some() {
        return Err(format!("{text:?} is no single host on a link; {example}"));
    }
    Ok(ip)
}
