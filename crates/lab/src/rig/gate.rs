//! A sink that can be closed: who delivers to it waits until it is open again. So a guest whose frames leave inside of its
//! register access stands still between slices, as it does elsewhere because its ring is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use frame::offload::Offloads;
use port::{Frame, Sink};

/// See the head of this file.
pub(crate) struct Gate {
    behind: Arc<dyn Sink>,
    /// What frames may leave to who is behind.
    takes: Offloads,
    open: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// A closed gate before a sink, which frames may leave nothing to.
    pub(crate) fn new(behind: Arc<dyn Sink>) -> Arc<Self> {
        Self::leaving(Offloads::NONE, behind)
    }

    /// A closed gate before a sink, which frames may leave so much of what it takes to.
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

    /// Opens or closes it.
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

/// Opens a gate when it goes, so that nobody waits at it for ever.
pub(crate) struct Keeper(pub(crate) Arc<Gate>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[cfg(test)]
mod tests;
