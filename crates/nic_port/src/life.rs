//! How queues come and go, in the thread of the vCPU that wrote the register.

use nic::e1000::{RxSettings, TxSettings};
use nic::queue::{RxQueue, TxQueue};
use ring::split::Broken;

use super::breakage::Breakable;
use super::{NicQueues, Notifier, Running, Served};

impl<Q: Breakable> Served<Q> {
    /// Takes the queue out, if there is one, and puts another one in, if there is one. Who is in the middle of a burst
    /// finishes it before. Returns what was there.
    pub(super) fn replace(&self, running: Option<Running<Q>>) -> Option<Running<Q>> {
        let mut place = self.lock();
        // A ring that was refused has no queue, and stays so until the driver has another one.
        if running.is_some() || place.is_some() {
            self.breakage.mend();
        }
        std::mem::replace(&mut *place, running)
    }

    /// The driver wants a ring that cannot be: counted once, and nothing is served.
    fn refuse(&self) {
        self.replace(None);
        self.breakage.publish(Broken::Address);
        self.ledger.drop_bad_ring.add_shared(1);
    }
}

impl NicQueues {
    /// Takes all queues out: nobody uses the guest's rings after this.
    pub fn stop(&self) {
        self.stop_transmit();
        self.stop_receive();
    }

    /// Takes the transmit queues out.
    pub fn stop_transmit(&self) {
        for served in &self.tx.queues {
            served.replace(None);
        }
    }

    /// Takes the receive queues out.
    pub fn stop_receive(&self) {
        for served in &self.rx.queues {
            served.replace(None);
        }
        self.pairs.reset(self.rx_ledger().frames.get());
    }
}

/// Where there is one pair, whose queues come and go by themselves.
impl NicQueues {
    /// Serves this transmit queue from now on; who serves it polls.
    pub fn start_transmit(&self, mut queue: TxQueue, loopback: bool, notifier: Notifier) {
        self.set_loopback(loopback);
        queue.disarm();
        if let Some(served) = self.tx.queues.first() {
            served.replace(Some(Running { queue, notifier }));
        }
    }

    /// Serves this receive queue from now on; who serves it polls.
    pub fn start_receive(&self, mut queue: RxQueue, notifier: Notifier) {
        queue.disarm();
        if let Some(served) = self.rx.queues.first() {
            served.replace(Some(Running { queue, notifier }));
        }
    }

    /// The transmit ring that the driver wants does not lie in its memory.
    pub fn refuse_transmit(&self) {
        self.tx.queues.iter().take(1).for_each(Served::refuse);
    }

    /// The receive ring that the driver wants does not lie in its memory.
    pub fn refuse_receive(&self) {
        self.rx.queues.iter().take(1).for_each(Served::refuse);
    }

    /// Transmits by other settings from now on.
    pub fn change_transmit(&self, settings: TxSettings) {
        self.set_loopback(settings.loopback);
        if let Some(served) = self.tx.queues.first() {
            served.with(|running| match &mut running.queue {
                TxQueue::E1000(queue) => queue.change(settings),
                TxQueue::VirtioNet(_) => {}
            });
        }
    }

    /// Receives by other settings from now on.
    pub fn change_receive(&self, settings: RxSettings) {
        if let Some(served) = self.rx.queues.first() {
            served.with(|running| match &mut running.queue {
                RxQueue::E1000(queue) => queue.change(settings),
                RxQueue::VirtioNet(_) => {}
            });
        }
    }
}
