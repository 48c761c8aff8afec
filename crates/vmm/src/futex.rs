//! Wakes a thread of another process that sleeps on a word in shared memory.

use std::sync::atomic::AtomicU32;

use rustix::thread::futex;

/// Wakes all threads that sleep on `word`, in any process that maps it. Change the word first: a sleeper
/// checks it once more before it sleeps.
pub(crate) fn wake(word: &AtomicU32) {
    // Not FUTEX_PRIVATE: the sleeper is in another process. The word is mapped, so the call cannot fail.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
