//! Properties and settings of an interface that are needed before AF_XDP can receive its frames.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::request::{InterfaceRequest, Name, set_option};
use crate::{Error, Links};

/// `ETHTOOL_GCHANNELS` of `linux/ethtool.h`.
const GET_CHANNELS: u32 = 0x3c;
/// `SIOCETHTOOL` of `linux/sockios.h`.
const ETHTOOL: libc::c_ulong = 0x8946;
/// Maximum number of queues that are served.
const MOST_QUEUES: u32 = 64;

/// An interface of the calling thread's namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) index: u32,
    /// Number of receive queues.
    pub(super) receive: u32,
    /// Number of transmit queues.
    pub(super) transmit: u32,
    /// MTU in octets.
    pub(super) mtu: u32,
}

impl Interface {
    pub(super) fn find(name: &str) -> Result<Self, Error> {
        let link = Links::here()?.link(name, "opening by AF_XDP")?;
        let channels = channels(name)?;
        let receive = (channels.receive + channels.combined).max(1);
        if receive > MOST_QUEUES {
            return Err(Error::Range {
                what: "the number of queues of the interface",
                found: receive.into(),
                expected: "at most 64 (see `ethtool -L`)",
            });
        }
        let transmit = (channels.transmit + channels.combined).max(1);
        Ok(Self { index: link.index, receive, transmit, mtu: link.mtu })
    }
}

/// `struct ethtool_channels`.
#[derive(Debug, Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

fn channels(name: &str) -> Result<Channels, Error> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let pointer = (&raw mut channels) as u64;
    let mut request = InterfaceRequest::new(Name::new(name)?, &pointer.to_ne_bytes());
    let socket = datagram_socket(AddressFamily::INET).map_err(|e| Error::system("opening a socket", e))?;
    // SAFETY: the request's pointer leads to a `struct ethtool_channels`, live and ours alone during the call.
    let asked = unsafe { crate::request::ioctl(socket.as_fd(), ETHTOOL, &mut request) };
    match asked {
        // A driver that does not report its queues has one.
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Channels::default()),
        Err(e) => Err(Error::system(format!("asking for the queues of `{name}`"), e)),
        Ok(()) => Ok(channels),
    }
}

fn datagram_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Makes the interface promiscuous, because the router's MAC address is not that of the interface. This ends
/// when the descriptor is closed; the socket itself receives nothing.
pub(super) fn hear_everything(name: &str, index: u32) -> Result<OwnedFd, Error> {
    let failed = |e| Error::system(format!("having `{name}` hear every station"), e);
    let socket = datagram_socket(AddressFamily::PACKET).map_err(failed)?;
    let wish = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wish).map_err(failed)?;
    Ok(socket)
}
