//! An unplugged cable: the NIC takes no frame, and frames that its driver sends are lost. Both are counted as
//! `drop_not_running`, and no frame is kept for later.

use std::sync::atomic::Ordering;

use ledger::NicDirection;
use nic::queue::TxQueue;
use ring::BURST;

use super::{NicQueues, Pairs, QueueSlot};

/// Bit of [`NicQueues::diversion`]: frames are lost.
pub(super) const UNPLUGGED: u8 = 2;
/// Value of [`Pairs::closed_until`]: closed until the cable is plugged in.
pub(super) const UNTIL_PLUGGED: u64 = u64::MAX;

impl NicQueues {
    /// Unplugs or plugs the cable; the device model informs the driver. A NIC starts with its cable plugged in.
    pub fn plug(&self, on: bool) {
        self.set_aside(UNPLUGGED, !on);
        self.pairs.unplugged.store(!on, Ordering::SeqCst);
        if !on {
            self.pairs.closed_until.store(UNTIL_PLUGGED, Ordering::SeqCst);
            // Wakes threads that wait for room: there will be none, and their frames are lost.
            self.rouse_receivers();
        }
    }

    /// Returns true if the cable is unplugged.
    pub fn is_unplugged(&self) -> bool {
        self.pairs.is_unplugged()
    }

    /// Returns how many frames a closed NIC takes: a burst if the cable is unplugged, because the frames are lost then,
    /// else none.
    #[cold]
    pub(super) fn closed_room(&self) -> usize {
        if self.pairs.is_unplugged() { BURST } else { 0 }
    }
}

impl Pairs {
    pub(super) fn is_unplugged(&self) -> bool {
        self.unplugged.load(Ordering::SeqCst)
    }

    /// Stays closed when a driver comes or goes while the cable is unplugged. (Of this and [`NicQueues::plug`], the
    /// second one to run sees the first one's writes.)
    pub(super) fn stay_closed(&self) {
        if self.is_unplugged() {
            self.closed_until.store(UNTIL_PLUGGED, Ordering::SeqCst);
        }
    }
}

impl QueueSlot<TxQueue> {
    /// Takes frames from the ring and loses them; returns how many. They leave the ring, but do not count as moved.
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
