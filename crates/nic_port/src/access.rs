//! Transmission within the register access that rings the doorbell, in the vCPU thread.
//!
//! ```text
//! vCPU thread:   device --> transmit queue --> sink (switch, TAP) --> another NIC's receive queue --> its interrupts
//! I/O thread:    receive queue --> interrupts;     transmit queue: not touched
//! ```
//!
//! Locks are taken in the order of the arrows, and no thread holds a receive queue while it waits for a transmit queue
//! or for a device, so two NICs that send to each other at the same time cannot deadlock.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nic::queue::TxQueue;
use port::{Sink, deliver};
use ring::BURST;
use ring::delegated_work::DelegatedWork;

use super::{NicQueues, QueueSlot, Ringer};

/// Time budget for sending within one access, once [`LEAST_BURSTS`] were sent. The thread that polls the NIC's source
/// sends the rest: a ring may hold seconds of work, and a thread that stops the vCPU waits for the access.
pub(super) const ACCESS_BUDGET: Duration = Duration::from_millis(1);

/// Bursts sent in any case, so that a thread that loses its CPU meanwhile does not delegate the little work that it
/// has.
pub(super) const LEAST_BURSTS: usize = 4;

/// State for transmission within accesses.
pub(super) struct InAccess {
    /// Sink for the frames; `None` until it is set.
    sink: Mutex<Option<Arc<dyn Sink>>>,
    /// Minimum number of bursts that an access sends, however long they take.
    least: usize,
    /// For each pair: whether an access has delegated frames to the polling thread.
    left: Vec<DelegatedWork<AtomicU32>>,
}

impl InAccess {
    pub(super) fn new(pairs: usize) -> Self {
        Self::with_least(pairs, LEAST_BURSTS)
    }

    pub(super) fn with_least(pairs: usize, least: usize) -> Self {
        Self { least, sink: Mutex::default(), left: (0..pairs).map(|_| DelegatedWork::default()).collect() }
    }

    fn sink(&self) -> MutexGuard<'_, Option<Arc<dyn Sink>>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if frames of a pair are delegated to the polling thread. A thread that publishes another frame
    /// checks this: then that frame is sent by the polling thread too, which either still sees it or has ended the
    /// delegation.
    fn has_left(&self, pair: usize) -> bool {
        self.left.get(pair).is_some_and(DelegatedWork::is_delegated)
    }
}

impl NicQueues {
    /// Returns true if frames are sent within the driver's register access, instead of by a thread that polls
    /// [`NicQueues::source`] (which must be polled all the same, because it keeps the time of interrupts). Then the
    /// sink must be set by [`NicQueues::transmit_in_access`].
    pub fn transmits_in_access(&self) -> bool {
        self.in_access.is_some()
    }

    /// Sets the sink for frames sent within accesses, and sends waiting frames at once. Frames for which the sink has
    /// no room are lost, and counted there. Does nothing to a NIC that does not transmit within accesses.
    pub fn transmit_in_access(&self, sink: Arc<dyn Sink>) {
        if let Some(access) = &self.in_access {
            *access.sink() = Some(sink);
            self.transmit();
        }
    }

    /// Releases the sink, because the device is gone.
    pub fn transmit_nowhere(&self) {
        if let Some(access) = &self.in_access {
            access.sink().take();
        }
    }

    /// Call after the driver moved the end of its transmit ring by a register access: sends the frames, or rings for
    /// the thread that sends them if it sleeps.
    pub fn transmit(&self) {
        let Some(served) = self.tx.queues.first() else { return };
        let Some(access) = &self.in_access else { return served.tail_moved() };
        self.send_within(0, served, access);
    }

    /// Sends the frames that the driver of a pair of virtqueues has published, within the access that rang the
    /// doorbell; at the end the doorbell, which is the access, is armed again.
    pub fn transmit_pair(&self, pair: usize, ringer: Ringer) {
        let (Some(served), Some(access)) = (self.tx.queues.get(pair), &self.in_access) else {
            return;
        };
        if ringer == Ringer::Driver {
            // Count the kick here: no event descriptor counts it.
            served.ledger.kicks.add(1);
        }
        self.send_within(pair, served, access);
    }

    /// Sends the frames that the driver has published, within [`ACCESS_BUDGET`].
    fn send_within(&self, pair: usize, served: &QueueSlot<TxQueue>, access: &InAccess) {
        if access.has_left(pair) {
            return served.ring(Ringer::Device);
        }
        let place = access.sink();
        let Some(sink) = &*place else { return };
        served.with(|running| running.queue.disarm());
        served.set_sink_offloads(sink.offloads());
        let end = self.pairs.clock.now() + ACCESS_BUDGET.as_nanos() as u64;
        let mut bursts = 0;
        while self.send_burst(pair, &**sink) > 0 || served.has_more() {
            bursts += 1;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if bursts >= access.least && self.pairs.clock.now() >= end {
                access.left.get(pair).into_iter().for_each(DelegatedWork::delegate);
                return served.ring(Ringer::Device);
            }
        }
    }

    fn send_burst(&self, pair: usize, sink: &dyn Sink) -> usize {
        self.send(pair, BURST, &mut |frames| {
            deliver(sink, frames);
        })
    }

    /// For the thread that polls the source: sends a burst of the frames that an access has delegated; returns how many
    /// frames left the ring.
    pub(super) fn send_rest(&self, pair: usize) -> usize {
        let Some((served, access)) = self.tx.queues.get(pair).zip(self.in_access.as_ref()) else { return 0 };
        let Some(left) = access.left.get(pair).filter(|left| left.has_work()) else { return 0 };
        let place = access.sink();
        let sent = place.as_ref().map_or(0, |sink| self.send_burst(pair, &**sink));
        if sent == 0 {
            // Frames published from here on are sent by their access; frames published earlier are seen now.
            left.finish(|| served.has_more());
        }
        sent
    }

    /// Returns true if frames of one of these pairs are delegated to the thread that polls the source. It must not sleep
    /// then, even if its last burst has shown no frame: that of a packet in many descriptors shows none before the last.
    pub(super) fn has_delegated(&self, pairs: Range<usize>) -> bool {
        let left = self.in_access.iter().flat_map(|access| &access.left);
        left.skip(pairs.start).take(pairs.len()).any(DelegatedWork::has_work)
    }

    /// Call after the driver moved the end of its receive ring by a register access: rings for the thread that waits
    /// for room.
    pub fn posted(&self) {
        if let Some(served) = self.rx.queues.first() {
            served.tail_moved();
        }
    }
}

impl QueueSlot<TxQueue> {
    /// Returns true if a frame waits. If the doorbell is an access to a virtqueue, this arms it for the next frame.
    fn has_more(&self) -> bool {
        let look = |running: &mut super::Running<TxQueue>| match &mut running.queue {
            TxQueue::E1000(queue) => queue.has_frames(),
            TxQueue::VirtioNet(queue) => queue.arm(),
        };
        self.with(look).unwrap_or(false)
    }
}
