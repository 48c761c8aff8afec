//! Waking a thread of another process that sleeps on a word of shared memory.

use std::ptr;
use std::sync::atomic::AtomicU32;

/// Wakes whoever sleeps on `word`, in any process that maps it. Change the word first: a sleeper looks at it once more
/// before it sleeps.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the address is that of a live word, and waking does not change it. Not the private kind: the sleeper is
    // in another process.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            ptr::from_ref(word),
            libc::FUTEX_WAKE,
            i32::MAX,
            ptr::null::<libc::timespec>(),
            ptr::null::<u32>(),
            0,
        )
    };
}
