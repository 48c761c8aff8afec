//! A packet socket of the kernel at the other end of a port, and both as a bench of the conformance suite that every port
//! passes.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use conformance::{Pattern, SinkBench, SourceBench};
use ledger::Group;
use port::{Sink, Source};
use uplink::Mac;

use crate::support::{PATIENCE, frames_at, losses};

/// Addresses of the kernel's end, and of ours.
pub(crate) const KERNEL: Mac = [2, 0, 0, 0, 1, 0];
pub(crate) const OURS: Mac = [2, 0, 0, 0, 1, 9];
/// More octets than all frames of a check occupy in the kernel.
static RECEIVE_BUFFER: libc::c_int = 64 << 20;

/// A socket that receives and sends whole frames at one interface (packet(7)).
pub(crate) struct PacketSocket(pub(crate) OwnedFd);

impl PacketSocket {
    /// Opens it in the calling thread's namespace.
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let every = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, every.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        socket.bind(interface, every)?;
        socket.widen()?;
        Ok(socket)
    }

    fn bind(&self, interface: &str, protocol: u16) -> io::Result<()> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: `name` is a C string until the call returns.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: integers and octets, for all of which zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as libc::c_int;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address is valid for `len` octets until the call returns.
        let done = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn widen(&self) -> io::Result<()> {
        let (value, len) = (&raw const RECEIVE_BUFFER, size_of::<libc::c_int>() as u32);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        // SAFETY: the value is valid for `len` octets until the call returns.
        let done = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value.cast(), len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A port, and a packet socket at its other end. The kernel handles most frames within the write, but arrival is not
/// guaranteed by then.
pub(crate) struct Bench {
    pub(crate) socket: PacketSocket,
    pub(crate) source: Box<dyn Source>,
    pub(crate) sink: Arc<dyn Sink>,
    /// Counters of the sink.
    pub(crate) counters: Arc<dyn Group>,
    /// Length in octets of the shortest frame that the sink passes on unchanged.
    pub(crate) shortest: usize,
    /// What must live as long as the port.
    pub(crate) _held: Box<dyn Any>,
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(frames_at(&self.socket))
    }

    fn lost(&self) -> u64 {
        losses(&*self.counters)
    }

    fn pattern(&self) -> Pattern {
        Pattern { destination: KERNEL, source: OURS, shortest: self.shortest, ..Pattern::default() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        frames.iter().take_while(|frame| rustix::io::write(&self.socket, frame) == Ok(frame.len())).count()
    }

    fn pattern(&self) -> Pattern {
        Pattern { destination: OURS, source: KERNEL, ..Pattern::default() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}
