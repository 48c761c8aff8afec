//! Loopback: frames come back to the NIC that sent them, if its driver configures that (82540EM manual, RCTL.LBM; the
//! PHY's loopback bit).

use std::sync::atomic::Ordering;

use nic::queue::{RxQueue, TxQueue};
use port::{Frame, show_completed};

use super::cable::UNPLUGGED;
use super::{NicQueues, QueueSlot};

/// Bit of [`NicQueues::diversion`]: frames come back to the NIC.
pub(super) const LOOPBACK: u8 = 1;

impl NicQueues {
    /// Switches loopback on or off.
    pub(super) fn set_loopback(&self, back: bool) {
        self.set_aside(LOOPBACK, back);
    }

    /// Sets or clears one reason for frames not to go out.
    pub(super) fn set_aside(&self, way: u8, on: bool) {
        if on {
            self.diversion.fetch_or(way, Ordering::Relaxed);
        } else {
            self.diversion.fetch_and(!way, Ordering::Relaxed);
        }
    }

    /// Takes frames from one transmit queue: shows them to `take`, or returns them to the NIC in loopback, or loses
    /// them if its cable is unplugged or the queue is disabled; returns how many left the queue.
    #[inline(always)]
    pub(super) fn send(&self, pair: usize, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Some(served) = self.tx.queues.get(pair) else { return 0 };
        let way = self.diversion.load(Ordering::Relaxed);
        if way != 0
            && let Some(diverted) = self.divert(served, way, budget)
        {
            return diverted;
        }
        served.drain(budget, take)
    }

    /// Takes frames that do not go out from one transmit queue; returns how many, or `None` if those of this queue go
    /// out.
    #[cold]
    fn divert(&self, served: &QueueSlot<TxQueue>, way: u8, budget: usize) -> Option<usize> {
        // Loopback works without a cable.
        if way & LOOPBACK != 0 {
            return Some(self.return_to(served, budget));
        }
        (way & UNPLUGGED != 0 || served.discards.load(Ordering::Relaxed)).then(|| served.lose(budget))
    }

    /// The transmit queue is locked before the receive queue, as for transmission within an access.
    fn return_to(&self, served: &QueueSlot<TxQueue>, budget: usize) -> usize {
        served.drain(budget, &mut |frames| {
            let Some(receive) = self.rx.queues.first() else { return };
            show_completed(frames, &mut |frames| give_back(receive, frames));
        })
    }
}

/// Delivers a burst of frames without pending offloads to the receive queue of the same NIC.
fn give_back(receive: &QueueSlot<RxQueue>, frames: &[Frame<'_>]) {
    let taken = receive.with(|running| {
        let RxQueue::E1000(queue) = &mut running.queue else { return 0 };
        let filled = queue.loop_back(frames, &receive.ledger);
        running.notifier.notify(filled.causes, filled.taken);
        filled.taken
    });
    let lost = (frames.len() - taken.unwrap_or(0)) as u64;
    let counter =
        if taken.is_some() { &receive.ledger.drop_no_buffer } else { &receive.ledger.drop_not_running };
    counter.add_shared(lost);
}
