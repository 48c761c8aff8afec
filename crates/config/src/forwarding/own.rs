//! A router's own addresses of both families, with their networks.

use std::fmt;
use std::net::IpAddr;

use super::Destination;
use crate::address::Address;
use crate::six::Six;

/// One of the addresses of a NIC or interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) ip: IpAddr,
    len: u8,
    pub(crate) network: Destination,
}

impl fmt::Display for Own {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.len)
    }
}

/// Returns all addresses of a NIC or interface.
pub(crate) fn own_addresses(four: &[Address], six: &Six) -> Vec<Own> {
    let four = four.iter().map(|own| Own {
        ip: own.ip.into(),
        len: own.len,
        network: Destination::V4(own.network()),
    });
    let six = six.addresses.iter().map(|own| Own {
        ip: own.ip.into(),
        len: own.len,
        network: Destination::V6(own.network()),
    });
    four.chain(six).collect()
}

/// Returns those whose network is on one link only: not the link-local ones.
pub(crate) fn own_networks(four: &[Address], six: &Six) -> Vec<Own> {
    let mut own = own_addresses(four, six);
    own.retain(|own| !matches!(own.ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
    own
}
