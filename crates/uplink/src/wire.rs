//! A packet socket (packet(7)): sends whole frames out of an interface of the host, as if its kernel had, many with one
//! call. For loads; nothing is read by it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Error, Netns};

/// Most frames of one call.
pub const MOST: usize = 64;
/// Room for frames on their way, in octets: those that wait in the queue of whoever takes them count as on their way.
const BUFFER: libc::c_int = 256 << 20;

/// A socket that sends out of one interface.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// A socket at an interface of a namespace.
    ///
    /// # Errors
    /// There is no such interface, or the caller may not (CAP_NET_RAW, CAP_NET_ADMIN).
    pub fn open(netns: &Netns, interface: &str) -> Result<Self, Error> {
        let opened = netns.run(|| Self::open_here(interface))?;
        opened.map_err(|e| Error::system(format!("opening a packet socket at `{interface}`"), e))
    }

    fn open_here(interface: &str) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers. Protocol 0: nothing is received.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else owns it.
        let wire = Self { socket: unsafe { OwnedFd::from_raw_fd(fd) } };
        wire.bind(interface)?;
        wire.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        // Past the queueing discipline, as pktgen does.
        wire.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        Ok(wire)
    }

    fn bind(&self, interface: &str) -> io::Result<()> {
        let name = CString::new(interface)?;
        // SAFETY: `name` is a C string for the time of the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: integers and octets, for all of which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as libc::c_int;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid for `len` octets for the time of the call.
        done(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), len) })
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value is valid for `len` octets for the time of the call.
        done(unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
        })
    }

    /// Sends a frame so many times, at most [`MOST`]; returns how many went.
    pub fn repeat(&self, frame: &[u8], times: usize) -> usize {
        let mut part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: a header of null pointers and zero lengths is one without name, parts and control.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = &raw mut part;
        header.msg_hdr.msg_iovlen = 1;
        let mut headers = [header; MOST];
        let (fd, count) = (self.socket.as_raw_fd(), times.min(MOST) as libc::c_uint);
        // SAFETY: the headers, the one part that they share and the frame live for the time of the call; the frame is only
        // read.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).unwrap_or(0)
    }
}

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
