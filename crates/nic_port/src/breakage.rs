//! Reason why a queue stopped, published by the thread that serves it to threads that must not wait for it.

use std::sync::atomic::{AtomicU8, Ordering};

use nic::queue::{RxQueue, TxQueue};
use ring::split::Broken;

/// A queue that may stop because its driver broke a rule.
pub(super) trait Breakable {
    /// Returns the reason why it stopped, if it did.
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

/// Published reason: 0, or a [`Broken`] plus 1.
#[derive(Default)]
pub(super) struct Breakage(AtomicU8);

impl Breakage {
    /// Publishes the reason; called by the thread that holds the queue.
    #[cold]
    pub(super) fn publish(&self, broken: Broken) {
        self.0.store(broken as u8 + 1, Ordering::Release);
    }

    /// Clears the reason, because another queue has taken its place.
    pub(super) fn mend(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Returns the reason why the queue stopped, if it did.
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
