//! Why a queue stopped, told by the thread that serves it to those who must not wait for it.

use std::sync::atomic::{AtomicU8, Ordering};

use nic::queue::{RxQueue, TxQueue};
use ring::split::Broken;

/// What may stop because its driver broke a rule.
pub(super) trait Breakable {
    /// Why it stopped, if it did.
    fn breakage(&self) -> Option<Broken>;
}

impl Breakable for RxQueue {
    #[inline(always)]
    fn breakage(&self) -> Option<Broken> {
        self.broken()
    }
}

impl Breakable for TxQueue {
    #[inline(always)]
    fn breakage(&self) -> Option<Broken> {
        self.broken()
    }
}

/// A queue's breakage, published: 0, or a [`Broken`] and 1.
#[derive(Default)]
pub(super) struct Breakage(AtomicU8);

impl Breakage {
    /// By whoever holds the queue.
    #[cold]
    pub(super) fn publish(&self, broken: Broken) {
        self.0.store(broken as u8 + 1, Ordering::Release);
    }

    /// Another queue is in its place.
    pub(super) fn mend(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Why the queue stopped, if it did.
    pub(super) fn read(&self) -> Option<Broken> {
        let code = self.0.load(Ordering::Acquire);
        Broken::ALL.into_iter().find(|broken| *broken as u8 + 1 == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_until_another_queue_comes() {
        let breakage = Breakage::default();
        assert_eq!(breakage.read(), None);
        for broken in Broken::ALL {
            breakage.publish(broken);
            assert_eq!(breakage.read(), Some(broken));
        }
        breakage.mend();
        assert_eq!(breakage.read(), None);
    }
}
