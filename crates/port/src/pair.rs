//! Two connected ports: frames delivered to one come out of the other. For tests, and as a wire between switches.

use std::io;
use std::sync::Arc;

use frame::offload::Offloads;

use crate::boundary::{Bell, Frame, Sink};
use crate::ingress::{IngressCounters, IngressSink, IngressSource, ingress};

/// One end of the wire.
pub struct PairPort {
    /// Frames that were delivered at the other end.
    pub source: IngressSource,
    /// Sends frames to the other end.
    pub sink: Arc<PairSink>,
}

/// Sends frames to the other end. Unlike an ingress queue it reports its room, so that a poller leaves frames that
/// would not fit at their sender.
pub struct PairSink {
    queue: Arc<IngressSink>,
}

/// Creates a wire that holds up to `len` frames each way. Fails if no event descriptor can be created.
pub fn pair(len: u32) -> io::Result<(PairPort, PairPort)> {
    let (to_b, from_a) = ingress(len)?;
    let (to_a, from_b) = ingress(len)?;
    let a = PairPort { source: from_b, sink: Arc::new(PairSink { queue: to_b }) };
    let b = PairPort { source: from_a, sink: Arc::new(PairSink { queue: to_a }) };
    Ok((a, b))
}

impl PairSink {
    /// Returns the counters of delivered frames.
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

    // A full wire has no bell: a thread that waits for room must poll.
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
