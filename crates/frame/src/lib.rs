//! Packet headers as views over bytes: each `parse` validates the header that it returns, each `write` puts a header
//! into a slice.
//!
//! A frame starts with its Ethernet header and has no FCS. IPv4 addresses are `u32` and IPv6 addresses `u128` in host
//! byte order, so that they compare and index as numbers; [`core::net::Ipv4Addr::from`] and
//! [`core::net::Ipv6Addr::from`] print them. No function here allocates or panics, whatever the octets are.
#![no_std]
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod nd;
pub mod offload;
pub mod order;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod octets;

use core::fmt;

pub use ethernet::Mac;

/// Reason why octets are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are fewer octets than the header says or needs.
    Short,
    /// An unsupported version or type.
    Kind,
    /// A length field that contradicts the header.
    Length,
    /// The checksum is wrong.
    Checksum,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the header needs more octets than there are",
            Self::Kind => "the header is of a version or kind that is not spoken here",
            Self::Length => "a length field contradicts the header",
            Self::Checksum => "the checksum is wrong",
        })
    }
}

impl core::error::Error for Error {}
