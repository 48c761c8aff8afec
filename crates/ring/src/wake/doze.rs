//! A doorbell that is a register access: whoever carries it out rings only if who serves the ring sleeps, or is about to.
//!
//! ```text
//!   who serves the ring                        who carries the access out
//!   asleep = true                              the end of the ring moves
//!   -- fence --                                -- fence --
//!   looks at the ring once more                asleep? then rings
//! ```
//!
//! One of both sees what the other has written (store, full fence, load on either side), so that no end of a ring that
//! has moved is slept over.

use core::sync::atomic::{AtomicBool, Ordering, fence};

/// The one word of both.
pub trait Flag {
    /// Writes it; nothing else need become visible with it.
    fn set(&self, asleep: bool);

    /// Reads it.
    fn is_set(&self) -> bool;

    /// What was written before is seen by everybody who, after a fence of his own, reads.
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

/// Whether who serves a ring sleeps.
#[derive(Debug, Default)]
pub struct Doze<F: Flag = AtomicBool>(F);

impl<F: Flag> Doze<F> {
    /// Both ends with this word; who serves the ring is awake.
    pub const fn new(flag: F) -> Self {
        Self(flag)
    }

    /// Says that the thread that serves the ring is about to sleep; after this it looks at the ring once more.
    #[inline(always)]
    pub fn fall_asleep(&self) {
        self.0.set(true);
        F::full_fence();
    }

    /// The end of the ring has moved: whether to ring.
    #[inline(always)]
    pub fn wants_news(&self) -> bool {
        F::full_fence();
        self.0.is_set()
    }

    /// Says that the thread that serves the ring polls again.
    #[inline(always)]
    pub fn wake(&self) {
        self.0.set(false);
    }
}
