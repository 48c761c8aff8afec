//! A line that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmm_sys_util::eventfd::EventFd;

use super::Line;

/// Interrupts that were sent.
#[derive(Default)]
pub(crate) struct Counted(AtomicU64);

impl Counted {
    /// How many there were.
    pub(crate) fn sent(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// How many there were since the last call.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

impl Line for Counted {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn event(&self) -> Option<&EventFd> {
        None
    }
}

/// A line, and what counts its interrupts.
pub(crate) fn line() -> (Arc<dyn Line>, Arc<Counted>) {
    let counted = Arc::<Counted>::default();
    (counted.clone(), counted)
}
