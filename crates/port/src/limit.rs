//! A cap on what enters a router: one token bucket for all of its NICs, in packets a second.
//!
//! The bucket is the virtual scheduling algorithm (ITU-T I.371, GCRA): one word says when the next frame is due, were
//! they to come evenly; a frame may be early by the bucket's depth. Several senders share the word without a lock. What is
//! over the limit is dropped before anything is done with it, and counted under a name.
//!
//! Where no limit is set, a burst costs one load and one branch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ledger::counters;

use crate::boundary::{Frame, Sink};
use crate::clock::Clock;
use crate::wrapper::SinkWrapper;

/// Parts of a nanosecond that the bucket counts in: at 3 Mpps it is right to 15 parts in a million, and it overflows after
/// nine years.
const PARTS: u64 = 64;
/// A second in those.
const SECOND: u64 = 1_000_000_000 * PARTS;
/// What the bucket holds: this time's frames. A sender that shares its core brings what has come meanwhile at once.
const DEPTH: u64 = SECOND / 100;
/// And at least so many frames.
const LEAST: u64 = 32;

/// Most packets a second that a limit can be.
pub const MOST: u64 = 1_000_000_000;

counters! {
    /// Frames that came to a NIC while its router had a limit, and what became of them.
    pub struct LimitCounters {
        /// Frames that came: those below.
        in_frames,
        /// Frames that were let in.
        passed,
        /// Frames lost because there were more than the router's limit.
        drop_limit,
    }
}

/// How many packets a second may enter, by all sinks that share it. A packet that is to be cut into segments later is one.
#[derive(Debug)]
pub struct Limit {
    /// Packets a second; 0: any number.
    pps: AtomicU64,
    /// When the next frame is due.
    due: AtomicU64,
    clock: Clock,
}

impl Default for Limit {
    fn default() -> Self {
        Self::by(Clock::default())
    }
}

impl Limit {
    /// No limit yet; a later one goes by this clock.
    fn by(clock: Clock) -> Self {
        Self { pps: AtomicU64::new(0), due: AtomicU64::new(0), clock }
    }

    /// At most so many packets a second from now on (1 to [`MOST`]), beside the 10 ms worth of them, at least 32, that the
    /// bucket holds; none: any number.
    pub fn set(&self, pps: Option<u64>) {
        self.pps.store(pps.map_or(0, |pps| pps.clamp(1, MOST)), Relaxed);
        // What was due by a slower clock is not waited for.
        self.due.store(0, Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> Option<u64> {
        Some(self.pps.load(Relaxed)).filter(|pps| *pps > 0)
    }

    /// How many of so many frames may enter at `now`.
    fn take(&self, pps: u64, now: u64, wanted: u64) -> u64 {
        let interval = (SECOND / pps).max(1);
        let depth = (interval * LEAST).max(DEPTH);
        let mut allowed = 0;
        // Refused where nothing may enter: then there is nothing to be noted.
        let _ = self.due.fetch_update(Relaxed, Relaxed, |due| {
            let from = due.max(now);
            allowed = ((now + depth).saturating_sub(from) / interval).min(wanted);
            (allowed > 0).then(|| from + allowed * interval)
        });
        allowed
    }

    fn now(&self) -> u64 {
        self.clock.now().wrapping_mul(PARTS)
    }
}

/// A sink that takes no more than a limit lets in.
pub struct Limited {
    inner: Arc<dyn Sink>,
    limit: Arc<Limit>,
    counters: Arc<LimitCounters>,
}

impl Limited {
    /// Puts a limit before a sink. Sinks of one NIC have their counters in common.
    pub fn new(inner: Arc<dyn Sink>, limit: Arc<Limit>, counters: Arc<LimitCounters>) -> Self {
        Self { inner, limit, counters }
    }

    #[cold]
    fn deliver_some(&self, pps: u64, frames: &[Frame<'_>]) -> usize {
        let came = frames.len() as u64;
        let allowed = self.limit.take(pps, self.limit.now(), came);
        self.counters.in_frames.add_shared(came);
        self.counters.passed.add_shared(allowed);
        self.counters.drop_limit.add_shared(came - allowed);
        match frames.get(..allowed as usize) {
            None | Some([]) => 0,
            Some(first) => self.inner.deliver(first),
        }
    }
}

impl SinkWrapper for Limited {
    fn inner(&self) -> &dyn Sink {
        &*self.inner
    }

    #[inline]
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        match self.limit.pps.load(Relaxed) {
            0 => self.inner.deliver(frames),
            pps => self.deliver_some(pps, frames),
        }
    }
}

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod tests;
