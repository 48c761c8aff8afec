//! One socket: opened and bound by who may, mapped by who serves it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::abi;
use super::rings::{Consumer, Place, Producer};
use super::umem::{self, Layout, Umem};
use crate::Error;

/// Octets of frames that the kernel may hold for a socket in copy mode: more than all of its rings.
const SEND_BUFFER: libc::c_int = 64 << 20;

/// A bound socket and its memory.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: OwnedFd,
    pub(super) memory: OwnedFd,
}

/// What a socket is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) layout: Layout,
    /// Frames that the driver handles each time it is polled from here; none: it interrupts as usual.
    pub(super) busy_poll: Option<u16>,
}

/// The rings of a socket, and where its frames lie.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<abi::Descriptor>,
    pub(super) transmit: Producer<abi::Descriptor>,
    pub(super) umem: Umem,
}

impl Bound {
    /// A socket at one queue of an interface of the calling thread's namespace.
    pub(super) fn new((name, index): (&str, u32), queue: u32, wish: Wish) -> Result<Self, Error> {
        let memory = umem::create(wish.layout)
            .map_err(|e| Error::system(format!("getting memory for the frames of `{name}`"), e))?;
        let socket = abi::socket().map_err(|e| match e.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => Error::NoXdp,
            _ => Error::system("opening an AF_XDP socket", e),
        })?;
        register(&socket, &memory, wish.layout).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOBUFS) => Error::Memlock { octets: wish.layout.len() },
            _ => Error::system(format!("sharing memory for the frames of `{name}`"), e),
        })?;
        let bound = Self { socket, memory };
        bound.poll_from_here(wish.busy_poll);
        bound.bind(name, index, queue)?;
        Ok(bound)
    }

    /// Where the driver cannot, the kernel goes on with interrupts: nothing is lost by asking.
    fn poll_from_here(&self, budget: Option<u16>) {
        let fd = self.socket.as_fd();
        let set = |level, option, value: libc::c_int| {
            let _ = abi::set(fd, level, option, &value);
        };
        if let Some(budget) = budget {
            set(libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1);
            set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, 20);
            set(libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, libc::c_int::from(budget));
        }
        set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        set(libc::SOL_XDP, abi::XDP_MAX_TX_SKB_BUDGET, ring::BURST as libc::c_int);
    }

    /// The kernel takes zero-copy where the driver can, and copies where it cannot.
    fn bind(&self, name: &str, index: u32, queue: u32) -> Result<(), Error> {
        abi::bind(self.socket.as_fd(), index, queue, libc::XDP_USE_NEED_WAKEUP).map_err(|e| {
            match e.raw_os_error() {
                Some(libc::EBUSY) => Error::QueueTaken { name: name.to_owned(), queue },
                Some(libc::EINVAL) => Error::NoQueue { name: name.to_owned(), queue },
                Some(libc::ENETDOWN) => Error::Down { name: name.to_owned() },
                _ => Error::system(format!("binding a socket to queue {queue} of `{name}`"), e),
            }
        })
    }

    /// Whether frames lie where the NIC itself puts them.
    pub(super) fn is_zero_copy(&self) -> bool {
        abi::get::<libc::xdp_options>(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)
            .is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Another handle on this socket and its memory.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, memory: self.memory.try_clone()? })
    }

    /// Maps rings and memory here.
    pub(super) fn map(&self, layout: Layout) -> io::Result<Mapped> {
        let fd = self.socket.as_fd();
        let at: libc::xdp_mmap_offsets = abi::get(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let place = |page, parts, size| Place { page, parts, size };
        let (receive, transmit) = (layout.receive, layout.transmit);
        Ok(Mapped {
            fill: Producer::map(fd, place(libc::XDP_UMEM_PGOFF_FILL_RING, at.fr, receive))?,
            completion: Consumer::map(fd, place(libc::XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, transmit))?,
            receive: Consumer::map(fd, place(libc::XDP_PGOFF_RX_RING as u64, at.rx, receive))?,
            transmit: Producer::map(fd, place(libc::XDP_PGOFF_TX_RING as u64, at.tx, transmit))?,
            umem: Umem::map(&self.memory, layout)?,
        })
    }
}

/// Tells the kernel where frames may lie, and makes the rings.
fn register(socket: &OwnedFd, memory: &OwnedFd, layout: Layout) -> io::Result<()> {
    // The kernel keeps the pages, and needs the addresses only now.
    let umem = Umem::map(memory, layout)?;
    let region = Region {
        address: umem.address(),
        len: layout.len(),
        chunk: layout.chunk,
        headroom: 0,
        flags: 0,
        padding: 0,
    };
    let set = |option, value: u32| abi::set(socket.as_fd(), libc::SOL_XDP, option, &value);
    abi::set(socket.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &region)?;
    set(libc::XDP_UMEM_FILL_RING, layout.receive)?;
    set(libc::XDP_UMEM_COMPLETION_RING, layout.transmit)?;
    set(libc::XDP_RX_RING, layout.receive)?;
    set(libc::XDP_TX_RING, layout.transmit)
}

/// `struct xdp_umem_reg` as of Linux 5.4.
#[derive(Clone, Copy)]
#[repr(C)]
struct Region {
    address: u64,
    len: u64,
    chunk: u32,
    headroom: u32,
    flags: u32,
    padding: u32,
}
