//! Prepared Ethernet headers of one vCPU: the data that the hot path reads after the lookup.
//!
//! Two direct-mapped caches with one 32-octet entry per key: next hops by their index in the routes, and hosts of
//! connected networks by their address. An entry is valid while its generation is the router's; when a neighbour or the
//! routes change, the router increments its generation, and every entry is prepared again when it is next needed.

use frame::{Mac, ethernet};

use crate::config::MAX_NICS;

/// Number of entries of each cache, a power of two. Up to this many next hops never evict one another.
const ENTRIES: usize = 1024;

/// A prepared header, half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Adjacency {
    /// Destination, source, ethertype.
    pub(crate) header: [u8; ethernet::HEADER],
    /// Length in octets of the longest frame that the NIC takes; 0 if the header is not complete.
    longest: u16,
    /// Key and generation as one number.
    stamp: u64,
    /// The route is connected: the neighbour is the destination itself, whose entry is among the hosts.
    connected: bool,
    pub(crate) nic: u8,
}

impl Adjacency {
    /// An entry without information.
    const UNKNOWN: Self =
        Self { header: [0; ethernet::HEADER], longest: 0, stamp: 0, connected: false, nic: 0 };

    /// Creates an entry: packets go to `to` out of NIC `nic`, which has address `from` and takes packets of `mtu`
    /// octets.
    pub(crate) fn ready(nic: u8, mtu: u16, from: Mac, to: Mac) -> Self {
        let header = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 };
        Self {
            header: header.octets(),
            longest: mtu.saturating_add(ethernet::HEADER as u16),
            nic,
            ..Self::UNKNOWN
        }
    }

    /// Creates an entry for hosts of a connected network.
    pub(crate) const fn connected() -> Self {
        Self { connected: true, ..Self::UNKNOWN }
    }

    /// Returns true if the header is complete and a frame of `len` octets fits.
    #[inline(always)]
    pub(crate) const fn takes(&self, len: usize) -> bool {
        len <= self.longest as usize
    }

    /// Returns the NIC as an index for which the compiler needs no bounds check.
    #[inline(always)]
    pub(crate) fn nic(&self) -> usize {
        usize::from(self.nic) % MAX_NICS
    }
}

/// Memory for the prepared headers of one router. 64 KiB; it can be a `static`.
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
    /// Creates empty caches.
    pub const fn new() -> Self {
        Self { hops: [Adjacency::UNKNOWN; ENTRIES], hosts: [Adjacency::UNKNOWN; ENTRIES] }
    }

    /// Clears the caches in place: they are too large for a firmware's stack.
    pub(crate) fn clear(&mut self) {
        self.hops.fill(Adjacency::UNKNOWN);
        self.hosts.fill(Adjacency::UNKNOWN);
    }

    /// Returns the entry for packets to `destination` whose route has next hop `hop`, if it takes a frame of `len`
    /// octets; `None` if the slow path has to handle the packet.
    #[inline(always)]
    pub(crate) fn find(&self, hop: u32, destination: u32, len: usize, generation: u32) -> Option<&Adjacency> {
        let entry = &self.hops[hop as usize % ENTRIES];
        if entry.stamp != stamp(hop, generation) {
            return None;
        }
        if entry.takes(len) {
            return Some(entry);
        }
        if !entry.connected {
            return None;
        }
        let host = &self.hosts[host_slot(destination)];
        (host.stamp == stamp(destination, generation) && host.takes(len)).then_some(host)
    }

    /// Stores the entry of next hop `hop`.
    pub(crate) fn keep_hop(&mut self, hop: u32, generation: u32, entry: Adjacency) {
        self.hops[hop as usize % ENTRIES] = Adjacency { stamp: stamp(hop, generation), ..entry };
    }

    /// Stores the entry of a connected host.
    pub(crate) fn keep_host(&mut self, ip: u32, generation: u32, entry: Adjacency) {
        self.hosts[host_slot(ip)] = Adjacency { stamp: stamp(ip, generation), ..entry };
    }
}

/// Returns a stamp, which is never 0 because no generation is 0.
#[inline(always)]
fn stamp(key: u32, generation: u32) -> u64 {
    u64::from(key) | u64::from(generation) << 32
}

#[inline(always)]
fn host_slot(ip: u32) -> usize {
    (ip.wrapping_mul(0x9e37_79b1) >> 22) as usize % ENTRIES
}
