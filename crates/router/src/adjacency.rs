//! Prepared Ethernet headers, of one vCPU: what the hot path reads after the lookup.
//!
//! Two direct-mapped caches of one 32-octet entry a key: next hops by their index in the routes, and hosts of
//! connected networks by their address. An entry is good while its generation is the router's; when a neighbour or
//! the routes change, the router moves its generation and every entry is prepared anew when it is next needed.

use frame::{Mac, ethernet};

use crate::config::MAX_NICS;

/// Entries of each cache, a power of two. Up to so many next hops never evict each other.
const ENTRIES: usize = 1024;

/// What the hot path does with a packet for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The slow path knows.
    Slow,
    /// The header is complete.
    Ready,
    /// The destination itself is the neighbour: its entry is among the hosts.
    Connected,
}

/// A prepared header, half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Adjacency {
    /// Destination, source, ethertype.
    pub(crate) header: [u8; ethernet::HEADER],
    /// Octets of the longest frame that the NIC takes.
    pub(crate) longest: u16,
    key: u32,
    generation: u32,
    pub(crate) kind: Kind,
    pub(crate) nic: u8,
}

impl Adjacency {
    /// Nothing is known.
    const UNKNOWN: Self =
        Self { header: [0; ethernet::HEADER], longest: 0, key: 0, generation: 0, kind: Kind::Slow, nic: 0 };

    /// Packets go to `to` out of NIC `nic`, which has address `from` and takes packets of `mtu` octets.
    pub(crate) fn ready(nic: u8, mtu: u16, from: Mac, to: Mac) -> Self {
        let header = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 };
        Self {
            header: header.octets(),
            longest: mtu.saturating_add(ethernet::HEADER as u16),
            nic,
            kind: Kind::Ready,
            ..Self::UNKNOWN
        }
    }

    /// Packets go to hosts of a connected network.
    pub(crate) const fn connected() -> Self {
        Self { kind: Kind::Connected, ..Self::UNKNOWN }
    }

    /// The NIC as an index that needs no check.
    #[inline(always)]
    pub(crate) fn nic(&self) -> usize {
        usize::from(self.nic) % MAX_NICS
    }
}

/// The memory for prepared headers of one router. 64 KiB; it can stand in a `static`.
pub struct Adjacencies {
    hops: [Adjacency; ENTRIES],
    hosts: [Adjacency; ENTRIES],
}

impl Default for Adjacencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Adjacencies {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self { hops: [Adjacency::UNKNOWN; ENTRIES], hosts: [Adjacency::UNKNOWN; ENTRIES] }
    }

    /// The entry for packets to `destination` whose route has next hop `hop`; not [`Kind::Ready`] where the slow path
    /// has to look.
    #[inline(always)]
    pub(crate) fn find(&self, hop: u32, destination: u32, generation: u32) -> &Adjacency {
        let entry = &self.hops[hop as usize % ENTRIES];
        if entry.key != hop || entry.generation != generation {
            return &Adjacency::UNKNOWN;
        }
        if entry.kind != Kind::Connected {
            return entry;
        }
        let host = &self.hosts[host_slot(destination)];
        if host.key != destination || host.generation != generation { &Adjacency::UNKNOWN } else { host }
    }

    /// Keeps the entry of next hop `hop`.
    pub(crate) fn keep_hop(&mut self, hop: u32, generation: u32, entry: Adjacency) {
        self.hops[hop as usize % ENTRIES] = Adjacency { key: hop, generation, ..entry };
    }

    /// Keeps the entry of a connected host.
    pub(crate) fn keep_host(&mut self, ip: u32, generation: u32, entry: Adjacency) {
        self.hosts[host_slot(ip)] = Adjacency { key: ip, generation, ..entry };
    }
}

#[inline(always)]
fn host_slot(ip: u32) -> usize {
    (ip.wrapping_mul(0x9e37_79b1) >> 22) as usize % ENTRIES
}
