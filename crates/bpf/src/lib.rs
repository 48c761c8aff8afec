//! bpf(2), as much of it as is needed: maps, programs, and the places where these are attached. Everything is a descriptor, which
//! the kernel closes on exec, and is gone with the last one.
//!
//! Before Linux 5.11 maps and programs count as locked memory (RLIMIT_MEMLOCK), and EPERM may mean that.

mod map;
mod program;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub use map::{Kind, Map};
pub use program::{Purpose, attach_to_interface, attach_to_tracepoint, instruction, load, run};

/// A call that makes a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn new_descriptor<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the request.
    let fd = unsafe { bpf(command, request) }?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bpf(2).
///
/// # Safety
/// `request` must be what the kernel reads for `command` (or the start of it), with all its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the request is readable and writable for its size; the caller vouches for what is in it.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as libc::c_int) }
}

#[cfg(test)]
mod tests;
