//! What the kernel is asked for AF_XDP: options of the socket (`linux/if_xdp.h`, Documentation/networking/af_xdp.rst)
//! and the calls that move frames.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Most frames that one send takes in copy mode (`linux/if_xdp.h` since Linux 6.17).
pub(super) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// A descriptor of the receive and the transmit ring: `struct xdp_desc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Offset of the frame's first octet in the shared memory.
    pub(super) addr: u64,
    /// Octets.
    pub(super) len: u32,
    /// 0: the frame ends here.
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == size_of::<libc::xdp_desc>());

/// A new AF_XDP socket.
pub(super) fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a socket. `T` must be plain data of the size that the kernel expects of the option; it takes no
/// more octets than that.
pub(super) fn set<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` octets during the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Plain integers, all of whose values are good: what [`get`] may fill in.
///
/// # Safety
/// Every pattern of octets must be a value of the type.
pub(super) unsafe trait Answer: Copy {}
// SAFETY: an integer.
unsafe impl Answer for libc::c_int {}
// SAFETY: integers only.
unsafe impl Answer for libc::xdp_mmap_offsets {}
// SAFETY: integers only.
unsafe impl Answer for libc::xdp_statistics {}
// SAFETY: an integer.
unsafe impl Answer for libc::xdp_options {}

/// Asks for an option of a socket. What the kernel leaves out (an older one) is zero.
pub(super) fn get<T: Answer>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    // SAFETY: `T` has only good values, zero among them.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` octets during the call, and any octets are a good value of it.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Binds a socket to one queue of an interface of the calling thread's namespace.
pub(super) fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the address is valid for `len` octets for the time of the call.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel look at the transmit ring.
pub(super) fn kick_transmit(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no octets are read and no address is given.
    let done = unsafe {
        libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    };
    if done >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel look at the fill ring, and the driver at its queue where it is polled from here. What follows from an error is
/// noticed by who looks after the port.
pub(super) fn kick_receive(socket: BorrowedFd<'_>) {
    let _ = ask_to_receive(socket);
}

/// Whether the kernel has taken the interface away from under a socket. Nothing changes by the question: SO_ERROR says so, too, but
/// only to whoever asks first, and who serves the socket is another process.
pub(super) fn is_cut_off(socket: BorrowedFd<'_>) -> bool {
    ask_to_receive(socket).is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO))
}

fn ask_to_receive(socket: BorrowedFd<'_>) -> io::Result<()> {
    let nowhere = std::ptr::null_mut();
    // SAFETY: no octets are written and no address is asked for.
    let answer = unsafe {
        libc::recvfrom(socket.as_raw_fd(), nowhere, 0, libc::MSG_DONTWAIT, nowhere.cast(), nowhere.cast())
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
