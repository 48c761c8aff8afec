//! The receive side of a NIC.

use std::sync::{Arc, PoisonError};

use ledger::NicDirection;
use nic::queue::{Lease, RxQueue};
use port::{Bell, Completed, Frame, Offloads, Sink, steer};
use ring::BURST;

use super::{NicQueues, ONE, QueueSlot};

/// Delivery of a burst to one pair.
impl NicQueues {
    /// Delivers at most a burst to one pair; returns how many frames were taken.
    #[inline]
    fn deliver_to(&self, pair: usize, frames: &[Frame<'_>]) -> usize {
        let Some(served) = self.rx.queues.get(pair) else { return 0 };
        let taken = if self.several_senders { fill_unlocked(served, frames) } else { fill(served, frames) };
        // The queue's lock is not held here.
        match taken {
            None => served.ledger.drop_not_running.add_shared(frames.len() as u64),
            Some(taken) if taken < frames.len() => {
                served.ledger.drop_no_buffer.add_shared((frames.len() - taken) as u64);
            }
            Some(_) => {}
        }
        taken.unwrap_or(0)
    }

    /// Counts offloads that were completed in software for frames to a pair.
    fn count_completed(&self, pair: usize, done: &Completed) {
        if let Some(served) = self.rx.queues.get(pair) {
            count(&served.ledger, done);
        }
    }

    /// Counts frames that arrive while the NIC is closed.
    #[cold]
    fn refuse(&self, frames: &[Frame<'_>]) -> usize {
        if let Some(served) = self.rx.queues.first() {
            served.ledger.drop_not_running.add_shared(frames.len() as u64);
        }
        0
    }
}

/// Fills buffers while holding the lock; `None` if the queue does not run.
#[inline]
fn fill(served: &QueueSlot<RxQueue>, frames: &[Frame<'_>]) -> Option<usize> {
    served.with(|running| {
        let filled = running.queue.fill(frames, &served.ledger);
        running.notifier.notify(filled.causes, filled.taken);
        filled.taken
    })
}

/// Reserves and commits while holding the lock, and copies without it; `None` if the queue does not run.
fn fill_unlocked(served: &QueueSlot<RxQueue>, frames: &[Frame<'_>]) -> Option<usize> {
    let mut lease = served.lease();
    let first = fill_lease(served, &mut lease, frames);
    let taken = first.map(|(mut taken, mut full)| {
        // One lease is usually enough, except for frames that fill many buffers each.
        while full {
            let rest = frames.get(taken..).unwrap_or(&[]);
            let (more, again) = fill_lease(served, &mut lease, rest).unwrap_or((0, false));
            taken += more;
            full = again && more > 0;
        }
        taken
    });
    served.return_lease(lease);
    taken
}

/// Fills one lease. Returns how many frames were handled, and whether the lease was too small for more of them.
#[inline(always)]
fn fill_lease(served: &QueueSlot<RxQueue>, lease: &mut Lease, frames: &[Frame<'_>]) -> Option<(usize, bool)> {
    let (taken, copying) = served.with(|running| {
        let taken = running.queue.plan(frames, lease, &served.ledger);
        (taken, served.copies.begin())
    })?;
    lease.copy(frames);
    let full = lease.is_full();
    let mut place = served.lock();
    copying.end();
    let committed = served.with_locked(&mut place, |running| {
        let owns = running.queue.owns(lease);
        if owns {
            let causes = running.queue.commit(lease, &served.ledger);
            running.notifier.notify(causes, taken);
        }
        owns
    });
    drop(place);
    if committed != Some(true) {
        // The driver has reset the device during the copy.
        served.ledger.drop_not_running.add_shared(taken as u64);
    }
    Some((taken, full))
}

/// Counts offloads that were completed in software for a NIC.
#[cold]
fn count(ledger: &NicDirection, done: &Completed) {
    ledger.done_checksum.add_shared(done.checksums);
    ledger.done_segmented.add_shared(done.segmented);
    ledger.done_segments.add_shared(done.segments);
    ledger.drop_bad_offload.add_shared(done.drop_bad_offload);
}

impl QueueSlot<RxQueue> {
    fn lease(&self) -> Lease {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn return_lease(&self, lease: Lease) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    fn room(&self) -> usize {
        self.with(|running| running.queue.room()).unwrap_or(0)
    }

    fn large_room(&self) -> usize {
        self.with(|running| running.queue.large_room()).unwrap_or(0)
    }

    /// Asks for a kick when buffers are posted; returns false if there is none now.
    fn arm_rx(&self) -> bool {
        self.fall_asleep();
        let full = self.with(|running| !running.queue.arm()) == Some(true);
        if full {
            self.ledger.sleeps.add(1);
        }
        !full
    }

    fn disarm_rx(&self) {
        self.clear_doorbell();
        self.with(|running| running.queue.disarm());
    }
}

/// Sink of all pairs, for one thread at a time: each frame goes to the pair of its flow.
pub(super) struct NicSink(pub(super) Arc<NicQueues>);

impl NicQueues {
    #[inline]
    fn deliver_by_flow(&self, frames: &[Frame<'_>]) -> usize {
        let Some(pairs) = self.pairs.open() else { return self.refuse(frames) };
        if pairs == ONE {
            return frames.chunks(BURST).map(|burst| self.deliver_to(0, burst)).sum();
        }
        let mut taken = 0;
        let deliver = |pair, group: &[Frame<'_>]| taken += self.deliver_to(pair, group);
        steer::by_flow(frames, pairs, self.pairs.hash(), deliver);
        taken
    }
}

/// Sink of all pairs, for several threads: they cannot wait for room, because one doorbell cannot wake them all.
pub(super) struct CommonSink(pub(super) Arc<NicQueues>);

impl Sink for CommonSink {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.deliver_by_flow(frames)
    }

    fn offloads(&self) -> Offloads {
        self.0.offloads()
    }

    fn completed(&self, done: &Completed) {
        self.0.count_completed(0, done);
    }
}

impl Sink for NicSink {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.deliver_by_flow(frames)
    }

    fn room(&self) -> usize {
        let Some(pairs) = self.0.pairs.open() else { return self.0.closed_room() };
        // With several queues, the next frame may go to any of them: the fullest one decides.
        self.0.rx.queues.iter().take(pairs).map(QueueSlot::room).min().unwrap_or(0)
    }

    fn large_room(&self) -> usize {
        let Some(pairs) = self.0.pairs.open() else { return self.0.closed_room() };
        self.0.rx.queues.iter().take(pairs).map(QueueSlot::large_room).min().unwrap_or(0)
    }

    fn arm(&self) -> bool {
        self.0.rx.queues.iter().for_each(|served| {
            served.arm_rx();
        });
        // No bell rings when the NIC opens again: a thread that waits for that has to poll.
        self.room() > 0 || self.0.pairs.open().is_none()
    }

    fn disarm(&self) {
        self.0.rx.queues.iter().for_each(QueueSlot::disarm_rx);
    }

    fn bell(&self) -> Bell<'_> {
        self.0.rx.bell()
    }

    fn offloads(&self) -> Offloads {
        self.0.offloads()
    }

    fn completed(&self, done: &Completed) {
        self.0.count_completed(0, done);
    }
}

/// Sink of one of several parts over which frames were spread by flow before: all its frames go to one pair.
pub(super) struct PartSink {
    queues: Arc<NicQueues>,
    part: usize,
    parts: usize,
}

impl PartSink {
    pub(super) fn new(queues: Arc<NicQueues>, part: usize, parts: usize) -> Self {
        let parts = parts.max(1);
        Self { queues, part: part.min(parts - 1), parts }
    }

    /// Returns its pair, which is less than `active`.
    #[inline(always)]
    fn pair(&self, active: usize) -> usize {
        // Divides only if the driver uses another number of pairs than expected.
        if active == self.parts { self.part } else { self.part * active / self.parts }
    }

    /// Returns its pair's queue; `None` while the NIC is closed.
    fn served(&self) -> Option<&QueueSlot<RxQueue>> {
        self.queues.rx.queues.get(self.pair(self.queues.pairs.open()?))
    }

    /// Returns the queue of the pair of the same number, whose doorbell belongs to this part.
    fn own(&self) -> Option<&QueueSlot<RxQueue>> {
        self.queues.rx.queues.get(self.part)
    }
}

impl Sink for PartSink {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let Some(active) = self.queues.pairs.open() else { return self.queues.refuse(frames) };
        let pair = self.pair(active);
        frames.chunks(BURST).map(|burst| self.queues.deliver_to(pair, burst)).sum()
    }

    fn room(&self) -> usize {
        self.served().map_or_else(|| self.queues.closed_room(), QueueSlot::room)
    }

    fn large_room(&self) -> usize {
        self.served().map_or_else(|| self.queues.closed_room(), QueueSlot::large_room)
    }

    fn arm(&self) -> bool {
        // No bell rings when the NIC opens again: a thread that waits for that has to poll.
        let Some(active) = self.queues.pairs.open() else { return true };
        if self.pair(active) == self.part {
            return self.own().is_some_and(|served| served.arm_rx() && served.is_running());
        }
        // The other pair's doorbell belongs to another thread. But a driver that starts, or changes the number of
        // pairs, causes all doorbells to ring.
        self.served().is_some_and(QueueSlot::is_running)
    }

    fn disarm(&self) {
        if let Some(own) = self.own() {
            own.disarm_rx();
        }
    }

    fn bell(&self) -> Bell<'_> {
        self.own().map_or(Bell::None, QueueSlot::bell)
    }

    fn offloads(&self) -> Offloads {
        self.queues.offloads()
    }

    fn completed(&self, done: &Completed) {
        self.queues.count_completed(self.part, done);
    }
}
