//! Signal that interrupts a blocking call of a thread of this process: a vCPU in its guest, or a thread that
//! blocks in a write to a descriptor which its owner does not read. The handler does nothing; the call fails
//! with EINTR.

use std::ffi::c_void;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use libc::siginfo_t;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

/// Number of the signal, once its handler is installed; `None` if that failed: then no signal is sent, since
/// it would end the process.
pub fn signal() -> Option<i32> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    *INSTALLED.get_or_init(|| register_signal_handler(SIGRTMIN(), nothing).is_ok().then(SIGRTMIN))
}

extern "C" fn nothing(_: i32, _: *mut siginfo_t, _: *mut c_void) {}

/// Number of the calling thread.
pub fn this_thread() -> i32 {
    thread_local!(static NUMBER: i32 = rustix::thread::gettid().as_raw_nonzero().get());
    NUMBER.with(|number| *number)
}

/// Interrupts a thread of this process. A thread that has ended, or has left its call, is not affected.
pub fn interrupt(thread: i32) {
    if let Some(signal) = signal() {
        // SAFETY: the call passes no memory; the signal's handler does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
    }
}

/// Time limit of waiting for a thread that was told to end. No signal interrupts one that waits in the kernel for a grace period, as some
/// calls of KVM and the closing of a TAP do: 12 s were seen on a host whose CPUs had three times the work they could do.
pub const END_LIMIT: Duration = Duration::from_secs(20);
/// Time between two checks whether it has ended.
const LOOK: Duration = Duration::from_micros(200);

/// Waits for the end of threads that were told to end. At each check `urge` is called for each thread that
/// still runs, with the time waited so far. Threads that remain after `most` are abandoned with everything
/// they hold, and reported; their number is returned.
pub fn end_all(
    mut threads: Vec<JoinHandle<()>>,
    most: Duration,
    mut urge: impl FnMut(&JoinHandle<()>, Duration),
) -> usize {
    let start = Instant::now();
    loop {
        for thread in threads.extract_if(.., |thread| thread.is_finished()) {
            // The panic hook has already printed a panic of the thread.
            let _ = thread.join();
        }
        let waited = start.elapsed();
        if threads.is_empty() || waited >= most {
            break;
        }
        threads.iter().for_each(|thread| urge(thread, waited));
        sleep(LOOK);
    }
    for thread in &threads {
        let name = thread.thread().name().unwrap_or_default();
        // If the line cannot be written it is lost: this must not block on a reader.
        let _ = writeln!(io::stderr(), "ringroad: thread {name} does not end; it is left behind");
    }
    threads.len()
}
