//! Which real-time schedulers this process may use, tried on a thread that ends right after.

use std::io;
use std::thread;

/// A real-time scheduling policy of Linux (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fixed priority, first in first out; tried with priority 1.
    Fifo,
    /// Earliest deadline first; tried with 1 ms of every 100 ms.
    Deadline,
}

/// Gives a thread of its own this policy, and ends it.
///
/// # Errors
/// The kernel's refusal.
pub fn scheduler_permitted(policy: Policy) -> io::Result<()> {
    let trial = thread::Builder::new().name("ringroad-probe".to_owned()).spawn(move || adopt(policy))?;
    trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
}

/// `struct sched_attr` of sched_setattr(2), in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

fn adopt(policy: Policy) -> io::Result<()> {
    let base = Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
    let attributes = match policy {
        Policy::Fifo => Attributes { policy: libc::SCHED_FIFO as u32, priority: 1, ..base },
        Policy::Deadline => Attributes {
            policy: libc::SCHED_DEADLINE as u32,
            runtime_ns: 1_000_000,
            deadline_ns: 100_000_000,
            period_ns: 100_000_000,
            ..base
        },
    };
    // SAFETY: the pointer is to a live structure that says its own size; thread 0 is the calling one, no flags.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
