//! Rate limit for frames that enter a router: one token bucket for all of its NICs, in packets a second.
//!
//! The bucket is the virtual scheduling algorithm (ITU-T I.371, GCRA): one word holds the time when the next frame
//! would be due if frames arrived evenly; a frame may be early by the bucket's depth. Several senders share the word
//! without a lock. Frames beyond the limit are dropped before any work is done on them, and counted under a name.
//!
//! Without a limit, a burst costs one load and one branch.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ledger::counters;

use crate::boundary::{Frame, Sink};
use crate::clock::Clock;
use crate::wrapper::SinkWrapper;

/// Time units per nanosecond: at 3 Mpps the bucket is exact to 15 parts in a million, and it overflows after nine
/// years.
const PARTS: u64 = 64;
/// A second in these units.
const SECOND: u64 = 1_000_000_000 * PARTS;
/// Depth of the bucket: the frames of this time. A sender that shares its core delivers all frames of a scheduling gap
/// at once.
const DEPTH: u64 = SECOND / 100;
/// Minimum depth in frames.
const LEAST: u64 = 32;

/// Maximum limit in packets a second.
pub const MOST: u64 = 1_000_000_000;

counters! {
    /// Counters of frames that arrived at a NIC while its router had a limit.
    pub struct LimitCounters {
        /// Frames that arrived: the sum of those below.
        in_frames,
        /// Frames that were admitted.
        passed,
        /// Frames lost because they exceeded the router's limit.
        drop_limit,
    }
}

/// Limit of packets a second that may enter by all sinks that share it. A packet that is to be segmented later counts
/// as one.
#[derive(Debug)]
pub struct Limit {
    /// Packets a second; 0: unlimited.
    pps: AtomicU64,
    /// Time when the next frame is due.
    due: AtomicU64,
    clock: Clock,
}

impl Default for Limit {
    fn default() -> Self {
        Self::by(Clock::default())
    }
}

impl Limit {
    /// Creates an unlimited bucket; a later limit uses this clock.
    pub fn by(clock: Clock) -> Self {
        Self { pps: AtomicU64::new(0), due: AtomicU64::new(0), clock }
    }

    /// Sets the limit in packets a second from now on (1 to [`MOST`]), in addition to the bucket's depth of 10 ms worth
    /// of packets, at least 32; `None`: unlimited.
    pub fn set(&self, pps: Option<u64>) {
        self.pps.store(pps.map_or(0, |pps| pps.clamp(1, MOST)), Relaxed);
        // A due time computed for a lower rate must not delay frames.
        self.due.store(0, Release);
    }

    /// Returns the limit.
    pub fn get(&self) -> Option<u64> {
        Some(self.pps.load(Relaxed)).filter(|pps| *pps > 0)
    }

    /// Returns how many of `wanted` frames may enter at `now`. `pps` is the limit as it was read just before.
    fn take(&self, pps: u64, now: u64, wanted: u64) -> u64 {
        let interval = (SECOND / pps).max(1);
        let depth = (interval * LEAST).max(DEPTH);
        let mut allowed = 0;
        // The update fails if no frame may enter: then there is no state to change.
        let _ = self.due.fetch_update(AcqRel, Acquire, |due| {
            let from = due.max(now);
            allowed = ((now + depth).saturating_sub(from) / interval).min(wanted);
            (allowed > 0).then(|| from + allowed * interval)
        });
        if self.pps.load(Relaxed) != pps {
            // The limit was changed meanwhile: this due time was computed for the former rate.
            self.due.store(0, Relaxed);
        }
        allowed
    }

    fn now(&self) -> u64 {
        self.clock.now().wrapping_mul(PARTS)
    }
}

/// A sink decorator that enforces a limit.
pub struct Limited {
    inner: Arc<dyn Sink>,
    limit: Arc<Limit>,
    counters: Arc<LimitCounters>,
}

impl Limited {
    /// Puts a limit before a sink. Sinks of one NIC share their counters.
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
mod tests;
