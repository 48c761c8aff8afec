//! `queue_len = "auto"`: adapts the number of frames that may wait before a NIC to what its router can take.
//!
//! A long queue holds frames that arrive while it is not read (the router's other threads have the CPU, or
//! send), so it gives the highest peak rate. In overload it is always full: each frame has waited for all
//! before it, its memory is cold, and the work spent on it before it is dropped later is lost (seed paper
//! 000, section 3.6 and Fig. 13). A short queue drops early, at no cost, but also during a pause of the
//! reader that the router could have made up for.
//!
//! So the queue should be long exactly as long as it *empties*: see [`tuner`]. The length is decided here, in
//! the thread that serves the NIC, from what it observes anyway; a privileged process sets it, at most a
//! hundred times a second.

pub(super) mod tuner;

use std::sync::Arc;
use std::time::Duration;

use port::{Clock, Frame, Sink, Source, SourceWrapper};
use uplink::QueueLimit;

use tuner::{Look, PERIOD, Tuner};

/// Number of visits per look at the clock.
const VISITS: u32 = 16;

/// A source whose queue in the kernel is tuned.
pub(super) struct EarlyDrop<S> {
    source: S,
    /// The destination of the frames.
    router: Arc<dyn Sink>,
    limit: QueueLimit,
    tuner: Tuner,
    visits: u32,
    clock: Clock,
    /// Time of the last judgement, by the clock.
    since: u64,
}

impl<S: Source> EarlyDrop<S> {
    /// Tunes the queue of `source`, whose frames go to `router` with a ring of `ring` entries, starting with
    /// a length of `first` frames.
    pub(super) fn new(
        clock: Clock,
        (source, router): (S, Arc<dyn Sink>),
        limit: QueueLimit,
        ring: u32,
        first: u32,
    ) -> Self {
        limit.set(first);
        let (tuner, since) = (Tuner::new(first, ring), clock.now());
        Self { source, router, limit, tuner, visits: 0, clock, since }
    }

    fn judge(&mut self) {
        self.visits = 0;
        let now = self.clock.now();
        if Duration::from_nanos(now - self.since) < PERIOD {
            return;
        }
        self.since = now;
        if let Some(frames) = self.tuner.judge() {
            self.limit.set(frames);
        }
    }
}

impl<S: Source> SourceWrapper for EarlyDrop<S> {
    port::inner_source!(source: S);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let room = self.router.room();
        let shown = self.source.drain(budget, take);
        self.tuner.look(Look { room, budget, shown });
        self.visits += 1;
        if self.visits >= VISITS {
            self.judge();
        }
        shown
    }
}

#[cfg(test)]
mod tests;
