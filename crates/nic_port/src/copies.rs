//! Copies of frames into a guest's buffers that are made without the lock of their queue, where several threads deliver.
//!
//! ```text
//!   sender:  lock, reserve buffers, begin, unlock --> copy --> end --> lock, commit
//!   driver:  lock, remove the queue, unlock --> await the end of every copy --> use the buffers for something else
//! ```
//!
//! A device does not touch buffers any more once its reset is complete (virtio 1.2, section 2.4.1), so the thread that
//! removes a queue waits for the copies into its buffers. No copy can begin meanwhile, because each one begins under the
//! lock of a queue that runs. One takes microseconds, unless its thread loses its CPU.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Maximum time to wait: a thread that has not ended its copy then may never do so, and this one must not wait as long.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// Bit of the count: a thread waits for the end of all copies.
const AWAITED: u32 = 1 << 31;

/// Copies in progress into the buffers of one queue.
pub(super) struct CopiesInProgress {
    /// Number of copies, and [`AWAITED`].
    count: AtomicU32,
    longest: Duration,
    /// Held by the thread that waits, except while it sleeps.
    lock: Mutex<()>,
    none_left: Condvar,
}

/// One copy, which ends when this is dropped.
pub(super) struct Copying<'c>(&'c CopiesInProgress);

impl CopiesInProgress {
    /// Creates the state of a queue without copies, which are awaited for at most this long.
    pub(super) const fn within(longest: Duration) -> Self {
        Self { count: AtomicU32::new(0), longest, lock: Mutex::new(()), none_left: Condvar::new() }
    }

    /// Begins a copy; the caller holds the lock of the queue.
    #[inline(always)]
    pub(super) fn begin(&self) -> Copying<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Copying(self)
    }

    /// Waits for the end of all copies; to be called by one thread at a time, after it has removed the queue.
    pub(super) fn await_end(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_or(AWAITED, Ordering::AcqRel);
        let goes_on = |_: &mut ()| self.count.load(Ordering::Acquire) != AWAITED;
        let waited = self.none_left.wait_timeout_while(guard, self.longest, goes_on);
        self.count.fetch_and(!AWAITED, Ordering::AcqRel);
        drop(waited);
    }

    /// Returns true if a thread waits.
    #[cfg(test)]
    pub(super) fn is_awaited(&self) -> bool {
        self.count.load(Ordering::Acquire) & AWAITED != 0
    }
}

impl Drop for Copying<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == AWAITED + 1 {
            self.0.wake();
        }
    }
}

impl CopiesInProgress {
    /// Wakes the thread that waits: once this has got the lock, that thread sleeps, or has seen that no copy is left.
    #[cold]
    fn wake(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.none_left.notify_all();
    }
}
