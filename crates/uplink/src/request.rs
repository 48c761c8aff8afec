//! `ioctl` requests of the TUN/TAP driver and of ethtool(8), and socket options.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Error;

/// Octets of an interface's name with its terminating 0.
pub(crate) const NAME_LEN: usize = libc::IFNAMSIZ;

/// An interface's name in the kernel's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) [u8; NAME_LEN]);

impl Name {
    /// Checks a name by the kernel's rules (`dev_valid_name`), and refuses `%`, which would be a pattern.
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let wrong = |why| Err(Error::Name { name: name.to_owned(), why });
        if name.is_empty() {
            return wrong("it is empty");
        }
        if name.len() >= NAME_LEN {
            return wrong("it is longer than 15 octets");
        }
        if name == "."
            || name == ".."
            || name.bytes().any(|c| matches!(c, b'/' | b':' | b'%' | 0..=b' ' | 127))
        {
            return wrong("`.`, `..`, `/`, `:`, `%`, blanks and control characters are not allowed");
        }
        let mut octets = [0; NAME_LEN];
        octets[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self(octets))
    }
}

/// `struct ifreq`: a name and up to 24 octets whose meaning depends on the request.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct InterfaceRequest {
    pub(crate) name: Name,
    pub(crate) value: [u8; 24],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

impl InterfaceRequest {
    /// Creates a request whose value starts with these octets (at most 24).
    pub(crate) fn new(name: Name, start: &[u8]) -> Self {
        let mut value = [0; 24];
        let n = start.len().min(value.len());
        value[..n].copy_from_slice(&start[..n]);
        Self { name, value }
    }

    /// Sends the request to `fd`. `request` must take a `struct ifreq`, as the constants of this crate do.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, request: c_ulong) -> io::Result<()> {
        // SAFETY: the argument is a live, exclusively borrowed `struct ifreq` (same size, all octets initialised),
        // and none of the requests this crate makes follows a pointer in it.
        unsafe { ioctl(fd, request, self) }
    }
}

/// Performs an `ioctl` with a structure.
///
/// # Safety
/// `T` must be the structure that the kernel reads and writes for `request`, with all its pointers valid.
pub(crate) unsafe fn ioctl<T>(fd: BorrowedFd<'_>, request: c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the caller vouches for the argument.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets whether the interface of a TAP has carrier.
pub(crate) fn set_carrier(queue: BorrowedFd<'_>, is_there: bool) -> io::Result<()> {
    let mut carrier = c_int::from(is_there);
    // SAFETY: the kernel reads an `int` for this request.
    unsafe { ioctl(queue, libc::TUNSETCARRIER, &mut carrier) }
}

/// Sets a socket option. `T` must be plain data of the size that the kernel expects for the option.
pub(crate) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` octets during the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
