//! Configuration of a router.

use arrayvec::ArrayVec;
use frame::Mac;
use ledger::RouterCounters;

use crate::adjacency::Adjacencies;
use crate::neighbours::Neighbours;
use crate::rate::ErrorBucket;

/// Maximum number of NICs of one router, a power of two.
pub const MAX_NICS: usize = 8;
/// Maximum number of addresses of one NIC; further ones are ignored.
pub const MAX_ADDRESSES: usize = 8;
/// Minimum MTU of IPv4 in octets (RFC 791).
pub const SMALLEST_MTU: u16 = 68;

/// One of the router's own addresses, with the length of its network's prefix (0 to 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address, in host byte order.
    pub ip: u32,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Address {
    /// Returns the network mask.
    const fn mask(self) -> u32 {
        match self.prefix {
            0 => 0,
            1..=31 => u32::MAX << (32 - self.prefix),
            _ => u32::MAX,
        }
    }

    /// Returns true if `ip` lies in the network of this address.
    pub const fn covers(self, ip: u32) -> bool {
        (ip ^ self.ip) & self.mask() == 0
    }

    /// Returns the first address of its network.
    pub(crate) const fn network(self) -> u32 {
        self.ip & self.mask()
    }

    /// Returns the last address of its network.
    pub(crate) const fn broadcast(self) -> u32 {
        self.ip | !self.mask()
    }

    /// Returns true if `ip` is the broadcast address of the network, or the network itself, and thus no single host
    /// (RFC 1812, 5.3.5; networks of one or two addresses have neither, RFC 3021).
    pub const fn is_network_wide(self, ip: u32) -> bool {
        let host = !self.mask();
        self.prefix < 31 && self.covers(ip) && (ip & host == host || ip & host == 0)
    }
}

/// One NIC. Its number is its index in [`Config::interfaces`].
#[derive(Clone, Copy, Debug)]
pub struct Interface<'c> {
    /// Ethernet address.
    pub mac: Mac,
    /// Maximum length of an IP packet in octets; a value below [`SMALLEST_MTU`] counts as that.
    pub mtu: u16,
    /// The router's own addresses on it.
    pub addresses: &'c [Address],
}

/// Configuration of a router.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The NICs; those after the first [`MAX_NICS`] are not served.
    pub interfaces: &'c [Interface<'c>],
    /// True for the one of several routers that share their [`Neighbours`] which announces their addresses at start and
    /// keeps the neighbours fresh.
    pub keeper: bool,
    /// True if the router answers ARP requests for its addresses (exactly one of the routers that see a request must).
    pub answers_arp: bool,
}

/// Resources of a router.
pub struct RouterResources<'a, R> {
    /// Route table. The router's own addresses must be in it: as local, or within a connected prefix.
    pub routes: R,
    /// Neighbour table, shared by all routers of one virtual machine or process.
    pub neighbours: &'a Neighbours,
    /// Memory for prepared headers, private to this router.
    pub adjacencies: &'a mut Adjacencies,
    /// Counters of the outcome of each frame.
    pub counters: &'a RouterCounters,
}

/// State of a NIC.
pub(crate) struct Nic {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
    pub(crate) addresses: ArrayVec<Address, MAX_ADDRESSES>,
    pub(crate) errors: ErrorBucket,
}

impl Nic {
    pub(crate) fn new(interface: &Interface<'_>) -> Self {
        Self {
            mac: interface.mac,
            mtu: interface.mtu.max(SMALLEST_MTU),
            addresses: interface.addresses.iter().copied().take(MAX_ADDRESSES).collect(),
            errors: ErrorBucket::new(),
        }
    }

    /// Returns true if `ip` is the router's own address on this NIC.
    pub(crate) fn owns(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// Returns true if `ip` lies in a network on this NIC.
    pub(crate) fn covers(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.covers(ip))
    }

    /// Returns true if `ip` is a broadcast or network address of a network on this NIC.
    pub(crate) fn is_network_wide(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.is_network_wide(ip))
    }

    /// Returns the own address to use towards `peer`: one in its network if possible.
    pub(crate) fn address_towards(&self, peer: u32) -> Option<u32> {
        let near = self.addresses.iter().find(|address| address.covers(peer));
        near.or(self.addresses.first()).map(|address| address.ip)
    }
}
