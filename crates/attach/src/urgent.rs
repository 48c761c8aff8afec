//! The way past an ingress queue, for a NIC whose router has a control plane: while many frames wait in the queue, those of BFD, of
//! routing protocols and of neighbours are placed in a queue of their own, so that adjacencies outlive a flood.
//!
//! ```text
//!            .- few wait: all -------------> ingress queue ---> ring, as far as there is room
//!  senders --|
//!            '- many wait: urgent ones ----> urgent queue ----> sorted out, whatever room there is
//! ```

use std::io;
use std::sync::Arc;

use port::{
    Frame, Frames, IngressCounters, IngressFan, IngressSink, Offloads, Sink, Source, SourceWrapper, ingress,
};
use punt::{Class, HEAD, class_of};
use ring::BURST;

/// Frames of the urgent queue.
const LENGTH: usize = 256;

/// Senders' side: an ingress queue, and the urgent one beside it.
pub(crate) struct Overtaking {
    queue: Arc<IngressFan>,
    /// Frames that wait in a queue while urgent ones overtake them.
    many: usize,
    urgent: Arc<IngressSink>,
}

impl Overtaking {
    /// Creates the urgent queue beside a queue of this length; returns its consumer's side as well.
    ///
    /// # Errors
    /// No event descriptor can be created.
    pub(crate) fn new(queue: Arc<IngressFan>, queue_len: u32) -> io::Result<(Self, Box<dyn Source>)> {
        let (urgent, source) = ingress(LENGTH as u32)?;
        let many = (queue_len / 2).max(1) as usize;
        Ok((Self { queue, many, urgent }, unhindered(Box::new(source), 1)))
    }

    /// Returns the summed counters of both queues.
    pub(crate) fn counters(&self) -> IngressCounters {
        let sum = self.queue.counters();
        sum.add_all(self.urgent.counters());
        sum
    }

    fn is_crowded(&self) -> bool {
        self.queue.queues().iter().any(|queue| queue.waiting() >= self.many)
    }

    /// Places urgent frames past the others.
    #[cold]
    fn sort(&self, frames: &[Frame<'_>]) -> usize {
        let (mut urgent, mut others) = (Frames::new(), Frames::new());
        for frame in frames {
            if self.overtakes(frame, urgent.len()) { urgent.push(*frame) } else { others.push(*frame) }
        }
        let places: [(&dyn Sink, &Frames<'_>); 2] = [(&*self.urgent, &urgent), (&*self.queue, &others)];
        let filled = places.into_iter().filter(|(_, frames)| !frames.is_empty());
        filled.map(|(sink, frames)| sink.deliver(frames)).sum()
    }

    /// Returns true if a frame is urgent, and its class has room; `more` are about to be placed. A flood of one class leaves room for
    /// those that are more urgent.
    fn overtakes(&self, frame: &Frame<'_>, more: usize) -> bool {
        let mut head = [0; HEAD];
        let len = frame.octets().copy_to_slice(&mut head);
        let room = match class_of(head.get(..len).unwrap_or_default()) {
            Class::Bfd => LENGTH,
            Class::Multihop => LENGTH * 7 / 8,
            Class::Routing => LENGTH * 3 / 4,
            Class::Neighbours => LENGTH / 2,
            Class::Icmp | Class::Rest => return false,
        };
        self.urgent.waiting() + more < room
    }
}

impl Sink for Overtaking {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if self.is_crowded() {
            frames.chunks(BURST).map(|burst| self.sort(burst)).sum()
        } else {
            self.queue.deliver(frames)
        }
    }

    /// As the queues: their consumers complete all offloads.
    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}

/// Source of urgent frames: it is drained whatever room its sink has, because most of its frames are for the control plane.
struct Unhindered {
    source: Box<dyn Source>,
    /// Passes for each look, and those since the last one.
    every: u32,
    passes: u32,
}

/// Has a source drained whatever room its sink has, in every so many passes: a look may cost a system call, and urgent frames are few.
pub(crate) fn unhindered(source: Box<dyn Source>, every: u32) -> Box<dyn Source> {
    Box::new(Unhindered { source, every, passes: 0 })
}

impl SourceWrapper for Unhindered {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.passes = self.passes.wrapping_add(1);
        // The thread looks again before it sleeps.
        if self.passes.is_multiple_of(self.every) { self.source.drain(budget, take) } else { 0 }
    }

    fn waits_on(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod tests;
