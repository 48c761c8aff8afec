//! Frames that are sent within the register access that tells of them, in the vCPU's thread.
//!
//! ```text
//! vCPU thread:   device --> transmit queue --> sink (switch, TAP) --> another NIC's receive queue --> its interrupts
//! I/O thread:    receive queue --> interrupts;     transmit queue: not touched
//! ```
//!
//! Locks are taken in the order of the arrows and nobody holds a receive queue while he waits for a transmit queue or for
//! a device, so two NICs that send to each other at the same time hold nobody up.

use std::sync::{Arc, Mutex, PoisonError};

use ring::BURST;
use switch::{Sink, deliver};

use super::NicQueues;

/// More than a full ring takes, also where each burst is as long as one frame of it.
const MOST_BURSTS: usize = 1 << 16;

/// Where the frames go; nowhere until somebody says so.
#[derive(Default)]
pub(super) struct InAccess(Mutex<Option<Arc<dyn Sink>>>);

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
        if let Some(InAccess(place)) = &self.in_access {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
            self.transmit();
        }
    }

    /// The device is gone: lets go of the sink.
    pub(crate) fn transmit_nowhere(&self) {
        if let Some(InAccess(place)) = &self.in_access {
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// The driver moved the end of its transmit ring by a register access: sends what there is, or rings for the thread
    /// that does if it sleeps. It ends: nobody moves the end of a ring while its access is carried out.
    pub(crate) fn transmit(&self) {
        let Some(served) = self.tx.queues.first() else { return };
        let Some(InAccess(place)) = &self.in_access else { return served.news() };
        let place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = &*place else { return };
        served.settle(sink.offloads());
        for _ in 0..MOST_BURSTS {
            let shown = self.send(0, BURST, &mut |frames| {
                deliver(&**sink, frames);
            });
            if shown == 0 && served.with(|running| running.queue.has_frames()) != Some(true) {
                return;
            }
        }
    }

    /// The same for a pair of virtqueues, whose doorbell is the access: it is armed again at the end.
    pub(crate) fn transmit_pair(&self, pair: usize) {
        let (Some(served), Some(InAccess(place))) = (self.tx.queues.get(pair), &self.in_access) else {
            return;
        };
        let place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = &*place else { return };
        // Nobody else counts these: no event rings for them.
        served.ledger.kicks.add(1);
        served.with(|running| running.queue.disarm());
        for _ in 0..MOST_BURSTS {
            let shown = self.send(pair, BURST, &mut |frames| {
                deliver(&**sink, frames);
            });
            // What is published after this rings again.
            if shown == 0 && served.with(|running| running.queue.arm()) != Some(true) {
                return;
            }
        }
        served.with(|running| running.queue.arm());
    }

    /// The driver moved the end of its receive ring by a register access: rings for the thread that waits for room.
    pub(crate) fn posted(&self) {
        if let Some(served) = self.rx.queues.first() {
            served.news();
        }
    }
}
