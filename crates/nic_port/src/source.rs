//! The transmit side of a NIC.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::queue::TxQueue;
use port::{Bell, Frame, Offloads, Source};

use super::{NicQueues, QueueSlot, StoreCoalescing, borrow};
use crate::irq::InterruptTimer;

impl QueueSlot<TxQueue> {
    #[inline]
    pub(super) fn drain(&self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let drained = self.with(|running| {
            let drained = running.queue.drain(budget, &self.ledger, take);
            running.notifier.notify(drained.causes, drained.frames);
            drained.frames
        });
        drained.unwrap_or(0)
    }

    /// Asks for a kick when frames arrive; returns true if some wait.
    fn arm_tx(&self) -> bool {
        self.fall_asleep();
        let ready = self.with(|running| running.queue.arm()).unwrap_or(false);
        if !ready {
            self.ledger.sleeps.add(1);
        }
        ready
    }

    /// Sets the offloads that the next port accepts.
    pub(super) fn set_sink_offloads(&self, takes: Offloads) {
        self.with(|running| running.queue.set_sink_offloads(takes));
    }

    fn disarm_tx(&self) {
        self.clear_doorbell();
        self.with(|running| running.queue.disarm());
    }

    /// The thread is awake, but must not take the frames: the driver's doorbell stays armed.
    fn leave_armed(&self) {
        self.clear_doorbell();
    }
}

/// Duties beside the rings: timers of interrupts, and coalesced register stores. The thread that serves the rings
/// performs these too, whether there are frames to send or not.
impl NicQueues {
    /// Called in each pass of the thread that serves these pairs. If frames are sent within accesses, returns how many
    /// were sent here that an access had delegated.
    #[inline(always)]
    fn run_side_work(&self, pairs: Range<usize>) -> Option<usize> {
        self.timers(pairs.clone()).iter().for_each(|timer| timer.serve());
        if let Some(collector) = self.collector(&pairs) {
            collector.look();
        }
        self.transmits_in_access().then(|| self.send_rests(pairs))
    }

    fn send_rests(&self, pairs: Range<usize>) -> usize {
        let end = pairs.end.min(self.tx.queues.len());
        (pairs.start..end).map(|pair| self.send_rest(pair)).sum()
    }

    /// Returns the timers of interrupts of these pairs.
    #[inline(always)]
    fn timers(&self, pairs: Range<usize>) -> &[Arc<dyn InterruptTimer>] {
        let end = pairs.end.min(self.timers.len());
        self.timers.get(pairs.start..end).unwrap_or(&[])
    }

    /// Returns the coalescing of stores, which belongs to pair 0: a thread that serves other pairs has nothing to do
    /// with it.
    #[inline(always)]
    fn collector(&self, pairs: &Range<usize>) -> Option<&dyn StoreCoalescing> {
        self.collector.as_deref().filter(|_| pairs.contains(&0))
    }

    #[inline(always)]
    fn drain_of(&self, pair: usize, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let shown = self.send(pair, budget, take);
        if let Some(collector) = self.collector.as_ref().filter(|_| shown > 0) {
            collector.worked();
        }
        shown
    }

    /// Call before the rings are armed; returns true if the thread must not sleep yet. Arms the timers in any case,
    /// because the thread also sleeps when frames have no room.
    fn arm_around(&self, pairs: Range<usize>) -> bool {
        self.timers(pairs.clone()).iter().for_each(|timer| timer.arm());
        self.collector(&pairs).is_some_and(|collector| !collector.rest())
    }

    fn disarm_around(&self, pairs: Range<usize>) {
        self.timers(pairs).iter().for_each(|timer| timer.disarm());
    }

    /// A thread starts to serve these pairs.
    fn enter(&self, pairs: Range<usize>) {
        self.timers(pairs).iter().for_each(|timer| timer.begin());
    }

    /// The thread stops serving these pairs.
    fn leave(&self, pairs: Range<usize>) {
        self.timers(pairs.clone()).iter().for_each(|timer| timer.end());
        if let Some(collector) = self.collector(&pairs) {
            collector.end();
        }
    }
}

/// Range that covers every possible pair.
const ALL: Range<usize> = 0..usize::MAX;

