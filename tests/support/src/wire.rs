//! Raw frames in and out of an interface, bypassing the kernel's protocols.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RawProtocol, SendFlags, SocketFlags, SocketType, send, socket_with};

use crate::Namespace;

/// `ETH_P_ALL` in network byte order.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();
/// Largest frame that is read.
const LARGEST: usize = 65_536;

/// Packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Opens an interface of a namespace.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        namespace.inside(|| Self::open_here(interface))?
    }

    fn open_here(interface: &str) -> Result<Self> {
        let protocol = RawProtocol::new(u32::from(EVERYTHING)).map(rustix::net::Protocol::from_raw);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, protocol)
            .context("cannot open a packet socket")?;
        bind(&socket, interface).with_context(|| format!("cannot bind to {interface}"))?;
        Ok(Self { socket })
    }

    /// Sends a frame unchanged; waits while the interface's queue is full.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        loop {
            match send(&self.socket, frame, SendFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => {
                    self.ready(PollFlags::OUT, Duration::from_millis(1));
                }
                Err(error) => return Err(error).context("cannot send a frame"),
            }
        }
    }

    /// Returns the first frame that satisfies `wanted`, sent or received on the interface; `None` if none arrives
    /// in time.
    pub fn find(&self, within: Duration, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let (deadline, mut octets) = (Instant::now() + within, vec![0; LARGEST]);
        loop {
            match rustix::io::read(&self.socket, &mut octets[..]) {
                Ok(length) if wanted(&octets[..length]) => return Some(octets[..length].to_vec()),
                Ok(_) => {}
                Err(_) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    self.ready(PollFlags::IN, left);
                }
            }
        }
    }

    fn ready(&self, what: PollFlags, most: Duration) {
        let timeout = Timespec::try_from(most).ok();
        // Whether it is ready or the time is over, the caller checks again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), what)], timeout.as_ref());
    }
}

fn bind(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let name = CString::new(interface)?;
    // SAFETY: the name is a C string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: EVERYTHING,
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let (place, length) = (std::ptr::from_ref(&address).cast(), size_of_val(&address) as libc::socklen_t);
    // SAFETY: `place` is the address of `length` octets that outlive the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), place, length) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
