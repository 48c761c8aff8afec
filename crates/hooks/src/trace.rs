//! Tracer of packets that arrive at one NIC of a kernel router. It follows each of them to the NIC by which it leaves, to the
//! reason for which the kernel drops it, or to its delivery in the router itself.
//!
//! While a tracer exists, each packet of the host costs a hash table look-up when the kernel frees it.

mod program;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bpf::{Direction, Kind, Map, Purpose, attach_to_tcx, attach_to_tracepoint};
use rustix::time::{ClockId, clock_gettime};

use crate::Error;
use program::{Maps, Point, orders, tally};
use record::{OCTETS, ROOM};
pub use record::{PacketFate, TracedPacket};

/// Maximum number of packets of one trace.
const MOST: u32 = 10_000;
/// Time after which a packet counts as not seen again. The kernel waits three seconds for a neighbour's answer.
const MISSED: Duration = Duration::from_secs(4);

/// Selects packets: those that match every given field. A filter with any field selects IP packets only, one with an address those of its
/// family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// IP protocol number; of IPv6 that of what follows the fixed header (RFC 8200, 3).
    pub protocol: Option<u8>,
    /// UDP or TCP port, source or destination; 1 or more. In IPv6 it is found without extension headers only.
    pub port: Option<u16>,
}

/// Parameters of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpec {
    /// Number of the NIC at which the packets arrive.
    pub nic: u32,
    /// Number of packets to trace.
    pub count: u32,
    /// Which packets to trace.
    pub filter: Filter,
}

/// Counts of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Packets that were traced.
    pub taken: u64,
    /// Packets that arrived while enough packets were under way; they were not examined.
    pub not_examined: u64,
    /// Packets that did not match the filter.
    pub not_matched: u64,
}

/// Programs that trace packets. Dropping this value detaches them.
#[derive(Debug)]
pub struct PacketTracer {
    order: TraceSpec,
    orders: Map,
    tally: Map,
    records: Map,
    followed: Map<u64>,
    /// Numbers of packets that were reported; all below `next` were.
    told: BTreeSet<u64>,
    next: u64,
    began_ns: u64,
    points: Vec<OwnedFd>,
    nics: BTreeMap<u32, Vec<OwnedFd>>,
}

impl PacketTracer {
    /// Loads the programs and attaches those at tracepoints. NICs are added by [`PacketTracer::watch`].
    ///
    /// # Errors
    /// The caller lacks privileges, the kernel lacks a feature, or the count is out of range.
    pub fn start(order: TraceSpec) -> Result<Self, Error> {
        if !(1..=MOST).contains(&order.count) {
            return Err(Error::Range {
                what: "the number of packets to follow",
                found: order.count,
                most: MOST,
            });
        }
        let failed = |e| Error::bpf("creating a map for a trace", e);
        let array = |value, entries| Map::new(Kind::Array, value, entries).map_err(failed);
        let mut follower = Self {
            orders: array(orders::LEN, 1)?,
            tally: array(tally::LEN, 1)?,
            records: array(OCTETS as u32, ROOM)?,
            // Entries of packets that are freed without a tracepoint stay until the memory of the packet is reused.
            followed: Map::with_u64_keys(Kind::Hash, 8, 16 * ROOM).map_err(failed)?,
            told: BTreeSet::new(),
            next: 0,
            began_ns: now(),
            points: Vec::new(),
            nics: BTreeMap::new(),
            order,
        };
        for (name, point) in [("kfree_skb", Point::Dropped), ("consume_skb", Point::Consumed)] {
            let program = follower.load(Purpose::Tracepoint, point)?;
            let attached = attach_to_tracepoint(name, program.as_fd());
            follower.points.push(attached.map_err(|e| Error::bpf("attaching to a tracepoint", e))?);
        }
        follower.publish_params()?;
        Ok(follower)
    }

    /// Attaches the programs to a NIC: the interface with this index in the calling thread's network namespace. Add the NIC at
    /// which packets arrive last, or the departure of the first packets is missed.
    ///
    /// # Errors
    /// There is no such interface, or the kernel has no tcx.
    pub fn watch(&mut self, nic: u32, index: u32) -> Result<(), Error> {
        let out = self.load(Purpose::TrafficControl, Point::Out(nic))?;
        let attach = |program: &OwnedFd, way| {
            attach_to_tcx(program.as_fd(), index, way).map_err(|e| Error::tcx(index, e))
        };
        let mut links = vec![attach(&out, Direction::Egress)?];
        if nic == self.order.nic {
            links.push(attach(&self.load(Purpose::TrafficControl, Point::In(nic))?, Direction::Ingress)?);
        }
        self.nics.insert(nic, links);
        Ok(())
    }

