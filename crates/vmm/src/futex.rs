//! Waking a thread of another process that sleeps on a word of shared memory.

use std::sync::atomic::AtomicU32;

use rustix::thread::futex;

/// Wakes whoever sleeps on `word`, in any process that maps it. Change the word first: a sleeper looks at it once more
/// before it sleeps.
pub(crate) fn wake(word: &AtomicU32) {
    // Not the private kind: the sleeper is in another process. The word is there, so nothing can be refused.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
