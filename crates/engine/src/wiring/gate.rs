//! `limit`: rate limit for frames that enter a router, applied before any other processing.
//!
//! Frames from a switch are limited in the sender's thread, before the queue or the ring; all others in the
//! router's own I/O thread, which has read them from their source.

use std::sync::Arc;

use config::{Rate, Router};
use port::{Limit, LimitCounters, Limited, Sink};

/// Rate limit of one router.
#[derive(Clone)]
pub(crate) struct RateLimit {
    limit: Arc<Limit>,
    nics: Vec<NicGate>,
}

/// Rate limit of a router at one NIC.
#[derive(Clone)]
pub(crate) struct NicGate {
    limit: Arc<Limit>,
    counters: Arc<LimitCounters>,
}

impl RateLimit {
    /// Creates the limit that the file says.
    pub(crate) fn new(plan: &Router) -> Self {
        let limit = Arc::<Limit>::default();
        let nic = |_| NicGate { limit: limit.clone(), counters: Arc::default() };
        let gate = Self { nics: plan.nics.iter().map(nic).collect(), limit };
        gate.set(plan.limit);
        gate
    }

    /// Sets the limit, in packets per second.
    pub(crate) fn set(&self, limit: Option<Rate>) {
        self.limit.set(limit.map(Rate::pps));
    }

    /// Returns the limits by NIC, in the order of the file.
    pub(crate) fn nics(&self) -> &[NicGate] {
        &self.nics
    }
}

impl NicGate {
    /// Applies the limit before a sink for frames that enter by this NIC.
    pub(super) fn before(&self, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(Limited::new(sink, self.limit.clone(), self.counters.clone()))
    }

    /// Returns its counters, if there is or was a limit.
    pub(crate) fn counters(&self) -> Option<&LimitCounters> {
        (self.limit.get().is_some() || self.counters.in_frames.get() > 0).then_some(&self.counters)
    }
}
