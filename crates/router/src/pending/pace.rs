//! The pace of resolution: token buckets, one for each source and one for all.

use crate::ip::Ip;

/// Milliseconds for which one request of a source is granted: 50 a second.
const COST: u32 = 20;
/// Requests of a source that may be sent at once.
const BURST: u32 = 32;
/// Thousandths of a millisecond for which one request is granted to those that exceed their own share: 2000 a second in all.
const SHARED_COST: u64 = 500;
/// Requests that may be sent at once by those.
const SHARED_BURST: u64 = 256;

/// A source of packets, as the number of its bucket: sources with the same hash share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(u8);

impl Source {
    /// Number of buckets.
    pub(crate) const COUNT: usize = 256;

    /// Returns the source of a packet that NIC `nic` received from `ip`.
    pub(crate) const fn new(nic: u8, ip: Ip) -> Self {
        let host = match ip.as_v4() {
            Some(_) => ip,
            // Whoever has an address in a /64 has all of them.
            None => Ip::v6(ip.bits() & !(u64::MAX as u128)),
        };
        Self((host.hash(nic) >> 56) as u8)
    }

    /// Returns the source of packets that the router itself creates.
    pub(crate) const fn own() -> Self {
        Self::new(u8::MAX, Ip::v6(0))
    }

    /// Returns the number of its bucket.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the source with this number, below [`Source::COUNT`].
    pub(crate) const fn numbered(index: usize) -> Self {
        Self(index as u8)
    }
}

/// A bucket: what its source has used, in milliseconds of credit, as of a time.
#[derive(Clone, Copy)]
struct Bucket {
    used: u32,
    updated: u32,
}

/// The buckets of one router: 2 KiB.
pub(crate) struct Pace {
    sources: [Bucket; Source::COUNT],
    shared_used: u64,
    shared_updated: u64,
}

impl Pace {
    /// Creates full buckets.
    pub(crate) const fn new() -> Self {
        Self { sources: [Bucket { used: 0, updated: 0 }; Source::COUNT], shared_used: 0, shared_updated: 0 }
    }

    /// Takes a token for a request of this source at time `now`, in milliseconds; returns false if there is none.
    pub(crate) fn take(&mut self, source: Source, now: u64) -> bool {
        let bucket = &mut self.sources[source.index()];
        // Modulo 2^32 milliseconds: a source that was silent for 49 days may find its old debt.
        let passed = (now as u32).wrapping_sub(bucket.updated);
        bucket.used = bucket.used.saturating_sub(passed);
        bucket.updated = now as u32;
        if bucket.used + COST <= BURST * COST {
            bucket.used += COST;
            return true;
        }
        self.take_shared(now)
    }

    fn take_shared(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.shared_updated).saturating_mul(1000);
        self.shared_used = self.shared_used.saturating_sub(passed);
        self.shared_updated = now;
        let granted = self.shared_used + SHARED_COST <= SHARED_BURST * SHARED_COST;
        if granted {
            self.shared_used += SHARED_COST;
        }
        granted
    }
}
