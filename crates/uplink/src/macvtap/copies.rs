//! Copies of the urgent frames that arrive at a macvtap, in a queue of their own: a packet socket (packet(7)) at its interface, with a
//! program that takes no other frames. A macvtap has no program that selects a queue, so its queues have these frames as well, and
//! their sources leave them out.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::request::set_option;
use crate::{steering, wire};

/// Octets of kernel memory for frames that wait, which is some hundreds of small ones.
const BUFFER: libc::c_int = 512 << 10;

/// Opens the queue of the interface with this index, which is up, in the calling thread's namespace.
pub(super) fn open(index: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // Protocol 0: the socket receives nothing before it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let (fd, yes): (_, libc::c_int) = (socket.as_fd(), 1);
    steering::copy_urgent(fd)?;
    // What leaves by the interface does not come back.
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes)?;
    // Each frame has the header of a macvtap's frames before it.
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &yes)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER)?;
    wire::bind_to(fd, index, (libc::ETH_P_ALL as u16).to_be())?;
    Ok(socket)
}

/// Returns how many copies were lost since the last call because the queue was full (PACKET_STATISTICS).
pub(crate) fn lost(queue: BorrowedFd<'_>) -> u32 {
    let (mut found, mut len) = ([0_u32; 2], size_of::<[u32; 2]>() as libc::socklen_t);
    let (fd, value) = (queue.as_raw_fd(), (&raw mut found).cast());
    // SAFETY: the kernel writes at most `len` octets there, which are numbers, and the length before the call returns.
    let done =
        unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len) };
    // Frames that came, and of these the lost ones.
    let [_, lost] = found;
    if done == 0 { lost } else { 0 }
}
