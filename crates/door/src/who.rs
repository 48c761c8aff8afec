//! Peer credentials: the process at the other end of a connection, as the kernel knows it.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

/// The process that has connected, or that listens where we did (SO_PEERCRED): its number, as processes of this namespace know it;
/// none where they do not. It may have ended since, and have handed its end to another one. Of its user a process in a user
/// namespace of its own hears nothing.
pub fn process_at(socket: impl AsFd) -> Option<i32> {
    credentials(socket).ok().map(|peer| peer.pid).filter(|process| *process > 0)
}

/// The user of that process, by number.
///
/// # Errors
/// It is no connection.
pub fn user_at(socket: impl AsFd) -> io::Result<u32> {
    Ok(credentials(socket)?.uid)
}

/// Not by rustix, in which no process has the number 0: one that is out of sight of this namespace has it.
fn credentials(socket: impl AsFd) -> io::Result<libc::ucred> {
    // SAFETY: three numbers, for each of which 0 is one.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes no more octets than it is told that there are, and how many it has written.
    let done = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut len)
    };
    if done == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}
