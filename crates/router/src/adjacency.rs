//! Prepared Ethernet headers of one vCPU: the data that the hot path reads after the lookup.
//!
//! Direct-mapped caches with one 32-octet entry per key: next hops by their index in the routes, and hosts of connected
//! networks by their address, both for IPv4 and IPv6. An IPv6 host's entry has its address beside it. An entry is valid
//! while its generation is the router's; when a neighbour or the routes change, the router increments its generation, and
//! every entry is prepared again when it is next needed.

use frame::{Mac, ethernet};

use crate::config::MAX_NICS;
use crate::ip::Ip;

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
    /// The route has a group: the flow selects one of its next hops, which has an entry of its own.
    group: bool,
    pub(crate) nic: u8,
    /// [`Adjacency::longest`] of a header for a VLAN, which the hot path leaves to the detour that puts tags on.
    longest_tagged: u16,
}
const _: () = assert!(size_of::<Adjacency>() == 32);

impl Adjacency {
    /// An entry without information.
    const UNKNOWN: Self = Self {
        header: [0; ethernet::HEADER],
        longest: 0,
        stamp: 0,
        connected: false,
        group: false,
        nic: 0,
        longest_tagged: 0,
    };

    /// Creates an entry: IPv4 packets go to `to` out of NIC `nic`, which has address `from` and takes packets of `mtu`
    /// octets.
    pub(crate) fn ready(nic: u8, mtu: u16, from: Mac, to: Mac) -> Self {
        Self::with_header(
            nic,
            mtu,
            ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 },
        )
    }

    /// Creates an entry whose packets get this header.
    pub(crate) fn with_header(nic: u8, mtu: u16, header: ethernet::Header) -> Self {
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

    /// Creates an entry for a group of next hops.
    pub(crate) const fn group() -> Self {
        Self { group: true, ..Self::UNKNOWN }
    }

    /// Returns a copy for a VLAN: its frames get tags.
    pub(crate) const fn tagged(self) -> Self {
        Self { longest: 0, longest_tagged: self.longest, ..self }
    }

    /// Returns the number of the interface: a NIC, or a VLAN of one.
    pub(crate) fn interface(&self) -> usize {
        usize::from(self.nic)
    }

    /// Returns true if the header is complete and a frame of `len` octets fits.
    #[inline(always)]
    pub(crate) const fn takes(&self, len: usize) -> bool {
        len <= self.longest as usize
    }

    /// Returns true if the header is one for a VLAN and a frame of `len` octets, without tags, fits.
    const fn takes_tagged(&self, len: usize) -> bool {
        len <= self.longest_tagged as usize
    }

    /// Returns the NIC as an index for which the compiler needs no bounds check.
    #[inline(always)]
    pub(crate) fn nic(&self) -> usize {
        usize::from(self.nic) % MAX_NICS
    }
}

/// The entry of an IPv6 host.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Host6 {
    entry: Adjacency,
    ip: u128,
}

impl Host6 {
    const UNKNOWN: Self = Self { entry: Adjacency::UNKNOWN, ip: 0 };
}

/// Memory for the prepared headers of one router. 160 KiB; it can be a `static`. A router without IPv6 touches 64 KiB.
pub struct Adjacencies {
    hops: [Adjacency; ENTRIES],
    hosts: [Adjacency; ENTRIES],
    hops6: [Adjacency; ENTRIES],
    hosts6: [Host6; ENTRIES],
}

impl Default for Adjacencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Adjacencies {
    /// Creates empty caches.
    pub const fn new() -> Self {
        Self {
            hops: [Adjacency::UNKNOWN; ENTRIES],
            hosts: [Adjacency::UNKNOWN; ENTRIES],
            hops6: [Adjacency::UNKNOWN; ENTRIES],
            hosts6: [Host6::UNKNOWN; ENTRIES],
        }
    }

