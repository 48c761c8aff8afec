//! Hosts on both sides of the demo's router: one namespace each, with the kernel's own stack behind a TAP.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use attach::Attachment;
use frame::checksum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with,
};
use uplink::Netns;

/// Longest wait for an answer; the first one involves ARP on both sides, and a busy host lets each thread on the way wait for a CPU.
const PATIENCE: Duration = Duration::from_secs(30);
const ICMP_ECHO_REPLY: u8 = 0;
const ICMP_ECHO: u8 = 8;
const ICMP_TIME_EXCEEDED: u8 = 11;
/// Length of an IPv4 header without options in octets; raw ICMP sockets deliver it before the message.
const IP_HEADER: usize = 20;
const IP_SOURCE: usize = 12;
/// ICMP identifier of the demo's echo requests.
const IDENTIFIER: u16 = 0x7272;
const PORT: u16 = 7000;

/// Names and addresses of one side.
pub(super) struct Side {
    nic: &'static str,
    interface: &'static str,
    pub(super) ip: Ipv4Addr,
    gateway: Ipv4Addr,
}

/// Side that sends requests.
pub(super) const LEFT: Side = Side {
    nic: "demo.left",
    interface: "rr-left",
    ip: Ipv4Addr::new(192, 0, 2, 2),
    gateway: Ipv4Addr::new(192, 0, 2, 1),
};
/// Side that answers.
pub(super) const RIGHT: Side = Side {
    nic: "demo.right",
    interface: "rr-right",
    ip: Ipv4Addr::new(198, 51, 100, 2),
    gateway: Ipv4Addr::new(198, 51, 100, 1),
};

/// Host on one side, in a namespace of its own.
pub(super) struct Host {
    side: &'static Side,
    netns: Netns,
}

impl Host {
    /// Creates the namespace, which disappears when this process ends.
    pub(super) fn new(side: &'static Side) -> Result<Self> {
        let netns = Netns::new()?;
        netns.settle(false)?;
        Ok(Self { side, netns })
    }

    /// Creates the TAP with an address and a default route, and returns its other end for the router.
    pub(super) fn plug(&self) -> Result<(String, Arc<dyn Attachment>)> {
        let plug = super::plug(self.side.nic, self.side.interface, &self.netns)?;
        let links = self.netns.links()?;
        links.add_address(self.side.interface, self.side.ip, 24)?;
        links.add_route(Ipv4Addr::UNSPECIFIED, 0, self.side.gateway)?;
        Ok(plug)
    }

    /// Sends one echo request; returns the time until its answer.
    pub(super) fn ping(&self, to: Ipv4Addr, sequence: u16) -> Result<Duration> {
        let socket = self.icmp()?;
        let mut request = [0u8; 64];
        request[0] = ICMP_ECHO;
        request[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
        request[6..8].copy_from_slice(&sequence.to_be_bytes());
        let sum = checksum::of(&request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        let start = Instant::now();
        sendto(&socket, &request, SendFlags::empty(), &SocketAddrV4::new(to, 0))
            .context("cannot send a ping")?;
        wait_for(&socket, |packet| {
            let icmp = packet.get(IP_HEADER..)?;
            (icmp.first() == Some(&ICMP_ECHO_REPLY) && icmp.get(4..8) == Some(&request[4..8])).then_some(())
        })?;
        Ok(start.elapsed())
    }

    /// Sends a packet with TTL 1; returns the address that reports its expiry.
    pub(super) fn expired_at(&self, to: Ipv4Addr) -> Result<Ipv4Addr> {
        let socket = self.icmp()?;
        let udp = self.netns.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
        udp.set_ttl(1)?;
        udp.send_to(b"one hop", (to, PORT)).context("cannot send a datagram")?;
        wait_for(&socket, |packet| {
            let source: [u8; 4] = packet.get(IP_SOURCE..IP_SOURCE + 4)?.try_into().ok()?;
            (packet.get(IP_HEADER) == Some(&ICMP_TIME_EXCEEDED)).then(|| source.into())
        })
    }

    fn icmp(&self) -> Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = || socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::ICMP));
        self.netns.run(open)?.context("cannot open a raw socket")
    }
}

/// Waits for a packet that `found` accepts.
fn wait_for<T>(socket: &OwnedFd, mut found: impl FnMut(&[u8]) -> Option<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 2048];
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let timeout = Timespec::try_from(left).context("a wait that is no time")?;
        let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
        if !matches!(ready, Ok(1..)) {
            continue;
        }
        if let Ok(((packet, _), _)) = recv(socket, &mut buffer, RecvFlags::empty())
            && let Some(value) = found(packet)
        {
            return Ok(value);
        }
    }
    bail!("nothing came within {PATIENCE:?}")
}

/// Sends octets from left to right for `time`; returns the number received and the seconds. Every octet is
/// checked.
pub(super) fn tcp(left: &Host, right: &Host, time: Duration, stop: &Arc<AtomicBool>) -> Result<(u64, f64)> {
    let listener =
        right.netns.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))?.context("cannot listen")?;
    let start = Instant::now();
    let receiver = thread::spawn(move || receive(&listener));
    let to = (right.side.ip, PORT).into();
    let sender = left.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE))?;
    let sent = sender
        .map_err(|error| anyhow!("TCP does not connect: {error}"))
        .and_then(|stream| send(stream, time, stop));
    let received = receiver.join().map_err(|_| anyhow!("the receiving side gave up"))?;
    let (sent, received) = (sent?, received?);
    if sent != received {
        bail!("TCP: {sent} octets were sent and {received} came");
    }
    Ok((received, start.elapsed().as_secs_f64()))
}

/// Expected octet at each position of the stream.
fn octet(at: u64) -> u8 {
    (at % 251) as u8
}

fn send(mut stream: TcpStream, time: Duration, stop: &AtomicBool) -> Result<u64> {
    let block: Vec<u8> = (0..251 * 256).map(octet).collect();
    let (start, mut sent) = (Instant::now(), 0);
    stream.set_write_timeout(Some(PATIENCE))?;
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        stream.write_all(&block).context("TCP stands still")?;
        sent += block.len() as u64;
    }
    Ok(sent)
}

fn receive(listener: &TcpListener) -> Result<u64> {
    listener.set_nonblocking(true)?;
    let end = Instant::now() + PATIENCE;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error).context("nobody connects"),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut buffer, mut at) = (vec![0; 64 << 10], 0u64);
    loop {
        let n = stream.read(&mut buffer).context("TCP stands still")?;
        if n == 0 {
            return Ok(at);
        }
        let wrong = buffer[..n].iter().zip(at..).find(|(got, place)| **got != octet(*place));
        if let Some((got, place)) = wrong {
            bail!("TCP: octet {place} came as {got}");
        }
        at += n as u64;
    }
}
