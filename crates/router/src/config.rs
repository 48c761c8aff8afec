//! What a router is told once.

use arrayvec::ArrayVec;
use frame::Mac;
use ledger::RouterCounters;

use crate::adjacency::Adjacencies;
use crate::neighbours::Neighbours;
use crate::rate::Limit;

/// Most NICs of one router, a power of two.
pub const MAX_NICS: usize = 8;
/// Most addresses of one NIC; further ones are not used.
pub const MAX_ADDRESSES: usize = 8;
/// Smallest MTU, in octets, that IPv4 works with (RFC 791).
pub const SMALLEST_MTU: u16 = 68;

/// One of the router's own addresses with the length of its network's prefix (0 to 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address, in host byte order.
    pub ip: u32,
    /// Bits of the prefix.
    pub prefix: u8,
}

impl Address {
    /// Ones where the prefix is.
    const fn mask(self) -> u32 {
        match self.prefix {
            0 => 0,
            1..=31 => u32::MAX << (32 - self.prefix),
            _ => u32::MAX,
        }
    }

    /// Whether `ip` lies in the network of this address.
    pub const fn covers(self, ip: u32) -> bool {
        (ip ^ self.ip) & self.mask() == 0
    }

    /// The first address of its network.
    pub(crate) const fn network(self) -> u32 {
        self.ip & self.mask()
    }

    /// The last address of its network.
    pub(crate) const fn broadcast(self) -> u32 {
        self.ip | !self.mask()
    }

    /// Whether `ip` names all hosts of the network, or the network itself, and no single host (RFC 1812, 5.3.5;
    /// networks of one or two addresses have neither, RFC 3021).
    pub const fn is_network_wide(self, ip: u32) -> bool {
        let host = !self.mask();
        self.prefix < 31 && self.covers(ip) && (ip & host == host || ip & host == 0)
    }
}

/// One NIC. Its number is its place in [`Config::interfaces`].
#[derive(Clone, Copy, Debug)]
pub struct Interface<'c> {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Octets of the largest IP packet; less than [`SMALLEST_MTU`] is taken as that.
    pub mtu: u16,
    /// The router's own addresses on it.
    pub addresses: &'c [Address],
}

/// What a router is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The NICs; those after the first [`MAX_NICS`] are not served.
    pub interfaces: &'c [Interface<'c>],
    /// Whether this one of the routers that share their [`Neighbours`] announces their addresses at start and keeps
    /// the neighbours fresh.
    pub keeper: bool,
    /// Whether ARP requests for the router's addresses are answered (by exactly one of the routers that see a
    /// request).
    pub answers_arp: bool,
}

/// What a router works on.
pub struct Parts<'a, R> {
    /// The routes. Own addresses must be in them: as local, or within a connected prefix.
    pub routes: R,
    /// Neighbour table, shared by all routers of one virtual machine or process.
    pub neighbours: &'a Neighbours,
    /// Memory for prepared headers, of this router alone.
    pub adjacencies: &'a mut Adjacencies,
    /// What became of each frame.
    pub counters: &'a RouterCounters,
}

/// A NIC as the router keeps it.
pub(crate) struct Nic {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
    pub(crate) addresses: ArrayVec<Address, MAX_ADDRESSES>,
    pub(crate) errors: Limit,
}

impl Nic {
    pub(crate) fn new(interface: &Interface<'_>) -> Self {
        Self {
            mac: interface.mac,
            mtu: interface.mtu.max(SMALLEST_MTU),
            addresses: interface.addresses.iter().copied().take(MAX_ADDRESSES).collect(),
            errors: Limit::new(),
        }
    }

    /// Whether `ip` is the router's own address on this NIC.
    pub(crate) fn owns(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// Whether `ip` lies in a network on this NIC.
    pub(crate) fn covers(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.covers(ip))
    }

    /// Whether `ip` is no single host of the networks on this NIC.
    pub(crate) fn is_network_wide(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.is_network_wide(ip))
    }

    /// The own address with which to speak to `peer`: one in its network if possible.
    pub(crate) fn address_towards(&self, peer: u32) -> Option<u32> {
        let near = self.addresses.iter().find(|address| address.covers(peer));
        near.or(self.addresses.first()).map(|address| address.ip)
    }
}
