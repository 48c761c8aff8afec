//! Sink that can be closed: threads that deliver to it block until it opens again. A guest that transmits within its
//! register access thus stands still between slices, as other guests do because their ring is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use frame::offload::Offloads;
use port::{Frame, Sink};

/// Gate in front of an inner sink; see the module documentation.
pub(crate) struct Gate {
    behind: Arc<dyn Sink>,
    /// Offload metadata that frames may carry to the inner sink.
    takes: Offloads,
    open: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// Creates a closed gate in front of a sink; frames may carry no pending offloads.
    pub(crate) fn new(behind: Arc<dyn Sink>) -> Arc<Self> {
        Self::leaving(Offloads::NONE, behind)
    }

    /// Creates a closed gate in front of a sink; frames may carry those of `offloads` that the sink supports.
    pub(crate) fn leaving(offloads: Offloads, behind: Arc<dyn Sink>) -> Arc<Self> {
        let takes = (behind.offloads() & offloads).consistent();
        Arc::new(Self {
            behind,
            takes,
            open: AtomicBool::new(false),
            lock: Mutex::default(),
            opened: Condvar::new(),
        })
    }

    /// Opens or closes the gate.
    pub(crate) fn set(&self, open: bool) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.store(open, Ordering::Release);
        self.opened.notify_all();
    }

    #[cold]
    fn wait(&self) {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.open.load(Ordering::Acquire) {
            held = self.opened.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Sink for Gate {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        if !self.open.load(Ordering::Acquire) {
            self.wait();
        }
        self.behind.deliver(frames)
    }

    fn room(&self) -> usize {
        self.behind.room()
    }

    fn large_room(&self) -> usize {
        self.behind.large_room()
    }

    fn offloads(&self) -> Offloads {
        self.takes
    }
}

/// Guard that opens a gate when dropped, so that no thread stays blocked.
pub(crate) struct OpenOnDrop(pub(crate) Arc<Gate>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[cfg(test)]
mod tests;
