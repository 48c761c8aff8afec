//! Sleeping: `hlt` in ring 3 faults into the halt stub, which sleeps only if no interrupt came since the mailbox was
//! read. For a process, the kernel does the same with a futex.

use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, fence};

use bootinfo::{HALT_REQUEST, WAKE_REQUEST};

use crate::{boot, process};

/// The interrupt mailbox of one vCPU.
pub(crate) struct Mailbox {
    word: &'static AtomicU32,
}

impl Mailbox {
    /// Creates a mailbox over this word, which the host increments before each interrupt.
    pub(crate) fn new(word: &'static AtomicU32) -> Self {
        Self { word }
    }

    /// Returns the mailbox's value: read it before the last check for work, then call [`Mailbox::sleep`] with the value.
    pub(crate) fn seen(&self) -> u32 {
        self.word.load(Acquire)
    }

    /// Sleeps until the word differs from `seen`; it may also wake spuriously.
    pub(crate) fn sleep(&self, seen: u32) {
        if process::is_running() {
            return process::sleep(self.word, seen);
        }
        // SAFETY: in ring 3 `hlt` raises #GP; the stub checks eax, compares the word with esi, and returns behind
        // the instruction with all registers as they were.
        unsafe {
            asm!("hlt", in("eax") HALT_REQUEST, in("rdi") self.word.as_ptr(), in("esi") seen, options(nostack));
        }
    }
}

/// True if the first vCPU sleeps or is about to.
static FIRST_SLEEPS: AtomicBool = AtomicBool::new(false);

/// Declares that the first vCPU is about to sleep, after another check for work: from now on [`wake_first`] wakes it.
pub(crate) fn first_goes_to_sleep() {
    FIRST_SLEEPS.store(true, Relaxed);
    fence(SeqCst);
}

/// Wakes the first vCPU if it sleeps: there may be work for it.
pub(crate) fn wake_first() {
    fence(SeqCst);
    if FIRST_SLEEPS.swap(false, Relaxed) {
        let mailbox = &boot::shared().mailbox[0].0;
        mailbox.fetch_add(1, Release);
        if process::is_running() {
            return process::wake(mailbox);
        }
        // SAFETY: in ring 3 `hlt` raises #GP; the stub checks eax and returns behind the instruction with all registers
        // as they were.
        unsafe { asm!("hlt", in("eax") WAKE_REQUEST, options(nostack)) }
    }
}

/// Stops this vCPU permanently with an exception that the VMM reports; a process is killed by a signal.
pub(crate) fn die() -> ! {
    // SAFETY: raises #UD, for which ring 0 has a stub that never returns, and the kernel a fatal signal.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}

/// Reads the time-stamp counter.
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: has no precondition; ring 3 may read it (CR4.TSD is clear).
    unsafe { core::arch::x86_64::_rdtsc() }
}
