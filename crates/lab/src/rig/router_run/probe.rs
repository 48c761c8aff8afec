//! Probes: frames in the load that carry the time at which they were sent. A UDP socket behind the router receives them and
//! derives the router's latency.
//!
//! The thread that sends the load also sends and receives the probes, between its bursts, so a latency is exact to the duration
//! of a burst.

use std::net::UdpSocket;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use frame::{ethernet, ipv4, udp};

use super::text::{ENDS, LISTENER, LISTENER_MAC, mac};
use super::{RouterRun, links};
use crate::tag;

/// Source address of probes: that of the load.
const SOURCE: u32 = 0xc612_0002;
/// UDP port of the socket.
const PORT: u16 = 2001;
/// Octets of the timestamp in a probe, in nanoseconds of its sender's clock.
pub(super) const TIME: usize = 8;
/// Size of the receive buffer in octets.
pub(super) const MOST: usize = 64;

/// Clock of all probes, by which a late one is distinguished from those of the next [`Probe`].
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Sender and receiver of probes.
pub(crate) struct Probe<'r> {
    room: &'r RouterRun,
    router: usize,
    socket: UdpSocket,
    octets: Vec<u8>,
    /// Time of the first probe.
    since: Duration,
    next: Duration,
    every: Duration,
    /// Number of probes sent.
    pub(crate) sent: u64,
    /// Latencies of the probes that arrived.
    pub(crate) took: Vec<Duration>,
}

impl<'r> Probe<'r> {
    /// Creates a sender and receiver of probes through a router of the room, with the interval `every` between probes.
    ///
    /// # Errors
    /// The station's addresses cannot be set on the interface behind the router, or its port is in use.
    pub(crate) fn new(room: &'r RouterRun, router: usize, every: Duration) -> Result<Self> {
        let socket = listener(room, router)?;
        let octets = written(mac(ENDS[0].1, router), PORT)?;
        let since = CLOCK.elapsed();
        Ok(Self { room, router, socket, octets, since, next: since, every, sent: 0, took: Vec::new() })
    }

    /// Sends the next probe if it is due, and receives those that have arrived.
    pub(crate) fn turn(&mut self) {
        let now = CLOCK.elapsed();
        if now >= self.next {
            self.next = now + self.every;
            self.send(now);
        }
        self.receive();
    }

    /// Receives all probes that have arrived.
    pub(crate) fn receive(&mut self) {
        let mut datagram = [0; MOST];
        while let Ok(len) = self.socket.recv(&mut datagram) {
            let now = CLOCK.elapsed();
            self.took.extend(taken(datagram.get(..len).unwrap_or_default(), (self.since, now)));
        }
    }

    fn send(&mut self, now: Duration) {
        stamp(&mut self.octets, now);
        let Some(lane) = self.room.lanes.get(self.router) else { return };
        self.sent += lane.wire.repeat(&self.octets, 1) as u64;
    }
}

/// Opens the socket of the station behind a router, whose addresses are set on the interface there.
pub(super) fn listener(room: &RouterRun, router: usize) -> Result<UdpSocket> {
    let [_, interface] = links::sides(router).map(|side| room.link.outer(&side));
    for which in ["all", interface.as_str()] {
        room.netns.set_sysctl(&format!("net.ipv4.conf.{which}.rp_filter"), "0")?;
    }
    links::ip(&room.netns, &format!("link set {interface} address {}", frame::Mac(LISTENER_MAC)))?;
    links::ip(&room.netns, &format!("address replace {LISTENER}/24 dev {interface}"))?;
    let socket = room.netns.run(|| UdpSocket::bind((LISTENER, PORT)))?.context("cannot bind a UDP socket")?;
    socket.set_nonblocking(true).context("cannot set a socket")?;
    Ok(socket)
}

/// Builds a probe from this port to the station behind a router whose first NIC has this Ethernet address.
pub(super) fn written(near: [u8; 6], source_port: u16) -> Result<Vec<u8>> {
    let mut octets = vec![0; tag::SHORTEST];
    let payload = (tag::SHORTEST - tag::UDP) as u16;
    let (destination, source) = (frame::Mac(near), frame::Mac([2, 0, 0, 0, 0, 0xaa]));
    ethernet::Header { destination, source, ethertype: ethernet::IPV4 }.write(&mut octets)?;
    ipv4::Header::new(ipv4::UDP, SOURCE, LISTENER.to_bits(), payload).write(&mut octets[tag::IP..])?;
    // UDP checksum 0 (none), because the time changes with each probe.
    udp::Header { source: source_port, destination: PORT, len: payload, checksum: 0 }
        .write(&mut octets[tag::UDP..])?;
    Ok(octets)
}

/// Writes the time at which a probe is sent.
pub(super) fn stamp(octets: &mut [u8], now: Duration) {
    let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    if let Some(place) = octets.get_mut(tag::FLOW..tag::FLOW + TIME) {
        place.copy_from_slice(&nanoseconds.to_be_bytes());
    }
}

/// Returns the latency of a probe that arrives now; `None` if it is no probe, or was sent before `since`.
fn taken(datagram: &[u8], (since, now): (Duration, Duration)) -> Option<Duration> {
    let sent = Duration::from_nanos(u64::from_be_bytes(*datagram.first_chunk::<TIME>()?));
    now.checked_sub(sent).filter(|_| sent >= since)
}

#[cfg(test)]
mod tests;
