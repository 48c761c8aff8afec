//! Rate limit of a kernel router: one token bucket for all its NICs, in packets per second, implemented by programs at tcx.
//!
//! The programs run before the kernel's IP layer. They drop and count packets above the limit. A packet that the kernel will
//! segment later (GSO) counts as one. The bucket is that of all other engines (`port::limit`).

mod program;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bpf::{Direction, Kind, Map, Purpose, attach_to_tcx};

use crate::Error;

/// Fixed-point scale of time: 1/64 ns. At 3 Mpps a limit is accurate to 15 ppm, and the time overflows after nine years.
const SHIFT: i32 = 6;
/// One second in these units.
const SECOND: u64 = 1_000_000_000 << SHIFT;
/// Depth of the bucket: the packets of 10 ms,
const DEPTH: u64 = SECOND / 100;
/// but at least this number of packets.
const MIN_BURST: u64 = 32;

/// Maximum of a limit, in packets per second.
pub const MOST: u64 = 1_000_000_000;

/// Maps that the programs of a router share.
struct Maps<'a> {
    bucket: BorrowedFd<'a>,
    counters: BorrowedFd<'a>,
}

/// Packets that arrived at a NIC while its router had a limit, by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounters {
    /// Packets that arrived: the sum of the others.
    pub in_frames: u64,
    /// Packets within the limit.
    pub passed: u64,
    /// Packets dropped because they exceeded the router's limit. The kernel's own drop reason for them is `TC_INGRESS`.
    pub drop_limit: u64,
}

/// Limit on the packets per second that enter a router, by all its NICs together. Dropping it removes the limit.
#[derive(Debug)]
pub struct Limiter {
    bucket: Map,
    counters: Map,
    nics: u32,
    /// Attached programs, by NIC number.
    links: BTreeMap<u32, OwnedFd>,
}

impl Limiter {
    /// Creates a limiter for a number of NICs. It passes all packets until a limit is set.
    ///
    /// # Errors
    /// The caller lacks CAP_BPF, or memory is exhausted.
    pub fn new(nics: u32) -> Result<Self, Error> {
        let map = |kind, value, entries| {
            Map::new(kind, value, entries).map_err(|e| Error::bpf("creating a map for a limit", e))
        };
        let bucket = map(Kind::Array, program::BUCKET, 1)?;
        let counters = map(Kind::ArrayOfEachCpu, program::COUNTERS, nics.max(1))?;
        Ok(Self { bucket, counters, nics, links: BTreeMap::new() })
    }

    /// Attaches the program to a NIC: the interface with this index in the calling thread's network namespace. Replaces the
    /// attachment of the former interface with this NIC number.
    ///
    /// # Errors
    /// The caller lacks CAP_NET_ADMIN, there is no such interface, or the kernel has no tcx.
    pub fn attach(&mut self, nic: u32, index: u32) -> Result<(), Error> {
        if nic >= self.nics {
            return Err(Error::NoNic { nic, nics: self.nics });
        }
        let maps = Maps { bucket: self.bucket.as_fd(), counters: self.counters.as_fd() };
        let code = program::assemble(nic, &maps);
        let program =
            bpf::load(Purpose::TrafficControl, &code).map_err(|e| Error::bpf("loading a limit", e))?;
        let link =
            attach_to_tcx(program.as_fd(), index, Direction::Ingress).map_err(|e| Error::tcx(index, e))?;
        self.links.insert(nic, link);
        Ok(())
    }

    /// Detaches the program from a NIC. The NIC's counters stay.
    pub fn detach(&mut self, nic: u32) {
        self.links.remove(&nic);
    }

    /// Detaches the program from a NIC, and resets the counters for the next NIC of this number.
    ///
    /// # Errors
    /// There is no NIC of this number.
    pub fn forget(&mut self, nic: u32) -> Result<(), Error> {
        self.detach(nic);
        let nothing = vec![0; self.counters.len_of_value()];
        self.counters.put(nic, &nothing).map_err(|e| Error::bpf("clearing the counters of a limit", e))
    }

    /// Sets the limit to `pps` packets per second (1 to [`MOST`]). In addition the bucket admits a burst of 10 ms worth of
    /// packets, at least 32. `None`: no limit.
    ///
    /// # Errors
    /// The kernel is out of memory.
    pub fn set(&self, pps: Option<u64>) -> Result<(), Error> {
        let words = pps.map_or([0; 3], |pps| bucket(SECOND / pps.clamp(1, MOST)));
        self.fill(words)
    }

    /// Returns the present limit.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn get(&self) -> Result<Option<u64>, Error> {
        let mut words = [0; 3];
        self.bucket.get(0, &mut words).map_err(|e| Error::bpf("reading a limit", e))?;
        // The interval is rounded down, so the quotient is not below the limit that was set.
        Ok((words[0] > 0).then(|| SECOND / words[0]))
    }

    /// Returns the counters of a NIC.
    ///
    /// # Errors
    /// There is no NIC of this number.
    pub fn counted(&self, nic: u32) -> Result<LimitCounters, Error> {
        let mut words = vec![0; self.counters.len_of_value() / 8];
        self.counters.get(nic, &mut words).map_err(|e| Error::bpf("reading the counters of a limit", e))?;
        let sum = |word: usize| words.chunks_exact(3).filter_map(|cpu| cpu.get(word)).sum::<u64>();
        Ok(LimitCounters { in_frames: sum(0), passed: sum(1), drop_limit: sum(2) })
    }

    fn fill(&self, words: [u64; 3]) -> Result<(), Error> {
        let octets: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.bucket.put(0, &octets).map_err(|e| Error::bpf("setting a limit", e))
    }
}

/// A full bucket for packets with this interval. The time at which the next packet is due is reset to 0, so packets do not wait
/// for a due time that a lower former limit has set.
fn bucket(interval: u64) -> [u64; 3] {
    let interval = interval.max(1);
    [interval, interval.saturating_mul(MIN_BURST).max(DEPTH), 0]
}

#[cfg(test)]
mod tests;
