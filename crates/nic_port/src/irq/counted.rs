//! Test support: an interrupt line that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmm_sys_util::eventfd::EventFd;

use super::Line;

/// Number of interrupts sent.
#[derive(Default)]
pub(crate) struct Counted(AtomicU64);

impl Counted {
    /// Returns how many interrupts were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Returns how many interrupts were sent since the last call.
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

/// Creates a line, and the counter of its interrupts.
pub(crate) fn line() -> (Arc<dyn Line>, Arc<Counted>) {
    let counted = Arc::<Counted>::default();
    (counted.clone(), counted)
}
