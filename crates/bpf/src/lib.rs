//! Minimal wrapper of bpf(2): maps, programs, and attaching programs. Everything is a descriptor, closed on
//! exec; objects disappear with their last descriptor.
//!
//! Before Linux 5.11 maps and programs count as locked memory (RLIMIT_MEMLOCK), and exceeding that limit
//! shows as EPERM.

mod assembler;
mod btf;
mod map;
mod program;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub use assembler::{Assembler, Compare, Operation, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, Size};
pub use btf::Btf;
pub use map::{Key, Kind, Map};
pub use program::{
    Direction, Purpose, attach_to_interface, attach_to_socket, attach_to_tcx, attach_to_tracepoint,
    instruction, load, load_as, load_for_pieces, run,
};

/// Makes a call that returns a new descriptor.
///
/// # Safety
/// Same as [`bpf`].
unsafe fn new_descriptor<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the request.
    let fd = unsafe { bpf(command, request) }?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2).
///
/// # Safety
/// `request` must be what the kernel reads for `command` (or a prefix of it), with all its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the request is readable and writable over its size; the caller vouches for its content.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as libc::c_int) }
}

#[cfg(test)]
mod tests;
