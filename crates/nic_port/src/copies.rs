//! Copies of frames into a guest's buffers that are made without the lock of their queue, where several threads deliver.
//!
//! ```text
//!   sender:  lock, reserve buffers, begin, unlock --> copy --> lock, end, commit
//!   driver:  lock, remove the queue, unlock --> await the end of every copy --> use the buffers for something else
//! ```
//!
//! Both ends of a copy are noted under the lock that is held there anyway, so they cost no atomic operation.
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
    /// Number of copies, and [`AWAITED`]; changed under the lock of the queue.
    count: AtomicU32,
    longest: Duration,
    /// Held by the thread that waits, except while it sleeps.
    lock: Mutex<()>,
    none_left: Condvar,
}

/// One copy. It ends by [`Copying::end`], or when this is dropped, because its thread panics.
pub(super) struct Copying<'c>(&'c CopiesInProgress);

impl CopiesInProgress {
    /// Creates the state of a queue without copies, which are awaited for at most this long.
    pub(super) const fn within(longest: Duration) -> Self {
        Self { count: AtomicU32::new(0), longest, lock: Mutex::new(()), none_left: Condvar::new() }
    }

    /// Begins a copy; the caller holds the lock of the queue.
    #[inline(always)]
    pub(super) fn begin(&self) -> Copying<'_> {
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Copying(self)
    }

    /// Announces a wait for the end of all copies, one at a time, by a thread that has removed the queue and still holds its
    /// lock. Returns false if there is no copy.
    pub(super) fn expect_end(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count != 0 {
            self.count.store(count | AWAITED, Ordering::Relaxed);
        }
        count != 0
    }

    /// Waits for the end of all copies, after [`Self::expect_end`] and without the lock of the queue.
    pub(super) fn await_end(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |_: &mut ()| self.count.load(Ordering::Acquire) != AWAITED;
        drop(self.none_left.wait_timeout_while(guard, self.longest, goes_on));
    }

    /// Ends the wait; the caller holds the lock of the queue again.
    pub(super) fn expect_nothing(&self) {
        self.count.store(self.count.load(Ordering::Relaxed) & !AWAITED, Ordering::Relaxed);
    }

    /// Returns true if a thread waits.
    #[cfg(test)]
    pub(super) fn is_awaited(&self) -> bool {
        self.count.load(Ordering::Acquire) & AWAITED != 0
    }
}

impl Copying<'_> {
    /// Ends the copy; the caller holds the lock of the queue.
    #[inline(always)]
    pub(super) fn end(self) {
        let count = self.0.count.load(Ordering::Relaxed) - 1;
        self.0.count.store(count, Ordering::Release);
        if count == AWAITED {
            self.0.wake();
        }
        std::mem::forget(self);
    }
}

impl Drop for Copying<'_> {
    #[cold]
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
