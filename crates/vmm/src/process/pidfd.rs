//! Killing another process, and waiting for its end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

/// Kills the process; one that is gone stays gone.
pub(crate) fn kill(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It left with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is another's child, who knows more.
    Unknown,
}

/// Waits for the end of the process, and clears it away if it is our child.
pub(crate) fn wait(pidfd: &OwnedFd) -> End {
    let end = retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)).ok().flatten();
    let Some(end) = end else {
        // It is another's child.
        is_over_within(pidfd, PATIENCE);
        return End::Unknown;
    };
    match (end.exit_status(), end.terminating_signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Unknown,
    }
}

/// How long a process that was killed may take to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the process has ended.
pub(crate) fn is_over(pidfd: &OwnedFd) -> bool {
    is_over_within(pidfd, Duration::ZERO)
}

/// Waits so long for the end of a process; whether it has ended.
fn is_over_within(pidfd: &OwnedFd, patience: Duration) -> bool {
    let limit = Timespec::try_from(patience).unwrap_or_default();
    let ended = retry_on_intr(|| poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit)));
    ended.is_ok_and(|ended| ended > 0)
}
