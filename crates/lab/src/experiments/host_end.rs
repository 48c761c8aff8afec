//! The host's kernel as the other side of guests: TAPs in a namespace of its own, with addresses and neighbours.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;

use anyhow::{Context, Result};
use uplink::{Netns, Tap, TapConfig, TapSink, TapSource};

use crate::device::{self, NEAR_MAC, STATION_MAC};

/// Name of the TAP.
const NAME: &str = "lab-tap";
/// The kernel's address on it, in the network of the guest's first NIC.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Its Ethernet address.
pub(super) const HOST_MAC: [u8; 6] = STATION_MAC;
/// Where datagrams are thrown away (RFC 863).
pub(super) const DISCARD: u16 = 9;

/// One TAP, and the kernel behind it.
pub(super) struct HostEnd {
    /// What the kernel sends to the guest.
    pub(super) from: Option<TapSource>,
    /// What the guest sends to the kernel.
    pub(super) to: Arc<TapSink>,
    netns: Netns,
}

impl HostEnd {
    /// Opens it. The guest at the other end is known by its address, so that nobody asks before the first frame.
    pub(super) fn open() -> Result<Self> {
        let netns = Netns::new()?;
        let links = netns.settle(false)?;
        let config = TapConfig { mac: Some(HOST_MAC), netns: Some(&netns), ..TapConfig::default() };
        let (from, to) = Tap::open(NAME, &config)?.split();
        links.set_address(NAME, HOST, 24)?;
        links.add_neighbour(NAME, device::NEAR, NEAR_MAC)?;
        Ok(Self { from: Some(from), to, netns })
    }

    /// A socket for datagrams on the kernel's side.
    pub(super) fn datagrams(&self, port: u16) -> Result<UdpSocket> {
        let socket = self.netns.run(|| UdpSocket::bind((HOST, port)))?.context("cannot bind a UDP socket")?;
        socket.set_nonblocking(true).context("cannot set a socket")?;
        Ok(socket)
    }

    /// A socket that takes connections on the kernel's side.
    pub(super) fn listen(&self, port: u16) -> Result<TcpListener> {
        self.netns.run(|| TcpListener::bind((HOST, port)))?.context("cannot bind a TCP socket")
    }

    /// Runs something in its namespace.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        Ok(self.netns.run(work)?)
    }
}
