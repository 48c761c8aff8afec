//! Requests to rtnetlink(7) about interfaces: one message, one answer. What netdevice(7) has no request for: making a
//! macvtap, putting an interface into a bridge.

mod message;

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

pub(crate) use message::{Attributes, Message};
use message::{answer, attribute};

/// More octets than the longest acknowledgement with the kernel's own words in it.
const ANSWER: usize = 8192;

/// A socket to the kernel's interfaces in the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// A socket in the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket })
    }

    /// Sends a request and waits for the kernel's answer, which it gives within the call.
    pub(crate) fn ask(&self, request: &Message) -> io::Result<()> {
        send(&self.socket, request.octets(), SendFlags::empty())?;
        let mut octets = [0; ANSWER];
        loop {
            let (len, _) = recv(&self.socket, &mut octets[..], RecvFlags::empty())?;
            if let Some(outcome) = answer(octets.get(..len).unwrap_or_default()) {
                return outcome;
            }
        }
    }

    /// An attribute of an interface; none if the interface has none like it.
    pub(crate) fn attribute(&self, index: u32, kind: u16) -> io::Result<Option<Vec<u8>>> {
        let request = Message::link(libc::RTM_GETLINK, 0, index, 0);
        send(&self.socket, request.octets(), SendFlags::empty())?;
        let mut octets = [0; ANSWER];
        let mut found = None;
        loop {
            let (len, _) = recv(&self.socket, &mut octets[..], RecvFlags::empty())?;
            let datagram = octets.get(..len).unwrap_or_default();
            match answer(datagram) {
                Some(outcome) => return outcome.map(|()| found),
                None => found = attribute(datagram, kind).map(<[u8]>::to_vec),
            }
        }
    }
}
