//! Several ingress queues side by side; a frame's flow selects its queue, and each queue is emptied by a thread of its
//! own.
//!
//! The queue of a flow never changes, whatever the receiver does: each queue is a FIFO, so the frames of a flow stay in
//! order up to the thread that empties it.

use std::io;
use std::sync::Arc;

use frame::offload::Offloads;

use super::{IngressCounters, IngressSink, IngressSource, ingress};
use crate::boundary::{Frame, Sink};
use crate::steer::{self, Hash};

/// Senders' side of several queues.
pub struct IngressFan {
    queues: Vec<Arc<IngressSink>>,
    hash: Hash,
}

/// Creates `queues` (at least one, at most [`steer::MOST`]) queues of `queue_len` frames each. Fails if no event
/// descriptors can be created.
pub fn ingress_fan(
    queue_len: u32,
    queues: usize,
    hash: Hash,
) -> io::Result<(Arc<IngressFan>, Vec<IngressSource>)> {
    let made =
        (0..queues.clamp(1, steer::MOST)).map(|_| ingress(queue_len)).collect::<io::Result<Vec<_>>>()?;
    let (queues, sources) = made.into_iter().unzip();
    Ok((Arc::new(IngressFan { queues, hash }), sources))
}

impl IngressFan {
    /// Returns the summed counters of all queues.
    pub fn counters(&self) -> IngressCounters {
        let sum = IngressCounters::default();
        self.queues.iter().for_each(|queue| sum.add_all(queue.counters()));
        sum
    }

    /// Returns the queues.
    pub fn queues(&self) -> &[Arc<IngressSink>] {
        &self.queues
    }
}

impl Sink for IngressFan {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if let [only] = &self.queues[..] {
            return only.deliver(frames);
        }
        let mut taken = 0;
        steer::by_flow(frames, self.queues.len(), self.hash, |number, group| {
            taken += self.queues.get(number).map_or(0, |queue| queue.deliver(group));
        });
        taken
    }

    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}
