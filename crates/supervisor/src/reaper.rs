//! What has ended is taken away by a thread of its own: the kernel does that work within the wait of the parent, and has been seen
//! to take minutes for it (`release_task`, which drops what `/proc` had of the dead).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;

use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// How a child has ended, if it has; it is not taken away.
pub(super) fn ended(pidfd: BorrowedFd<'_>) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::PidFd(pidfd), options) {
        Ok(status) => status.as_ref().map(as_of_std),
        // Somebody else has waited for it: then it is gone as well.
        Err(_) => Some(ExitStatus::from_raw(0)),
    }
}

fn as_of_std(status: &WaitIdStatus) -> ExitStatus {
    let code = status.exit_status().unwrap_or_default();
    ExitStatus::from_raw(status.terminating_signal().unwrap_or((code & 0xff) << 8))
}

/// Has a child taken away, as soon as it has ended, by a thread that ends then. Where there can be none it stays until the run ends.
pub(super) fn reap(pidfd: &OwnedFd) {
    let Ok(pidfd) = pidfd.try_clone() else { return };
    let thread = thread::Builder::new().name("ringroad/reaper".to_owned());
    let _ = thread.spawn(move || {
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    });
}
