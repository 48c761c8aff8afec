//! Kills a process by its pidfd, and waits for its end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

/// Kills the process; does nothing if it has ended already.
pub(crate) fn kill(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// Way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It exited with this code.
    Exit(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// Not known, because it is another process's child.
    Unknown,
}

/// Waits for the end of the process, and reaps it if it is our child.
pub(crate) fn wait(pidfd: &OwnedFd) -> End {
    let end = retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)).ok().flatten();
    let Some(end) = end else {
        // It is another process's child.
        is_over_within(pidfd, PATIENCE);
        return End::Unknown;
    };
    match (end.exit_status(), end.terminating_signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Unknown,
    }
}

/// Time limit for the end of a killed process. Less than the thread that waits has for its own end ([`signals::interrupt::END_LIMIT`]).
const PATIENCE: Duration = Duration::from_secs(15);

/// Returns true if the process has ended.
pub(crate) fn is_over(pidfd: &OwnedFd) -> bool {
    is_over_within(pidfd, Duration::ZERO)
}

/// Waits for the end of a process, up to this time; returns true if it has ended.
fn is_over_within(pidfd: &OwnedFd, patience: Duration) -> bool {
    let limit = Timespec::try_from(patience).unwrap_or_default();
    let ended = retry_on_intr(|| poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit)));
    ended.is_ok_and(|ended| ended > 0)
}
