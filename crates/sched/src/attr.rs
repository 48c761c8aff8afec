//! sched_setattr(2) and sched_getattr(2), which neither the C library nor rustix wraps.

use std::time::Duration;
use std::{io, thread};

use config::{Policy, Reservation};

/// Scheduling attributes of a thread, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Policy: `SCHED_OTHER` and so on.
    pub policy: u32,
    /// Flags: `SCHED_FLAG_RESET_ON_FORK` and so on.
    pub flags: u64,
    /// Nice value of an ordinary thread.
    pub nice: i32,
    /// Priority of a real-time thread.
    pub priority: u32,
    /// Runtime of a reservation, in nanoseconds; for an ordinary thread its slice (Linux 6.12 and later).
    pub runtime: u64,
    /// Deadline of a reservation, in nanoseconds from the beginning of its period.
    pub deadline: u64,
    /// Period of a reservation, in nanoseconds.
    pub period: u64,
}

const OTHER: u32 = libc::SCHED_OTHER as u32;
const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

impl Attributes {
    /// Returns true if the thread has a reservation.
    pub fn is_deadline(&self) -> bool {
        self.policy == DEADLINE
    }

    /// Returns true if the thread is ordinary.
    pub fn is_other(&self) -> bool {
        self.policy == OTHER
    }

    /// Attributes for a policy of the file. Children of such a thread are ordinary again, since a reservation
    /// cannot be inherited.
    fn of(policy: Policy, nice: i32) -> Self {
        let ordinary =
            Self { policy: OTHER, flags: 0, nice, priority: 0, runtime: 0, deadline: 0, period: 0 };
        let reset = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        match policy {
            Policy::Other | Policy::Shares(_) => ordinary,
            Policy::Fifo { priority } => Self { policy: FIFO, flags: reset, priority, ..ordinary },
            Policy::Rr { priority } => Self { policy: RR, flags: reset, priority, ..ordinary },
            Policy::Deadline(Reservation { runtime, deadline, period, reclaim }) => Self {
                policy: DEADLINE,
                flags: reset | if reclaim { libc::SCHED_FLAG_RECLAIM as u64 } else { 0 },
                runtime: nanoseconds(runtime),
                deadline: nanoseconds(deadline),
                period: nanoseconds(period),
                ..ordinary
            },
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn empty() -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// Reads the attributes of a thread.
///
/// # Errors
/// ESRCH: there is no such thread.
pub fn attributes(tid: i32) -> io::Result<Attributes> {
    let mut attr = empty();
    // SAFETY: the kernel writes at most `size` octets of the structure, which lives until the call returns.
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, attr.size, 0) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Attributes {
        policy: attr.sched_policy,
        flags: attr.sched_flags,
        nice: attr.sched_nice,
        priority: attr.sched_priority,
        runtime: attr.sched_runtime,
        deadline: attr.sched_deadline,
        period: attr.sched_period,
    })
}

/// Gives a thread a policy with its parameters.
pub(crate) fn set(tid: i32, policy: Policy) -> io::Result<()> {
    set_in_slices(tid, policy, None)
}

/// As [`set`], with a time slice for an ordinary thread; `None`: the kernel's default, which all threads have before Linux 6.12.
pub(crate) fn set_in_slices(tid: i32, policy: Policy, slice: Option<Duration>) -> io::Result<()> {
    let mut wanted = Attributes::of(policy, attributes(tid)?.nice);
    if let Some(slice) = slice.filter(|_| wanted.is_other()) {
        wanted.runtime = nanoseconds(slice);
    }
    let attr = libc::sched_attr {
        sched_policy: wanted.policy,
        sched_flags: wanted.flags,
        sched_nice: wanted.nice,
        sched_priority: wanted.priority,
        sched_runtime: wanted.runtime,
        sched_deadline: wanted.deadline,
        sched_period: wanted.period,
        ..empty()
    };
    // SAFETY: the kernel reads `size` octets of the structure, which lives until the call returns.
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Checks whether this process may give a thread this policy, by trying it on a short-lived thread.
///
/// # Errors
/// The kernel's refusal.
pub fn try_policy(policy: Policy) -> io::Result<()> {
    let trial = thread::Builder::new().name("ringroad-probe".to_owned()).spawn(move || set(0, policy))?;
    trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
}

#[cfg(test)]
mod tests;
