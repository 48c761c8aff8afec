//! Frames that are sent within the register access that tells of them, in the vCPU's thread.
//!
//! ```text
//! vCPU thread:   device --> transmit queue --> sink (switch, TAP) --> another NIC's receive queue --> its interrupts
//! I/O thread:    receive queue --> interrupts;     transmit queue: not touched
//! ```
//!
//! Locks are taken in the order of the arrows and nobody holds a receive queue while he waits for a transmit queue or for
//! a device, so two NICs that send to each other at the same time hold nobody up.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nic::queue::TxQueue;
use port::{Sink, deliver};
use ring::BURST;
use ring::left_over::LeftOver;

use super::{NicQueues, Ringer, Served};

/// How long frames are sent within one access, when [`LEAST_BURSTS`] were. What is left then goes out by the thread that polls the
/// NIC's source: a ring may hold seconds of work, and whoever stops the vCPU waits for the access.
pub(super) const ACCESS_BUDGET: Duration = Duration::from_millis(1);

/// Bursts that are sent in any case: a thread that loses its CPU meanwhile does not leave the little that it has to another.
pub(super) const LEAST_BURSTS: usize = 4;

/// How frames are sent within accesses.
pub(super) struct InAccess {
    /// Where they go; nowhere until somebody says so.
    sink: Mutex<Option<Arc<dyn Sink>>>,
    /// Bursts that an access sends, however long they take.
    least: usize,
    /// For each pair, whether an access has left frames to the thread that polls.
    left: Vec<LeftOver<AtomicU32>>,
}

impl InAccess {
    pub(super) fn new(pairs: usize) -> Self {
        Self::with_least(pairs, LEAST_BURSTS)
    }

    pub(super) fn with_least(pairs: usize, least: usize) -> Self {
        Self { least, sink: Mutex::default(), left: (0..pairs).map(|_| LeftOver::default()).collect() }
    }

    fn sink(&self) -> MutexGuard<'_, Option<Arc<dyn Sink>>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether frames of a pair are left. Whoever has published another one asks: it is sent by the thread that polls, too, or that has
    /// not seen it and never will.
    fn has_left(&self, pair: usize) -> bool {
        self.left.get(pair).is_some_and(LeftOver::is_left)
    }
}

impl NicQueues {
    /// Whether its frames are sent within the driver's register access, rather than by a thread that polls
    /// [`NicQueues::source`] (which is to be polled all the same: it keeps the time of interrupts). Then somebody has to
    /// say where to: [`NicQueues::transmit_in_access`].
    pub fn transmits_in_access(&self) -> bool {
        self.in_access.is_some()
    }

    /// From now on frames go to this sink within the access that tells of them; those that wait already, at once. What
    /// the sink has no room for is lost, and counted there. Does nothing to a NIC that does not transmit so.
    pub fn transmit_in_access(&self, sink: Arc<dyn Sink>) {
        if let Some(access) = &self.in_access {
            *access.sink() = Some(sink);
            self.transmit();
        }
    }

    /// The device is gone: lets go of the sink.
    pub fn transmit_nowhere(&self) {
        if let Some(access) = &self.in_access {
            access.sink().take();
        }
    }

    /// The driver moved the end of its transmit ring by a register access: sends what there is, or rings for the thread
    /// that does if it sleeps.
    pub fn transmit(&self) {
        let Some(served) = self.tx.queues.first() else { return };
        let Some(access) = &self.in_access else { return served.news() };
        self.send_within(0, served, access);
    }

    /// Sends what the driver of a pair of virtqueues has published, within the access that rang for it; the doorbell, which is the
    /// access, is armed again at the end.
    pub fn transmit_pair(&self, pair: usize, ringer: Ringer) {
        let (Some(served), Some(access)) = (self.tx.queues.get(pair), &self.in_access) else {
            return;
        };
        if ringer == Ringer::Driver {
            // Nobody else counts these: no event rings for them.
            served.ledger.kicks.add(1);
        }
        self.send_within(pair, served, access);
    }

    /// Sends what the driver has published, for [`ACCESS_BUDGET`].
    fn send_within(&self, pair: usize, served: &Served<TxQueue>, access: &InAccess) {
        if access.has_left(pair) {
            return served.ring(Ringer::Device);
        }
        let place = access.sink();
        let Some(sink) = &*place else { return };
        served.with(|running| running.queue.disarm());
        served.settle(sink.offloads());
        let end = self.pairs.clock.now() + ACCESS_BUDGET.as_nanos() as u64;
        let mut bursts = 0;
        while self.send_burst(pair, &**sink) > 0 || served.has_more() {
            bursts += 1;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if bursts >= access.least && self.pairs.clock.now() >= end {
                access.left.get(pair).into_iter().for_each(LeftOver::leave);
                return served.ring(Ringer::Device);
            }
        }
    }

    fn send_burst(&self, pair: usize, sink: &dyn Sink) -> usize {
        self.send(pair, BURST, &mut |frames| {
            deliver(sink, frames);
        })
    }

    /// For the thread that polls the source: sends a burst of what an access has left; how many frames left the ring.
    pub(super) fn send_rest(&self, pair: usize) -> usize {
        let Some((served, access)) = self.tx.queues.get(pair).zip(self.in_access.as_ref()) else { return 0 };
        let Some(left) = access.left.get(pair).filter(|left| left.is_any()) else { return 0 };
        let place = access.sink();
        let sent = place.as_ref().map_or(0, |sink| self.send_burst(pair, &**sink));
        if sent == 0 {
            // What is published from here on is sent by its access; what was before is seen now.
            left.settle(|| served.has_more());
        }
        sent
    }

    /// The driver moved the end of its receive ring by a register access: rings for the thread that waits for room.
    pub fn posted(&self) {
        if let Some(served) = self.rx.queues.first() {
            served.news();
        }
    }
}

impl Served<TxQueue> {
    /// Whether a frame waits. With a doorbell that is an access to a virtqueue the driver is asked for the next one.
    fn has_more(&self) -> bool {
        let look = |running: &mut super::Running<TxQueue>| match &mut running.queue {
            TxQueue::E1000(queue) => queue.has_frames(),
            TxQueue::VirtioNet(queue) => queue.arm(),
        };
        self.with(look).unwrap_or(false)
    }
}
