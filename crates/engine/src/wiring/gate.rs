//! `limit`: what may enter a router, before anything is done with it.
//!
//! Frames from a switch pass the gate in the sender's thread, before the queue or the ring; all others in the router's own
//! I/O thread, which has read them from where they waited.

use std::sync::Arc;

use config::{Rate, Router};
use port::{Limit, LimitCounters, Limited, Sink};

/// The gate of one router.
#[derive(Clone)]
pub(crate) struct Gate {
    limit: Arc<Limit>,
    nics: Vec<NicGate>,
}

/// The gate of a router at one NIC.
#[derive(Clone)]
pub(crate) struct NicGate {
    limit: Arc<Limit>,
    counters: Arc<LimitCounters>,
}

impl Gate {
    /// As the file says.
    pub(crate) fn new(plan: &Router) -> Self {
        let limit = Arc::<Limit>::default();
        let nic = |_| NicGate { limit: limit.clone(), counters: Arc::default() };
        let gate = Self { nics: plan.nics.iter().map(nic).collect(), limit };
        gate.set(plan.limit);
        gate
    }

    /// Lets so many packets a second in from now on.
    pub(crate) fn set(&self, limit: Option<Rate>) {
        self.limit.set(limit.map(Rate::pps));
    }

    /// By NIC, in the order of the file.
    pub(crate) fn nics(&self) -> &[NicGate] {
        &self.nics
    }
}

impl NicGate {
    /// Puts it before a sink that takes what comes in by this NIC.
    pub(super) fn before(&self, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(Limited::new(sink, self.limit.clone(), self.counters.clone()))
    }

    /// What came, where there is or was a limit.
    pub(crate) fn counters(&self) -> Option<&LimitCounters> {
        (self.limit.get().is_some() || self.counters.in_frames.get() > 0).then_some(&self.counters)
    }
}
