//! Calls of AF_XDP on the data path (`linux/if_xdp.h`, Documentation/networking/af_xdp.rst), and the ring
//! descriptors.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Socket option: maximum number of frames that one send takes in copy mode (`linux/if_xdp.h` since Linux
/// 6.17).
pub(super) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Option of a descriptor: the frame goes on in the next one (`XDP_PKT_CONTD`).
pub(super) const CONTINUES: u32 = 1;

/// Descriptor of the receive and the transmit ring: `struct xdp_desc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Offset of the frame's first octet in the shared memory.
    pub(super) addr: u64,
    /// Octets of the frame.
    pub(super) len: u32,
    /// Options, as [`CONTINUES`]; 0: the frame ends here.
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == size_of::<libc::xdp_desc>());

/// Has the kernel process the transmit ring.
pub(super) fn kick_transmit(socket: BorrowedFd<'_>) -> io::Result<()> {
    send(socket, &[], SendFlags::DONTWAIT)?;
    Ok(())
}

/// Has the kernel process the fill ring, and the driver its queue if it is polled from here. Errors are
/// ignored: their causes are found when the port is looked after.
pub(super) fn kick_receive(socket: BorrowedFd<'_>) {
    let _ = ask_to_receive(socket);
}

/// Returns true if the interface of a socket was deleted. The query changes nothing, unlike SO_ERROR, which
/// reports this only to the first process that asks, and the socket is served by another process.
pub(super) fn is_cut_off(socket: BorrowedFd<'_>) -> bool {
    ask_to_receive(socket) == Err(Errno::NXIO)
}

fn ask_to_receive(socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
    recv(socket, &mut [0_u8; 0], RecvFlags::DONTWAIT).map(|_| ())
}