/// Source of all pairs, in round-robin order.
pub(super) struct NicSource {
    queues: Arc<NicQueues>,
    /// The next pair to serve.
    next: usize,
}

impl NicSource {
    pub(super) fn new(queues: Arc<NicQueues>) -> Self {
        queues.enter(ALL);
        Self { queues, next: 0 }
    }
}

impl Source for NicSource {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if let Some(sent) = self.queues.run_side_work(ALL) {
            return sent;
        }
        let pairs = self.queues.pairs.served.load(Ordering::Acquire);
        for _ in 0..pairs {
            let pair = if self.next < pairs { self.next } else { 0 };
            self.next = pair + 1;
            let shown = self.queues.drain_of(pair, budget, take);
            if shown > 0 {
                return shown;
            }
        }
        0
    }

    fn arm(&mut self) -> bool {
        if self.queues.arm_around(ALL) {
            return true;
        }
        if self.queues.transmits_in_access() {
            return self.queues.has_delegated(ALL);
        }
        // Without short-circuit: each of them must be armed.
        self.queues.tx.queues.iter().fold(false, |ready, served| served.arm_tx() | ready)
    }

    fn disarm(&mut self) {
        self.queues.disarm_around(ALL);
        let awake =
            if self.queues.transmits_in_access() { QueueSlot::leave_armed } else { QueueSlot::disarm_tx };
        self.queues.tx.queues.iter().for_each(awake);
    }

    fn bell(&self) -> Bell<'_> {
        self.queues.tx.bell()
    }

    fn tend(&mut self) {
        self.queues.run_side_work(ALL);
    }

    fn timer(&self) -> Bell<'_> {
        self.queues.any_timer.as_ref().map_or(Bell::None, |any| Bell::Readable(borrow(any)))
    }

    fn set_sink_offloads(&mut self, takes: Offloads) {
        self.queues.tx.queues.iter().for_each(|served| served.set_sink_offloads(takes));
    }
}

impl Drop for NicSource {
    fn drop(&mut self) {
        self.queues.leave(ALL);
    }
}

/// Source of one pair.
pub(super) struct PairSource {
    queues: Arc<NicQueues>,
    pair: usize,
}

impl PairSource {
    pub(super) fn new(queues: Arc<NicQueues>, pair: usize) -> Self {
        queues.enter(pair..pair + 1);
        Self { queues, pair }
    }

    #[inline(always)]
    fn served(&self) -> Option<&QueueSlot<TxQueue>> {
        self.queues.tx.queues.get(self.pair)
    }

    #[inline(always)]
    fn range(&self) -> Range<usize> {
        self.pair..self.pair + 1
    }
}

impl Source for PairSource {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if let Some(sent) = self.queues.run_side_work(self.range()) {
            return sent;
        }
        self.queues.drain_of(self.pair, budget, take)
    }

    fn arm(&mut self) -> bool {
        if self.queues.arm_around(self.range()) {
            return true;
        }
        if self.queues.transmits_in_access() {
            return self.queues.has_delegated(self.range());
        }
        self.served().is_some_and(QueueSlot::arm_tx)
    }

    fn disarm(&mut self) {
        self.queues.disarm_around(self.range());
        let awake =
            if self.queues.transmits_in_access() { QueueSlot::leave_armed } else { QueueSlot::disarm_tx };
        self.served().into_iter().for_each(awake);
    }

    fn bell(&self) -> Bell<'_> {
        match self.queues.alone.get(self.pair) {
            Some(any) => Bell::Readable(borrow(any)),
            None => self.served().map_or(Bell::None, QueueSlot::bell),
        }
    }

    fn tend(&mut self) {
        self.queues.run_side_work(self.range());
    }

    fn timer(&self) -> Bell<'_> {
        let timer = self.queues.timers(self.range()).first();
        timer.map_or(Bell::None, |timer| Bell::Readable(timer.bell()))
    }

    fn set_sink_offloads(&mut self, takes: Offloads) {
        if let Some(served) = self.served() {
            served.set_sink_offloads(takes);
        }
    }
}

impl Drop for PairSource {
    fn drop(&mut self) {
        self.queues.leave(self.range());
    }
}
