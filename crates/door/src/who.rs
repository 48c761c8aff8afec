//! Peer credentials: the process at the other end of a connection, as the kernel knows it.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

/// The process that has connected, or that listens where we did (SO_PEERCRED): its number, as processes of this namespace know it;
/// none where they do not. It may have ended since, and have handed its end to another one. Of its user a process in a user
/// namespace of its own hears nothing.
pub fn process_at(socket: impl AsFd) -> Option<i32> {
    // SAFETY: three numbers, for each of which 0 is one.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes no more octets than it is told that there are, and how many it has written.
    let done = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut len)
    };
    (done == 0 && peer.pid > 0).then_some(peer.pid)
}
