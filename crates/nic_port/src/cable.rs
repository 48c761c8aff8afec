//! A cable that is pulled out: the NIC takes no frame, and what its driver sends goes nowhere. Both are counted as
//! `drop_not_running`, and nothing is kept for later.

use std::sync::atomic::Ordering;

use ledger::NicDirection;
use nic::queue::TxQueue;
use ring::BURST;

use super::{NicQueues, Pairs, Served};

/// In [`NicQueues::aside`]: frames are lost.
pub(super) const NOWHERE: u8 = 2;
/// In [`Pairs::closed_until`]: it opens when the cable is plugged in.
pub(super) const UNTIL_PLUGGED: u64 = u64::MAX;

impl NicQueues {
    /// Pulls the cable out or plugs it in; what a driver is told of it, its device says. A NIC starts with one.
    pub fn plug(&self, on: bool) {
        self.set_aside(NOWHERE, !on);
        self.pairs.unplugged.store(!on, Ordering::SeqCst);
        if !on {
            self.pairs.closed_until.store(UNTIL_PLUGGED, Ordering::SeqCst);
            // Who waits for room has none to wait for any more: what he has is lost.
            self.rouse_receivers();
        }
    }

    /// How many frames a NIC would take that is closed: any number if that is for long, as they are lost then.
    #[cold]
    pub(super) fn closed_room(&self) -> usize {
        if self.pairs.is_unplugged() { BURST } else { 0 }
    }
}

impl Pairs {
    pub(super) fn is_unplugged(&self) -> bool {
        self.unplugged.load(Ordering::SeqCst)
    }

    /// A driver that comes and goes does not plug the cable in. (Whoever of this and [`NicQueues::plug`] comes second sees
    /// what the first has done.)
    pub(super) fn stay_closed(&self) {
        if self.is_unplugged() {
            self.closed_until.store(UNTIL_PLUGGED, Ordering::SeqCst);
        }
    }
}

impl Served<TxQueue> {
    /// Takes frames that go nowhere; returns how many. They leave the ring as others do, but have not moved.
    #[cold]
    pub(super) fn lose(&self, budget: usize) -> usize {
        let seen = NicDirection::default();
        let taken = self.with(|running| {
            let drained = running.queue.drain(budget, &seen, &mut |_| {});
            running.notifier.notify(drained.causes, drained.frames);
            drained.frames
        });
        let lost = seen.frames.get();
        for moved in [&seen.frames, &seen.bytes, &seen.batches, &seen.left_checksum, &seen.left_segments] {
            moved.add(moved.get().wrapping_neg());
        }
        seen.drop_not_running.add(lost);
        self.ledger.add_all(&seen);
        taken.unwrap_or(0)
    }
}
