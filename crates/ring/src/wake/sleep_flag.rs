//! A doorbell that is a register access: the thread that handles the access rings only if the thread that serves the
//! ring sleeps, or is about to sleep.
//!
//! ```text
//!   thread that serves the ring                thread that handles the register access
//!   asleep = true                              moves the ring's end
//!   -- fence --                                -- fence --
//!   polls the ring once more                   asleep? then rings
//! ```
//!
//! At least one of the two sees the other's write (store, full fence, load on either side), so that the serving thread
//! never sleeps through a ring end that has moved.

use core::sync::atomic::{AtomicBool, Ordering, fence};

/// The word that both threads share.
pub trait Flag {
    /// Writes the word; orders no other writes (relaxed).
    fn set(&self, asleep: bool);

    /// Reads the word.
    fn is_set(&self) -> bool;

    /// Full fence: earlier writes are visible to every thread that reads after a fence of its own.
    fn full_fence();
}

impl Flag for AtomicBool {
    #[inline(always)]
    fn set(&self, asleep: bool) {
        self.store(asleep, Ordering::Relaxed);
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// Says whether the thread that serves a ring sleeps.
#[derive(Debug, Default)]
pub struct SleepFlag<F: Flag = AtomicBool>(F);

impl<F: Flag> SleepFlag<F> {
    /// Creates the state from a word; the serving thread is awake.
    pub const fn new(flag: F) -> Self {
        Self(flag)
    }

    /// Announces that the serving thread is about to sleep; it must poll the ring once more after this call.
    #[inline(always)]
    pub fn fall_asleep(&self) {
        self.0.set(true);
        F::full_fence();
    }

    /// Call after moving the ring's end: returns true if the serving thread must be rung.
    #[inline(always)]
    pub fn must_ring(&self) -> bool {
        F::full_fence();
        self.0.is_set()
    }

    /// Announces that the serving thread polls again.
    #[inline(always)]
    pub fn wake(&self) {
        self.0.set(false);
    }
}
