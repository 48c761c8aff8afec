//! Two connected ports: what is delivered on one comes out of the other. For tests, and as a wire between switches.

use std::io;
use std::sync::Arc;

use frame::offload::Offloads;

use crate::boundary::{Bell, Frame, Sink};
use crate::ingress::{IngressCounters, IngressSink, IngressSource, ingress};

/// One end of the wire.
pub struct PairPort {
    /// Frames that were delivered at the other end.
    pub source: IngressSource,
    /// Takes frames to the other end.
    pub sink: Arc<PairSink>,
}

/// Takes frames to the other end. Unlike an ingress queue it says how much room there is, so that a poller keeps
/// frames that would not fit where they are.
pub struct PairSink {
    queue: Arc<IngressSink>,
}

/// Makes a wire that holds up to `len` frames each way. Fails if no event descriptor can be had.
pub fn pair(len: u32) -> io::Result<(PairPort, PairPort)> {
    let (to_b, from_a) = ingress(len)?;
    let (to_a, from_b) = ingress(len)?;
    let a = PairPort { source: from_b, sink: Arc::new(PairSink { queue: to_b }) };
    let b = PairPort { source: from_a, sink: Arc::new(PairSink { queue: to_a }) };
    Ok((a, b))
}

impl PairSink {
    /// What was delivered, and what became of it.
    pub fn counters(&self) -> &IngressCounters {
        self.queue.counters()
    }
}

impl Sink for PairSink {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.queue.deliver(frames)
    }

    fn room(&self) -> usize {
        self.queue.free()
    }

    // A full wire has no bell: who waits for it must poll.
    fn arm(&self) -> bool {
        true
    }

    fn bell(&self) -> Bell<'_> {
        Bell::None
    }

    fn offloads(&self) -> Offloads {
        self.queue.offloads()
    }
}
