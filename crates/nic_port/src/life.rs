//! Installation and removal of queues, in the thread of the vCPU that wrote the register, and access to those that run.

use nic::e1000::{RxSettings, TxSettings};
use nic::queue::{RxQueue, TxQueue};
use ring::split::Broken;

use super::published_error::Breakable;
use super::{NicQueues, Notifier, QueueSlot, Running};

impl<Q: Breakable> QueueSlot<Q> {
    /// Calls `act` with the queue, if it runs; publishes a breakage.
    #[inline(always)]
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Running<Q>) -> R) -> Option<R> {
        self.with_locked(&mut self.lock(), act)
    }

    /// As [`Self::with`], for a caller that holds the lock.
    #[inline(always)]
    pub(super) fn with_locked<R>(
        &self,
        place: &mut Option<Running<Q>>,
        act: impl FnOnce(&mut Running<Q>) -> R,
    ) -> Option<R> {
        let running = place.as_mut()?;
        let done = act(running);
        if let Some(broken) = running.queue.breakage() {
            self.published_error.publish(broken);
        }
        Some(done)
    }

    /// Removes the queue, if there is one, and installs another one, if given. Waits for a thread that is in the middle
    /// of a burst, also if it copies the burst without holding the lock. Returns the removed queue.
    pub(super) fn replace(&self, running: Option<Running<Q>>) -> Option<Running<Q>> {
        let mut place = self.lock();
        // A refused ring has no queue, and its breakage stays until the driver sets up another ring.
        if running.is_some() || place.is_some() {
            self.published_error.clear();
        }
        let removed = std::mem::replace(&mut *place, running);
        if removed.is_some() && self.copies.expect_end() {
            drop(place);
            self.copies.await_end();
            let _place = self.lock();
            self.copies.expect_nothing();
        }
        removed
    }

    /// Refuses a ring that cannot be mapped: counts that once, and serves nothing.
    fn refuse(&self) {
        self.replace(None);
        self.published_error.publish(Broken::Address);
        self.ledger.drop_bad_ring.add_shared(1);
    }
}

impl NicQueues {
    /// Removes all queues: no thread accesses the guest's rings afterwards.
    pub fn stop(&self) {
        self.stop_transmit();
        self.stop_receive();
    }

    /// Removes the transmit queues.
    pub fn stop_transmit(&self) {
        for served in &self.tx.queues {
            served.replace(None);
        }
    }

    /// Removes the receive queues.
    pub fn stop_receive(&self) {
        for served in &self.rx.queues {
            served.replace(None);
        }
        self.pairs.reset(self.rx_ledger().frames.get());
    }
}

/// For NICs with one pair, whose two queues come and go independently.
impl NicQueues {
    /// Starts serving this transmit queue; its server polls.
    pub fn start_transmit(&self, mut queue: TxQueue, loopback: bool, notifier: Notifier) {
        self.set_loopback(loopback);
        queue.disarm();
        if let Some(served) = self.tx.queues.first() {
            served.replace(Some(Running { queue, notifier }));
        }
    }

    /// Starts serving this receive queue; its server polls.
    pub fn start_receive(&self, mut queue: RxQueue, notifier: Notifier) {
        queue.disarm();
        if let Some(served) = self.rx.queues.first() {
            served.replace(Some(Running { queue, notifier }));
        }
    }

    /// Refuses a transmit ring that does not lie in guest memory.
    pub fn refuse_transmit(&self) {
        self.tx.queues.iter().take(1).for_each(QueueSlot::refuse);
    }

    /// Refuses a receive ring that does not lie in guest memory.
    pub fn refuse_receive(&self) {
        self.rx.queues.iter().take(1).for_each(QueueSlot::refuse);
    }

    /// Changes the settings for transmission from now on.
    pub fn change_transmit(&self, settings: TxSettings) {
        self.set_loopback(settings.loopback);
        if let Some(served) = self.tx.queues.first() {
            served.with(|running| match &mut running.queue {
                TxQueue::E1000(queue) => queue.change(settings),
                TxQueue::VirtioNet(_) => {}
            });
        }
    }

    /// Changes the settings for reception from now on.
    pub fn change_receive(&self, settings: RxSettings) {
        if let Some(served) = self.rx.queues.first() {
            served.with(|running| match &mut running.queue {
                RxQueue::E1000(queue) => queue.change(settings),
                RxQueue::VirtioNet(_) => {}
            });
        }
    }
}
