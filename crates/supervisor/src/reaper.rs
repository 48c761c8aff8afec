//! Reaping of ended children in threads: the kernel does the rest of a process's teardown within its parent's
//! wait, and was seen to take minutes for it (`release_task`, which drops the dead process's entries of
//! `/proc`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;

use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// Exit status of a child, if it has ended; the child is not reaped.
pub(super) fn ended(pidfd: BorrowedFd<'_>) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::PidFd(pidfd), options) {
        Ok(status) => status.as_ref().map(as_of_std),
        // Another thread has waited for it: then it is gone as well.
        Err(_) => Some(ExitStatus::from_raw(0)),
    }
}

fn as_of_std(status: &WaitIdStatus) -> ExitStatus {
    let code = status.exit_status().unwrap_or_default();
    ExitStatus::from_raw(status.terminating_signal().unwrap_or((code & 0xff) << 8))
}

/// Starts a thread that reaps a child once it has ended, and then ends. If no thread can be started, the
/// zombie stays until the run ends.
pub(super) fn reap(pidfd: &OwnedFd) {
    let Ok(pidfd) = pidfd.try_clone() else { return };
    let thread = thread::Builder::new().name("ringroad/reaper".to_owned());
    let _ = thread.spawn(move || {
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    });
}
