//! Gate to the control plane: a token bucket for each class, and counters.

use crate::bucket::Bucket;
use crate::class::{Class, class_of};

ledger::counters! {
    /// Frames of a NIC for the control plane, by class. Each is counted once: passed, or dropped by its limit.
    pub struct PuntCounters {
        /// Frames of BFD over one hop passed.
        bfd,
        /// Frames of BFD over several hops passed.
        multihop,
        /// Frames of routing protocols passed.
        routing,
        /// Frames of ARP, neighbour discovery, IGMP and MLD passed.
        neighbours,
        /// Other frames of ICMP and ICMPv6 passed.
        icmp,
        /// Other frames passed.
        rest,
        /// Frames of BFD over one hop dropped by their limit.
        drop_bfd,
        /// Frames of BFD over several hops dropped by their limit.
        drop_multihop,
        /// Frames of routing protocols dropped by their limit.
        drop_routing,
        /// Frames of ARP, neighbour discovery, IGMP and MLD dropped by their limit.
        drop_neighbours,
        /// Other frames of ICMP and ICMPv6 dropped by their limit.
        drop_icmp,
        /// Other frames dropped by their limit.
        drop_rest,
    }
}

impl PuntCounters {
    const fn passed(&self, class: Class) -> &ledger::Counter {
        match class {
            Class::Bfd => &self.bfd,
            Class::Multihop => &self.multihop,
            Class::Routing => &self.routing,
            Class::Neighbours => &self.neighbours,
            Class::Icmp => &self.icmp,
            Class::Rest => &self.rest,
        }
    }

    const fn dropped(&self, class: Class) -> &ledger::Counter {
        match class {
            Class::Bfd => &self.drop_bfd,
            Class::Multihop => &self.drop_multihop,
            Class::Routing => &self.drop_routing,
            Class::Neighbours => &self.drop_neighbours,
            Class::Icmp => &self.drop_icmp,
            Class::Rest => &self.drop_rest,
        }
    }
}

/// Limit of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Frames a second.
    pub rate: u32,
    /// Frames at once after a quiet time.
    pub burst: u32,
}

/// Limits of all classes of a NIC, in the order of [`Class::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits(pub [Limit; Class::ALL.len()]);

impl Default for Limits {
    /// BFD, of both kinds: 1,000 sessions of 3 x 50 ms. Routing: a full table in TCP segments within two seconds. Neighbours: a link of some
    /// thousand hosts. Together they are far below what the kernel handles on one core.
    fn default() -> Self {
        let limit = |rate, burst| Limit { rate, burst };
        Self([
            limit(20_000, 2_000),
            limit(20_000, 2_000),
            limit(20_000, 4_000),
            limit(2_000, 500),
            limit(1_000, 100),
            limit(1_000, 100),
        ])
    }
}

impl Limits {
    /// Limit of a class.
    pub const fn of(&self, class: Class) -> Limit {
        self.0[class as usize]
    }

    /// Changes the limit of a class.
    pub const fn set(&mut self, class: Class, limit: Limit) {
        self.0[class as usize] = limit;
    }
}

/// Gate between a NIC and the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    buckets: [Bucket; Class::ALL.len()],
}

impl Gate {
    /// Creates a gate with these limits.
    pub fn new(limits: &Limits) -> Self {
        Self { buckets: limits.0.map(|limit| Bucket::new(limit.rate, limit.burst)) }
    }

    /// Decides on a frame for the router at time `now`, in microseconds, and counts it. Returns its class if it may pass.
    #[inline]
    pub fn pass(&mut self, frame: &[u8], now: u64, counters: &PuntCounters) -> Option<Class> {
        let class = class_of(frame);
        let passes = self.buckets[class as usize].take(now);
        let counter = if passes { counters.passed(class) } else { counters.dropped(class) };
        counter.add(1);
        passes.then_some(class)
    }

    /// Changes the limits.
    pub fn set(&mut self, limits: &Limits) {
        for (bucket, limit) in self.buckets.iter_mut().zip(limits.0) {
            bucket.set(limit.rate, limit.burst);
        }
    }
}

#[cfg(test)]
mod tests;
