//! Frames that come back to the NIC that sent them, because its driver wants it so (82540EM manual, RCTL.LBM; the
//! PHY's loopback bit).

use std::sync::atomic::Ordering;

use nic::queue::{RxQueue, TxQueue};
use switch::{Frame, plainly};

use super::{NicQueues, Served};

impl NicQueues {
    /// From now on frames come back, or go out again.
    pub(super) fn set_loopback(&self, back: bool) {
        self.loopback.store(back, Ordering::Relaxed);
    }

    /// Shows frames of one transmit queue to `take`, or gives them back to the NIC; returns how many left the queue.
    #[inline(always)]
    pub(super) fn send(&self, pair: usize, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Some(served) = self.tx.queues.get(pair) else { return 0 };
        if self.loopback.load(Ordering::Relaxed) {
            self.return_to(served, budget)
        } else {
            served.drain(budget, take)
        }
    }

    /// The transmit queue is locked before the receive queue, as when frames leave within an access.
    #[cold]
    fn return_to(&self, served: &Served<TxQueue>, budget: usize) -> usize {
        served.drain(budget, &mut |frames| {
            let Some(receive) = self.rx.queues.first() else { return };
            plainly(frames, &mut |frames| give_back(receive, frames));
        })
    }
}

/// Gives a burst of plain frames to the receive queue of the same NIC.
fn give_back(receive: &Served<RxQueue>, frames: &[Frame<'_>]) {
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
