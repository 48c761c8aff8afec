//! The bounded ingress queue of a `queued` port: senders only place frames in it, and the receiver's own thread takes
//! them out, so that their processing is charged to the receiver's CPU.
//!
//! The queue never makes a sender wait: frames that find no slot are dropped here, early and under a name, before any
//! work was spent on them. [`leases`] implements the protocol, [`Slots`] holds the frames.
//!
//! A frame that is to be segmented is placed unsegmented: the thread that takes it out does that work. Such a frame is
//! larger than a slot, so its slot only holds the number of a `large` place. There are few of these, in memory that has
//! no pages before the first such frame arrives.

mod fan;
mod large;
pub mod leases;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use arrayvec::ArrayVec;
use frame::offload::{LARGEST, Offloads};
use ledger::counters;
use ring::{BURST, Bytes, Slots};
use rustix::event::{EventfdFlags, eventfd};

use crate::boundary::{Bell, Frame, Frames, Sink, Source};
pub use fan::{IngressFan, ingress_fan, ingress_fan_in_turn};
use large::Large;
use leases::{Filled, Lease, Leases};

/// Length in octets of the longest frame that fits into a slot alone.
pub const SLOT: usize = 2048;
/// Length in octets of the longest frame that an ingress queue takes.
pub const LONGEST: usize = LARGEST;

counters! {
    /// Counters of an ingress queue.
    pub struct IngressCounters {
        /// Frames that senders delivered: the sum of those below.
        in_frames,
        /// Frames placed in the queue.
        queued,
        /// Frames lost because the queue was full.
        drop_full,
        /// Frames lost because they exceed the maximum length of any frame.
        drop_too_long,
        /// Number of times the consumer was woken.
        rings,
    }
}

struct Queue {
    slots: Slots,
    large: Large,
    leases: Leases,
    bell: OwnedFd,
    senders: Senders,
}

/// State that senders write for each burst, on other cache lines than the consumer reads.
#[derive(Default)]
#[repr(align(128))]
struct Senders {
    counters: IngressCounters,
}

/// Creates a queue of `queue_len` frames (at least one). Fails if no event descriptor can be created.
pub fn ingress(queue_len: u32) -> io::Result<(Arc<IngressSink>, IngressSource)> {
    let count = queue_len.max(1);
    let queue = Arc::new(Queue {
        slots: Slots::new(count as usize, SLOT),
        large: Large::new(count),
        leases: Leases::new(count),
        bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        senders: Senders::default(),
    });
    Ok((Arc::new(IngressSink { queue: queue.clone() }), IngressSource { queue }))
}

/// The senders' side.
pub struct IngressSink {
    queue: Arc<Queue>,
}

impl IngressSink {
    /// Returns the counters.
    pub fn counters(&self) -> &IngressCounters {
        &self.queue.senders.counters
    }

    /// Returns how many frames wait for the consumer.
    pub fn waiting(&self) -> usize {
        self.queue.leases.waiting()
    }

    /// Returns how many slots a sender could fill now.
    pub fn free(&self) -> usize {
        self.queue.leases.free()
    }
}

impl Sink for IngressSink {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut taken = 0;
        for burst in frames.chunks(BURST) {
            let n = self.queue.place(burst);
            taken += n;
            if n < burst.len() {
                break;
            }
        }
        self.queue.senders.counters.in_frames.add_shared(frames.len() as u64);
        if taken < frames.len() {
            self.queue.senders.counters.drop_full.add_shared((frames.len() - taken) as u64);
        }
        taken
    }

    /// Accepts all offloads: the queue's consumer completes them.
    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}

impl Queue {
    /// Leases, copies and publishes at most [`BURST`] frames; returns how many were handled.
    fn place(&self, frames: &[Frame<'_>]) -> usize {
        let fitting = frames.iter().filter(|frame| frame.len() <= LONGEST).count();
        let lease = self.leases.lease(fitting);
        let mut filled = ArrayVec::<Filled, BURST>::new();
        let taken = self.copy(frames, &lease, &mut filled);
        if filled.len() < lease.len() {
            self.leases.give_back(lease[filled.len()..].iter().copied());
        }
        self.senders.counters.queued.add_shared(filled.len() as u64);
        if taken > filled.len() {
            self.senders.counters.drop_too_long.add_shared((taken - filled.len()) as u64);
        }
        if self.leases.publish(&filled) {
            self.ring();
        }
        taken
    }

    /// Copies the first frames for which there are slots; returns how many were handled, including those that are too
    /// long.
    fn copy(&self, frames: &[Frame<'_>], lease: &Lease, filled: &mut ArrayVec<Filled, BURST>) -> usize {
        let mut slots = lease.iter();
        for (i, frame) in frames.iter().enumerate() {
            if frame.len() > LONGEST {
                continue;
            }
            let Some(&slot) = slots.next() else { return i };
            let Some(target) = self.target(slot, frame.len()) else { return i };
            frame.octets().copy_to(&target);
            filled.push(Filled { slot, len: frame.len() as u32, offload: frame.offload() });
        }
        frames.len()
    }

    /// Returns the memory for a frame of this length with this slot; `None` if there is no large place for it.
    #[inline(always)]
    fn target(&self, slot: u32, len: usize) -> Option<Bytes<'_>> {
        self.slots.get(slot as usize, len).or_else(|| self.large.lease(&self.slots, slot, len))
    }

    /// Returns a queued frame.
    #[inline(always)]
    fn shown(&self, filled: &Filled) -> Option<Frame<'_>> {
        let (slot, len) = (filled.slot as usize, filled.len as usize);
        let octets = self.slots.get(slot, len).or_else(|| self.large.get(&self.slots, filled))?;
        Some(Frame::with_offload(octets, filled.offload))
    }

    #[cold]
    fn ring(&self) {
        self.senders.counters.rings.add_shared(1);
        // The only failure is a counter about to overflow, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The consumer's side.
pub struct IngressSource {
    queue: Arc<Queue>,
}

impl Source for IngressSource {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let ready = self.queue.leases.take(budget);
        if ready.is_empty() {
            return 0;
        }
        let shown: Frames<'_> = ready.iter().filter_map(|filled| self.queue.shown(filled)).collect();
        take(&shown);
        self.queue.large.give_back(&self.queue.slots, &ready);
        self.queue.leases.give_back(ready.iter().map(|frame| frame.slot));
        ready.len()
    }

    fn arm(&mut self) -> bool {
        self.queue.leases.arm()
    }

    fn disarm(&mut self) {
        self.queue.leases.disarm();
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Event(self.queue.bell.as_fd())
    }
}

#[cfg(test)]
mod tests;