    /// Returns the packets whose fate has become known since the last call; to be called about ten times a second. `over` marks
    /// the last call, which also returns the packets still under way.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn harvest(&mut self, over: bool) -> Result<Vec<TracedPacket>, Error> {
        let patience = (!over).then_some(MISSED.as_nanos() as u64);
        let taken = self.tally()?.taken.min(self.order.count.into());
        let mut found = Vec::new();
        for number in self.next..taken {
            if !self.told.contains(&number)
                && let Some(followed) = record::read(&self.record(number)?, number, now(), patience)
            {
                self.told.insert(number);
                found.push(followed);
            }
        }
        while self.told.remove(&self.next) {
            self.next += 1;
        }
        self.publish_params()?;
        Ok(found)
    }

    /// Returns the start time, by the clock of [`TracedPacket::at_ns`].
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Returns true if the requested number of packets has been reported.
    pub fn is_done(&self) -> bool {
        self.next >= u64::from(self.order.count)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn tally(&self) -> Result<TraceCounts, Error> {
        let mut words = [0; tally::LEN as usize / 8];
        self.tally.get(0, &mut words).map_err(|e| Error::bpf("reading the counters of a trace", e))?;
        let [taken, not_examined, not_matched] = words;
        Ok(TraceCounts { taken, not_examined, not_matched })
    }

    /// Number of packets that may be traced by now in total: a record is reused only after it was reported.
    fn wanted(&self) -> u64 {
        (self.next + u64::from(ROOM)).min(self.order.count.into())
    }

    /// Writes the parameters to the map that the programs read.
    fn publish_params(&self) -> Result<(), Error> {
        let octets = octets(&self.order.filter, self.wanted());
        self.orders.put(0, &octets).map_err(|e| Error::bpf("writing the parameters of a trace", e))
    }

    fn record(&self, number: u64) -> Result<[u8; OCTETS], Error> {
        let mut words = [0_u64; OCTETS / 8];
        let index = number as u32 & (ROOM - 1);
        self.records.get(index, &mut words).map_err(|e| Error::bpf("reading the record of a packet", e))?;
        let mut octets = [0; OCTETS];
        for (octets, word) in octets.chunks_exact_mut(8).zip(words) {
            octets.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(octets)
    }

    fn load(&self, purpose: Purpose, point: Point) -> Result<OwnedFd, Error> {
        let maps = Maps {
            orders: self.orders.as_fd(),
            tally: self.tally.as_fd(),
            records: self.records.as_fd(),
            followed: self.followed.as_fd(),
        };
        bpf::load(purpose, &program::assemble(point, &maps)).map_err(|e| Error::bpf("loading a trace", e))
    }
}

/// Parameters in the layout that the programs read.
fn octets(filter: &Filter, wanted: u64) -> Vec<u8> {
    let addresses = [filter.source, filter.destination];
    // An address admits its own family alone.
    let admits = |is_of: fn(&IpAddr) -> bool| u32::from(addresses.iter().flatten().all(is_of));
    let [protocol, protocol_mask] = filter.protocol.map_or([0; 2], |protocol| [protocol.into(), 0xff]);
    let port = filter.port.map_or(0, |port| port.to_be().into());
    let is_filtered = u32::from(*filter != Filter::default());
    let families = [admits(IpAddr::is_ipv4), admits(IpAddr::is_ipv6)];
    let words = [protocol, protocol_mask, port, is_filtered].into_iter().chain(families);
    let words = words.chain(addresses.into_iter().flat_map(|address| address.map_or([0; 8], masked)));
    wanted.to_ne_bytes().into_iter().chain(words.flat_map(u32::to_ne_bytes)).collect()
}

/// The four words of an address, in network byte order as in a packet, and their masks; IPv4 has one of each.
fn masked(address: IpAddr) -> [u32; 8] {
    let octets = match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (parts, _) = octets.as_chunks::<4>();
    let mut words = [0_u32; 8];
    let (values, masks) = words.split_at_mut(4);
    for ((value, mask), part) in values.iter_mut().zip(masks).zip(parts) {
        (*value, *mask) = (u32::from_ne_bytes(*part), u32::MAX);
    }
    words
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Both are non-negative for this clock.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests;
