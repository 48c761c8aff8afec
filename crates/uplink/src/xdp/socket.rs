//! An AF_XDP socket: opened and bound by a privileged process, mapped by the process that serves it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::abi;
use super::rings::{Consumer, Place, Producer};
use super::umem::{self, Layout, Umem};
use crate::Error;
use crate::request::set_option;

/// Octets of frames that the kernel may hold for a socket in copy mode: more than all of its rings hold.
const SEND_BUFFER: libc::c_int = 64 << 20;

/// A bound socket and its memory.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: OwnedFd,
    pub(super) memory: OwnedFd,
}

/// Configuration of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) layout: Layout,
    /// Budget of frames for each time that the driver is polled from here; `None`: it interrupts as usual.
    pub(super) busy_poll: Option<u16>,
}

/// The mapped rings and memory of a socket.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<abi::Descriptor>,
    pub(super) transmit: Producer<abi::Descriptor>,
    pub(super) umem: Umem,
}

impl Bound {
    /// Creates a socket bound to one queue of an interface in the calling thread's namespace.
    pub(super) fn new((name, index): (&str, u32), queue: u32, wish: Wish) -> Result<Self, Error> {
        let memory = umem::create(wish.layout)
            .map_err(|e| Error::system(format!("getting memory for the frames of `{name}`"), e))?;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(|e| match e {
            Errno::AFNOSUPPORT => Error::NoXdp,
            _ => Error::system("opening an AF_XDP socket", e.into()),
        })?;
        register(&socket, &memory, wish.layout).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOBUFS) => Error::Memlock { octets: wish.layout.len() },
            _ => Error::system(format!("sharing memory for the frames of `{name}`"), e),
        })?;
        let bound = Self { socket, memory };
        bound.poll_from_here(wish.busy_poll);
        bound.bind((name, index), queue, wish.layout)?;
        Ok(bound)
    }

    /// Enables busy polling. A driver that does not support it keeps using interrupts, so the request does no
    /// harm.
    fn poll_from_here(&self, budget: Option<u16>) {
        let fd = self.socket.as_fd();
        let set = |level, option, value: libc::c_int| {
            let _ = set_option(fd, level, option, &value);
        };
        if let Some(budget) = budget {
            set(libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1);
            set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, 20);
            set(libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, libc::c_int::from(budget));
        }
        set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        set(libc::SOL_XDP, abi::XDP_MAX_TX_SKB_BUDGET, ring::BURST as libc::c_int);
    }

    /// Binds the socket. The kernel uses zero-copy if the driver supports it, and copies otherwise.
    fn bind(&self, (name, index): (&str, u32), queue: u32, layout: Layout) -> Result<(), Error> {
        let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, layout.is_in_pieces());
        let address = SocketAddrXdp::new(flags, index, queue);
        bind(&self.socket, &address).map_err(|e| match e {
            // Each interface has a first queue.
            Errno::INVAL if layout.is_in_pieces() && queue == 0 => Error::Refused {
                what: format!("cannot have frames of more than a page from `{name}`"),
                why: "that takes Linux 6.6; write `mtu = 3818` or less, and set that of the interface"
                    .to_owned(),
            },
            Errno::BUSY => Error::QueueTaken { name: name.to_owned(), queue },
            Errno::INVAL => Error::NoQueue { name: name.to_owned(), queue },
            Errno::NETDOWN => Error::Down { name: name.to_owned() },
            _ => Error::system(format!("binding a socket to queue {queue} of `{name}`"), e.into()),
        })
    }

    /// Returns true if frames are where the NIC itself puts them (zero-copy).
    pub(super) fn is_zero_copy(&self) -> bool {
        xdp_options(&self.socket).is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Returns another handle to this socket and its memory.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, memory: self.memory.try_clone()? })
    }

    /// Maps rings and memory into this process.
    pub(super) fn map(&self, layout: Layout) -> io::Result<Mapped> {
        let fd = self.socket.as_fd();
        let at = xdp_mmap_offsets(fd)?;
        let place = |page, parts, size| Place { page, parts, size };
        let (receive, transmit) = (layout.receive, layout.transmit);
        Ok(Mapped {
            fill: Producer::map(fd, place(XDP_UMEM_PGOFF_FILL_RING, at.fr, receive))?,
            completion: Consumer::map(fd, place(XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, transmit))?,
            receive: Consumer::map(fd, place(XDP_PGOFF_RX_RING, at.rx, receive))?,
            transmit: Producer::map(fd, place(XDP_PGOFF_TX_RING, at.tx, transmit))?,
            umem: Umem::map(&self.memory, layout)?,
        })
    }
}

/// Registers the memory with the kernel, and creates the rings.
fn register(socket: &OwnedFd, memory: &OwnedFd, layout: Layout) -> io::Result<()> {
    // The kernel pins the pages, and needs the addresses only now.
    let umem = Umem::map(memory, layout)?;
    let region = XdpUmemReg {
        addr: umem.address(),
        len: layout.len(),
        chunk_size: layout.chunk,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    set_xdp_umem_reg(socket, region)?;
    set_xdp_umem_fill_ring_size(socket, layout.receive)?;
    set_xdp_umem_completion_ring_size(socket, layout.transmit)?;
    set_xdp_rx_ring_size(socket, layout.receive)?;
    Ok(set_xdp_tx_ring_size(socket, layout.transmit)?)
}
