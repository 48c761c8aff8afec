//! Packet socket (packet(7)) that sends whole frames out of an interface of the host, as if its kernel had
//! sent them, many with one call. For load generation; it receives nothing.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::request::set_option;
use crate::{Error, Netns};

/// Maximum number of frames per call.
pub const MOST: usize = 64;
/// Send buffer in octets: frames that wait in the queue of a receiver still count against it.
const BUFFER: libc::c_int = 256 << 20;

/// A socket that sends out of one interface.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
}

impl PacketSender {
    /// Opens a socket at an interface of a namespace. Its frames bypass the queueing discipline, as those of pktgen do.
    ///
    /// # Errors
    /// There is no such interface, or the caller lacks permission (CAP_NET_RAW, CAP_NET_ADMIN).
    pub fn open(netns: &Netns, interface: &str) -> Result<Self, Error> {
        Self::open_as(netns, interface, true)
    }

    /// Opens a socket at an interface of a namespace, whose frames pass the queueing discipline.
    ///
    /// # Errors
    /// As [`PacketSender::open`].
    pub fn open_queued(netns: &Netns, interface: &str) -> Result<Self, Error> {
        Self::open_as(netns, interface, false)
    }

    fn open_as(netns: &Netns, interface: &str, bypasses: bool) -> Result<Self, Error> {
        let opened = netns.run(|| Self::open_here(interface, bypasses))?;
        opened.map_err(|e| Error::system(format!("opening a packet socket at `{interface}`"), e))
    }

    fn open_here(interface: &str, bypasses: bool) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0: the socket receives nothing.
        let wire = Self { socket: socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)? };
        wire.bind(interface)?;
        let fd = wire.socket.as_fd();
        set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &BUFFER)?;
        set_option::<libc::c_int>(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &bypasses.into())?;
        Ok(wire)
    }

    fn bind(&self, interface: &str) -> io::Result<()> {
        let name = CString::new(interface)?;
        // SAFETY: `name` is a C string for the time of the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        bind_to(self.socket.as_fd(), index, 0)
    }

    /// Sends a frame this many times, at most [`MOST`]; returns how many were sent.
    pub fn repeat(&self, frame: &[u8], times: usize) -> usize {
        let mut part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: a header of null pointers and zero lengths is one without name, parts and control data.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = &raw mut part;
        header.msg_hdr.msg_iovlen = 1;
        let mut headers = [header; MOST];
        let (fd, count) = (self.socket.as_raw_fd(), times.min(MOST) as libc::c_uint);
        // SAFETY: the headers, the part that they share and the frame live until the call returns; the frame
        // is only read.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).unwrap_or(0)
    }
}

/// Binds a packet socket to the interface with this index, for received frames of this protocol, in the order of the network; 0: it
/// receives none.
pub(crate) fn bind_to(socket: BorrowedFd<'_>, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: integers and octets, for all of which zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index as libc::c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for `len` octets for the time of the call.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
