//! A signal that takes a thread of this process out of a call that waits: a vCPU out of its guest, whoever rings a descriptor out of
//! a write that its owner holds up. Its handler does nothing; the call ends with EINTR.

use std::ffi::c_void;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use libc::siginfo_t;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

/// The signal, once its handler is there. Without one it would end the process: then nobody is sent any.
pub fn signal() -> Option<i32> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    *INSTALLED.get_or_init(|| register_signal_handler(SIGRTMIN(), nothing).is_ok().then(SIGRTMIN))
}

extern "C" fn nothing(_: i32, _: *mut siginfo_t, _: *mut c_void) {}

/// The calling thread's number.
pub fn this_thread() -> i32 {
    thread_local!(static NUMBER: i32 = rustix::thread::gettid().as_raw_nonzero().get());
    NUMBER.with(|number| *number)
}

/// Interrupts a thread of this process. One that has gone, or has left its call, loses nothing by it.
pub fn interrupt(thread: i32) {
    if let Some(signal) = signal() {
        // SAFETY: a call without memory; the signal's handler does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
    }
}

/// How long a thread that is to end is waited for.
pub const END_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_micros(200);

/// Waits for the end of threads that have been told to end. At each look that finds one there `urge` is called, with the time that it was
/// waited for. Those that are still there after `most` are left behind with what they hold, and told of; how many.
pub fn end_all(
    mut threads: Vec<JoinHandle<()>>,
    most: Duration,
    mut urge: impl FnMut(&JoinHandle<()>, Duration),
) -> usize {
    let start = Instant::now();
    loop {
        for thread in threads.extract_if(.., |thread| thread.is_finished()) {
            // A panic of the thread has been printed by its hook.
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
        // What cannot be written is lost: nobody waits for a reader.
        let _ = writeln!(io::stderr(), "ringroad: thread {name} does not end; it is left behind");
    }
    threads.len()
}
