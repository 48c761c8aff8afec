//! What the kernel is asked for AF_XDP (`linux/if_xdp.h`, Documentation/networking/af_xdp.rst) each time: the calls that
//! move frames, and their descriptors.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

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

/// Has the kernel look at the transmit ring.
pub(super) fn kick_transmit(socket: BorrowedFd<'_>) -> io::Result<()> {
    send(socket, &[], SendFlags::DONTWAIT)?;
    Ok(())
}

/// Has the kernel look at the fill ring, and the driver at its queue where it is polled from here. What follows from an error is
/// noticed by who looks after the port.
pub(super) fn kick_receive(socket: BorrowedFd<'_>) {
    let _ = ask_to_receive(socket);
}

/// Whether the kernel has taken the interface away from under a socket. Nothing changes by the question: SO_ERROR says so, too, but
/// only to whoever asks first, and who serves the socket is another process.
pub(super) fn is_cut_off(socket: BorrowedFd<'_>) -> bool {
    ask_to_receive(socket) == Err(Errno::NXIO)
}

fn ask_to_receive(socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
    recv(socket, &mut [0_u8; 0], RecvFlags::DONTWAIT).map(|_| ())
}
