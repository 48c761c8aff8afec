//! Peer credentials: the process at the other end of a connection, as the kernel knows it.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

/// Returns the process that has connected, or that listens where we have connected (SO_PEERCRED): its ID as
/// seen in this PID namespace; `None` if it is not visible there. It may have ended since, and have passed
/// its end to another process. A process in a user namespace of its own cannot learn the peer's user.
pub fn process_at(socket: impl AsFd) -> Option<i32> {
    credentials(socket).ok().map(|peer| peer.pid).filter(|process| *process > 0)
}

/// Returns the user ID of that process.
///
/// # Errors
/// It is not a connected socket.
pub fn user_at(socket: impl AsFd) -> io::Result<u32> {
    Ok(credentials(socket)?.uid)
}

/// Queries SO_PEERCRED. rustix cannot represent process ID 0, which stands for a process that is not visible
/// in this namespace.
fn credentials(socket: impl AsFd) -> io::Result<libc::ucred> {
    // SAFETY: three integers, for each of which 0 is a valid value.
    let mut peer: libc::ucred = unsafe { zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes no more octets than `len`, and sets `len` to the number written.
    let done = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut peer).cast(), &raw mut len)
    };
    if done == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}
