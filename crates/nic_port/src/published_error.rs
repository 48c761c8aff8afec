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
pub(super) struct PublishedError(AtomicU8);

impl PublishedError {
    /// Publishes the reason; called by the thread that holds the queue.
    #[cold]
    pub(super) fn publish(&self, broken: Broken) {
        self.0.store(broken as u8 + 1, Ordering::Release);
    }

    /// Clears the reason, because another queue has taken its place.
    pub(super) fn clear(&self) {
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
        let published_error = PublishedError::default();
        assert_eq!(published_error.read(), None);
        for broken in Broken::ALL {
            published_error.publish(broken);
            assert_eq!(published_error.read(), Some(broken));
        }
        published_error.clear();
        assert_eq!(published_error.read(), None);
    }
}
