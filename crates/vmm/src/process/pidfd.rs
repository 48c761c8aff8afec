//! Killing another process, and waiting for its end.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// Kills the process; one that is gone stays gone.
pub(crate) fn kill(pidfd: &OwnedFd) {
    // SAFETY: an open descriptor and a signal number; no signal information is passed.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
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
    loop {
        // SAFETY: `siginfo_t` is plain data, for which all zeros are valid.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and room for the answer.
        let result = unsafe {
            libc::waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, &raw mut info, libc::WEXITED)
        };
        if result == 0 {
            // SAFETY: waitid has filled in a child's change of state, which has a status.
            let status = unsafe { info.si_status() };
            return if info.si_code == libc::CLD_EXITED { End::Exit(status) } else { End::Signal(status) };
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            wait_readable(pidfd);
            return End::Unknown;
        }
    }
}

/// How long a process that was killed may take to go, in milliseconds.
const PATIENCE: i32 = 5000;

/// Whether the process has ended.
pub(crate) fn is_over(pidfd: &OwnedFd) -> bool {
    let mut fd = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor; it is looked at without waiting.
    unsafe { libc::poll(&raw mut fd, 1, 0) > 0 }
}

/// Waits for the end of a process that is another's child.
fn wait_readable(pidfd: &OwnedFd) {
    let mut fd = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    while unsafe { libc::poll(&raw mut fd, 1, PATIENCE) } < 0
        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    {}
}
