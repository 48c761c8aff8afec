//! Sleeping: `hlt` in ring 3 faults into the halt stub, which sleeps only if no interrupt came since we looked. The
//! kernel does the same for a process.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};

use bootinfo::HALT_REQUEST;

use crate::process;

/// The interrupt mailbox of one vCPU.
pub(crate) struct Mailbox {
    word: &'static AtomicU32,
}

impl Mailbox {
    /// A mailbox over this word, which the host bumps before each interrupt.
    pub(crate) fn new(word: &'static AtomicU32) -> Self {
        Self { word }
    }

    /// What it holds: look before the last look for work, then [`Mailbox::sleep`] with the value.
    pub(crate) fn seen(&self) -> u32 {
        self.word.load(Acquire)
    }

    /// Sleeps until the word differs from `seen`, or for no reason at all.
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

/// Stops this vCPU for good with an exception that the VMM reports; a process ends by a signal.
pub(crate) fn die() -> ! {
    // SAFETY: raises #UD, for which ring 0 has a stub that never comes back, and the kernel a deadly signal.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}

/// The time-stamp counter.
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: has no precondition; ring 3 may read it (CR4.TSD is clear).
    unsafe { core::arch::x86_64::_rdtsc() }
}
