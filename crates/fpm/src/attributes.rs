//! Netlink attributes as views over octets (RFC 3549, section 2.3; `struct rtattr`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of an attribute's header.
pub const HEADER: usize = 4;
/// Bits of an attribute's type that are its number; the others are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
pub const NUMBER: u16 = 0x3fff;

/// Attribute: its number and its value.
pub(crate) type Attribute<'a> = (u16, &'a [u8]);

/// Attributes in `octets`, in their order; an error, which ends them, if a length is wrong. Up to three octets of padding may
/// follow the last one.
pub(crate) fn attributes(octets: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, BadLength>> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        if rest.len() < HEADER {
            return None;
        }
        let len = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let number = u16::from_ne_bytes([rest[2], rest[3]]) & NUMBER;
        let Some(value) = rest.get(HEADER..len) else {
            rest = &[];
            return Some(Err(BadLength));
        };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((number, value)))
    })
}

/// A length that is shorter than its header, or longer than what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLength;

/// Number of 32 bits in host byte order.
pub(crate) fn number(value: &[u8]) -> Result<u32, BadLength> {
    value.first_chunk().map(|octets| u32::from_ne_bytes(*octets)).ok_or(BadLength)
}

/// Number of 16 bits in host byte order.
pub(crate) fn short(value: &[u8]) -> Result<u16, BadLength> {
    value.first_chunk().map(|octets| u16::from_ne_bytes(*octets)).ok_or(BadLength)
}

/// Address of either family, which its length tells.
pub(crate) fn address(value: &[u8]) -> Result<IpAddr, BadLength> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(value).map(|octets| Ipv6Addr::from(octets).into()).map_err(|_| BadLength)
}

/// Address behind its family (`struct rtvia`: two octets of family, then the address).
pub(crate) fn via(value: &[u8]) -> Result<IpAddr, BadLength> {
    address(value.get(2..).ok_or(BadLength)?)
}

#[cfg(test)]
mod tests;
