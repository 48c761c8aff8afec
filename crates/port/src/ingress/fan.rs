//! Several ingress queues side by side; a frame's flow selects its queue, and each queue is emptied by a thread of its
//! own. Or frames are dealt out one by one, and may overtake each other.
//!
//! The queue of a flow never changes, whatever the receiver does: each queue is a FIFO, so the frames of a flow stay in
//! order up to the thread that empties it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use frame::offload::Offloads;

use super::{IngressCounters, IngressSink, IngressSource, ingress};
use crate::boundary::{Frame, Sink};
use crate::steer::{self, Hash};

/// Senders' side of several queues.
pub struct IngressFan {
    queues: Vec<Arc<IngressSink>>,
    choice: Choice,
}

/// How the queue of a frame is chosen.
enum Choice {
    Flow(Hash),
    /// One queue after the other: how many frames there were.
    Turn(AtomicUsize),
}

/// Creates `queues` (at least one, at most [`steer::MOST`]) queues of `queue_len` frames each. Fails if no event
/// descriptors can be created.
pub fn ingress_fan(
    queue_len: u32,
    queues: usize,
    hash: Hash,
) -> io::Result<(Arc<IngressFan>, Vec<IngressSource>)> {
    fan(queue_len, queues, Choice::Flow(hash))
}

/// As [`ingress_fan`], but frames are dealt out to the queues one by one. Fails if no event descriptors can be created.
pub fn ingress_fan_in_turn(
    queue_len: u32,
    queues: usize,
) -> io::Result<(Arc<IngressFan>, Vec<IngressSource>)> {
    fan(queue_len, queues, Choice::Turn(AtomicUsize::new(0)))
}

fn fan(queue_len: u32, queues: usize, choice: Choice) -> io::Result<(Arc<IngressFan>, Vec<IngressSource>)> {
    let made =
        (0..queues.clamp(1, steer::MOST)).map(|_| ingress(queue_len)).collect::<io::Result<Vec<_>>>()?;
    let (queues, sources) = made.into_iter().unzip();
    Ok((Arc::new(IngressFan { queues, choice }), sources))
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
        let queues = self.queues.len();
        let put = |number: usize, group: &[Frame<'_>]| {
            taken += self.queues.get(number).map_or(0, |queue| queue.deliver(group));
        };
        match &self.choice {
            Choice::Flow(hash) => steer::by_flow(frames, queues, *hash, put),
            Choice::Turn(turn) => {
                let first = turn.fetch_add(frames.len(), Ordering::Relaxed);
                steer::one_by_one(frames, queues, first, put);
            }
        }
        taken
    }

    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}
