//! The host's kernel as the guests' peer: TAPs in a network namespace of its own, with addresses and neighbour entries.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::{Confinement, Idle, IoThread, Pump};
use nic_port::NicQueues;
use uplink::{Netns, Tap, TapConfig, TapSink, TapSource};

use crate::device::{self, FAR_MAC, NEAR_MAC, STATION_MAC};

/// Name of the TAP.
const NAME: &str = "lab-tap";
/// IP address of the kernel on the TAP, in the network of the guest's first NIC.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Ethernet address of the kernel on the TAP.
pub(crate) const HOST_MAC: [u8; 6] = STATION_MAC;
/// Port of the discard service (RFC 863).
pub(crate) const DISCARD: u16 = 9;

/// Names of two TAPs between which the kernel forwards.
const NAMES: [&str; 2] = ["lab-a", "lab-b"];
/// Addresses of the guests behind them. For the guests it is one network; for the kernel it is two halves of it, and it
/// answers ARP requests for the other half (proxy ARP).
pub(crate) const GUESTS: [Ipv4Addr; 2] = [device::NEAR, Ipv4Addr::new(198, 18, 0, 129)];
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 126), Ipv4Addr::new(198, 18, 0, 254)];
const HOST_MACS: [[u8; 6]; 2] = [HOST_MAC, [2, 0, 0, 0, 9, 8]];
const GUEST_MACS: [[u8; 6]; 2] = [NEAR_MAC, FAR_MAC];

/// Two TAPs, between which the kernel forwards.
pub(crate) struct HostPair {
    /// Both directions of each TAP; the reading thread takes the source.
    pub(crate) taps: [(Option<TapSource>, Arc<TapSink>); 2],
    _netns: Netns,
}

impl HostPair {
    /// Opens both TAPs.
    pub(crate) fn open() -> Result<Self> {
        let netns = Netns::new()?;
        netns.settle(true)?;
        let open = |n: usize| -> Result<(Option<TapSource>, Arc<TapSink>)> {
            let host = (HOST_MACS[n], HOSTS[n], 25);
            let (from, to) = tap(&netns, NAMES[n], host, Some((GUESTS[n], GUEST_MACS[n])))?;
            netns.set_sysctl(&format!("net.ipv4.conf.{}.proxy_arp", NAMES[n]), "1")?;
            Ok((Some(from), to))
        };
        Ok(Self { taps: [open(0)?, open(1)?], _netns: netns })
    }
}

/// One TAP with the kernel as its peer.
pub(crate) struct HostEnd {
    /// Frames from the kernel to the guest.
    pub(crate) from: Option<TapSource>,
    /// Frames from the guest to the kernel.
    pub(crate) to: Arc<TapSink>,
    netns: Netns,
}

impl HostEnd {
    /// Opens the TAP. The guest has a static neighbour entry, so that no ARP request precedes the first frame.
    pub(crate) fn open() -> Result<Self> {
        let netns = Netns::new()?;
        netns.settle(false)?;
        let (from, to) = tap(&netns, NAME, (HOST_MAC, HOST, 24), Some((device::NEAR, NEAR_MAC)))?;
        Ok(Self { from: Some(from), to, netns })
    }

    /// Opens a UDP socket on the kernel's side.
    pub(crate) fn datagrams(&self, port: u16) -> Result<UdpSocket> {
        let socket = self.netns.run(|| UdpSocket::bind((HOST, port)))?.context("cannot bind a UDP socket")?;
        socket.set_nonblocking(true).context("cannot set a socket")?;
        Ok(socket)
    }

    /// Opens a listening TCP socket on the kernel's side.
    pub(crate) fn listen(&self, port: u16) -> Result<TcpListener> {
        self.netns.run(|| TcpListener::bind((HOST, port)))?.context("cannot bind a TCP socket")
    }

    /// Runs a closure in the TAP's namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        Ok(self.netns.run(work)?)
    }
}

/// Opens both directions of a TAP in a namespace, with this address on the kernel's side and an optional static
/// neighbour entry.
pub(crate) fn tap(
    netns: &Netns,
    name: &str,
    (mac, ip, prefix): ([u8; 6], Ipv4Addr, u8),
    neighbour: Option<(Ipv4Addr, [u8; 6])>,
) -> Result<(TapSource, Arc<TapSink>)> {
    let config = TapConfig { mac: Some(mac), netns: Some(netns), ..TapConfig::default() };
    let ports = Tap::open(name, &config).context("cannot open a TAP")?.split();
    let links = netns.links()?;
    links.add_address(name, ip, prefix)?;
    neighbour.map_or(Ok(()), |(ip, mac)| links.add_neighbour(name, ip, mac))?;
    Ok(ports)
}

/// Connects a guest's NIC and a TAP in both directions.
pub(crate) fn plug(nic: &Arc<NicQueues>, from: TapSource, to: Arc<TapSink>) -> [Pump; 2] {
    nic.transmit_in_access(to.clone());
    [Pump { source: Box::new(from), sink: nic.sink() }, Pump { source: nic.source(), sink: to }]
}

/// Starts an I/O thread, as in a running file, on this CPU; it polls for `spin` before it sleeps.
pub(crate) fn serve(cpu: usize, pumps: Vec<Pump>, spin: Duration) -> Result<IoThread> {
    IoThread::spawn("lab/vhost", &[cpu], pumps, Idle::Sleep(spin), Confinement::Off)
}

/// Creates a pair of virtual Ethernet devices between two namespaces.
pub(crate) fn veth((near, name): (&Netns, &str), (far, peer): (&Netns, &str)) -> Result<()> {
    let there = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
    let mut ip = near.command("ip");
    ip.args(["link", "add", name, "type", "veth", "peer", "name", peer, "netns", &there]);
    let done = ip.stdin(Stdio::null()).output().context("cannot start ip; install the package iproute2")?;
    ensure!(done.status.success(), "cannot make a veth: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}
