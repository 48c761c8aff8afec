//! The word that two threads of a model share.

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use ring::combine::Word;

/// A shared word, with or without its fence.
pub(crate) struct Shared<const FENCE: bool>(AtomicU32);

impl<const FENCE: bool> Shared<FENCE> {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl<const FENCE: bool> Word for Shared<FENCE> {
    fn read(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn write(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }

    fn exchange(&self, from: u32, to: u32) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn full_fence() {
        if FENCE {
            fence(Ordering::SeqCst);
        }
    }
}
