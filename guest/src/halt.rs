//! Sleeping: `hlt` in ring 3 faults into the halt stub, which sleeps only if no interrupt came since we looked. The
//! kernel does the same for a process.

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

/// Whether the first vCPU sleeps, or is about to.
static FIRST_SLEEPS: AtomicBool = AtomicBool::new(false);

/// The first vCPU is about to sleep, and will look once more whether there is work: from now on [`wake_first`] wakes it.
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