    /// Clears the caches in place: they are too large for a firmware's stack.
    pub(crate) fn clear(&mut self) {
        self.hops.fill(Adjacency::UNKNOWN);
        self.hosts.fill(Adjacency::UNKNOWN);
        self.hops6.fill(Adjacency::UNKNOWN);
        self.hosts6.fill(Host6::UNKNOWN);
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

    /// Returns true if IPv4 next hop `hop` is known as a group. [`Adjacencies::find`] returns nothing for it.
    #[inline(always)]
    pub(crate) fn is_group(&self, hop: u32, generation: u32) -> bool {
        let entry = &self.hops[hop as usize % ENTRIES];
        entry.group && entry.stamp == stamp(hop, generation)
    }

    /// Returns true if IPv6 next hop `hop` is known as a group.
    #[inline(always)]
    pub(crate) fn is_group6(&self, hop: u32, generation: u32) -> bool {
        let entry = &self.hops6[hop as usize % ENTRIES];
        entry.group && entry.stamp == stamp(hop, generation)
    }

    /// Returns the entry for IPv6 packets as [`Adjacencies::find`] does for IPv4.
    #[inline(always)]
    pub(crate) fn find6(
        &self,
        hop: u32,
        destination: u128,
        len: usize,
        generation: u32,
    ) -> Option<&Adjacency> {
        let entry = &self.hops6[hop as usize % ENTRIES];
        if entry.stamp != stamp(hop, generation) {
            return None;
        }
        if entry.takes(len) {
            return Some(entry);
        }
        if !entry.connected {
            return None;
        }
        let host = &self.hosts6[host6_slot(destination)];
        let valid = host.ip == destination && host.entry.stamp == stamp(0, generation);
        (valid && host.entry.takes(len)).then_some(&host.entry)
    }

    /// Returns the entry as [`Adjacencies::find`] does, if it is one for a VLAN.
    pub(crate) fn find_tagged(
        &self,
        hop: u32,
        destination: u32,
        len: usize,
        generation: u32,
    ) -> Option<&Adjacency> {
        let entry = &self.hops[hop as usize % ENTRIES];
        if entry.stamp != stamp(hop, generation) {
            return None;
        }
        if !entry.connected {
            return entry.takes_tagged(len).then_some(entry);
        }
        let host = &self.hosts[host_slot(destination)];
        (host.stamp == stamp(destination, generation) && host.takes_tagged(len)).then_some(host)
    }

    /// Returns the entry as [`Adjacencies::find6`] does, if it is one for a VLAN.
    pub(crate) fn find_tagged6(
        &self,
        hop: u32,
        destination: u128,
        len: usize,
        generation: u32,
    ) -> Option<&Adjacency> {
        let entry = &self.hops6[hop as usize % ENTRIES];
        if entry.stamp != stamp(hop, generation) {
            return None;
        }
        if !entry.connected {
            return entry.takes_tagged(len).then_some(entry);
        }
        let Host6 { entry: host, ip } = &self.hosts6[host6_slot(destination)];
        let valid = *ip == destination && host.stamp == stamp(0, generation);
        (valid && host.takes_tagged(len)).then_some(host)
    }

    /// Stores the entry of IPv6 next hop `hop`.
    pub(crate) fn keep_hop6(&mut self, hop: u32, generation: u32, entry: Adjacency) {
        self.hops6[hop as usize % ENTRIES] = Adjacency { stamp: stamp(hop, generation), ..entry };
    }

    /// Stores the entry of a connected IPv6 host.
    pub(crate) fn keep_host6(&mut self, ip: u128, generation: u32, entry: Adjacency) {
        let entry = Adjacency { stamp: stamp(0, generation), ..entry };
        self.hosts6[host6_slot(ip)] = Host6 { entry, ip };
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

#[inline(always)]
fn host6_slot(ip: u128) -> usize {
    (Ip::v6(ip).hash(0) >> 40) as usize % ENTRIES
}
