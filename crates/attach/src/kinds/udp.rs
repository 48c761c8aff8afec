//! `udp:LOCAL-REMOTE`: Ethernet in UDP. A frame is a datagram between these two ends, without a header: one
//! port of a tunnel, without encryption or authentication. Each frame costs one system call, by which an I/O
//! thread can reach no host but the other end: the seccomp filters (`sandbox`) permit no address, and calls
//! whose arguments they cannot check (sendmsg(2), sendmmsg(2)) are forbidden to such a thread.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use ledger::counters;
use port::{Bell, Completed, Frame, Frames, Sink, Source, octets};
use ring::{BURST, Bytes};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sandbox::Confinement;
use uplink::udp::is_half_full;

use crate::{
    Attachment, AttachmentProperties, Finding, FixedDescriptors, HandedOver, HostResource, Kind,
    MissingRequirement, NicRequirements, Outside, Place, Ports, State, lack, plain,
};

/// Octets of the longest frame of a NIC, tags included, and of an Ethernet header, which is the minimum.
const LONGEST: usize = 9216 + SHORTEST + 8;
const SHORTEST: usize = 14;
/// Octets of kernel memory that a waiting frame takes, at most, without jumbo frames.
const WAITING: usize = 2048;
/// Octets of UDP and IP headers: version 4, version 6.
const HEADERS: [usize; 2] = [8 + 20, 8 + 40];

/// Limit for discarding early datagrams: more than a socket holds before it is connected, so that a flood
/// cannot keep us busy.
const MOST_LEFT: u32 = 1 << 16;

/// Frames of a control plane that wait until the kernel takes more.
const MOST_HELD: usize = 64;
/// Passes without room for each look at how much waits in the kernel: a look is a system call.
const LOOK_EVERY: u32 = 8;

pub(crate) const KIND: Kind = Kind {
    read: |_, name| ends(name).map(drop),
    traits: |_| AttachmentProperties { is_by_calls: true, ..AttachmentProperties::default() },
    counts: &[("udp_read", UdpReadCounters::FIELDS), ("udp_write", UdpWriteCounters::FIELDS)],
    ..Kind::plain("udp", Some("LOCAL-REMOTE"), Place::Outside { look, open, serve })
};

/// Parses our end and the other one.
fn ends(name: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let is_one = |ip: IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    let end = |text: &str| text.parse().ok().filter(|end: &SocketAddr| end.port() != 0 && is_one(end.ip()));
    let both = name.split_once('-').and_then(|(local, remote)| Some((end(local)?, end(remote)?)));
    both.filter(|(local, remote)| local.is_ipv4() == remote.is_ipv4()).ok_or_else(|| {
        let example = "udp:192.0.2.1:4789-198.51.100.1:4789";
        format!("{name:?} names no two ends of one version of IP; write e.g. {example:?}")
    })
}

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let (local, remote) = ends(wanted.attach.name()).map_err(lack)?;
    if let Err(error) = UdpSocket::bind((local.ip(), 0)) {
        return Err(lack(format!("cannot have the address {}: {error}", local.ip())));
    }
    let most = wanted.mtu as usize + SHORTEST + HEADERS[usize::from(remote.is_ipv6())];
    Ok((State::Ok, format!("sends IP packets of up to {most} octets to {remote}, and cuts none")))
}

/// Opens the socket. The kernel queues as many frames as the NIC wants, unless all have the maximum size.
fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let (local, remote) = ends(wanted.attach.name()).map_err(anyhow::Error::msg)?;
    let socket = UdpSocket::bind(local).with_context(|| format!("cannot have {local}"))?;
    socket.connect(remote).with_context(|| format!("cannot reach {remote} from {local}"))?;
    let waiting = (wanted.queue_len as usize).saturating_mul(WAITING.max(wanted.mtu as usize + HEADERS[1]));
    // Without the privilege to exceed it, the host's limit applies.
    let sized = sockopt::set_socket_recv_buffer_size_force(&socket, waiting)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, waiting));
    // Datagrams that are too long are refused here, not fragmented on the way.
    let whole = match local {
        SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO),
        SocketAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO),
    };
    sized.and(whole).with_context(|| format!("settling the socket at {local}"))?;
    // Datagrams that arrived before the socket was connected may be from any sender.
    let is_left = |_: &u32| recv(&socket, &mut [0_u8][..], RecvFlags::DONTWAIT).is_ok();
    (0..MOST_LEFT).take_while(is_left).for_each(drop);
    Ok(Box::new(FixedDescriptors { descriptors: vec![socket.into()], ..FixedDescriptors::default() }))
}

fn serve(handed: HandedOver, _: &NicRequirements, _: Confinement) -> Result<Arc<dyn Attachment>> {
    let tunnel = Tunnel::adopt(handed)?;
    Ok(plain(move |service| Ok(tunnel.ports(service.wanted.has_control))))
}

/// Our end of a tunnel.
#[derive(Clone, Debug)]
pub struct Tunnel {
    socket: Arc<OwnedFd>,
}

impl Tunnel {
    /// Adopts a tunnel that was opened elsewhere.
    ///
    /// # Errors
    /// Its socket is missing.
    pub fn adopt(mut handed: HandedOver) -> Result<Self> {
        Ok(Self { socket: Arc::new(handed.last()?) })
    }

    /// Returns the ports of both directions: a source, a sink, and the way out for frames of a control plane. `has_control`: there is
    /// one, for whose frames a full queue is searched.
    pub fn ports(&self, has_control: bool) -> Ports {
        let read = Arc::<UdpReadCounters>::default();
        let source = Receiver::new(self.socket.clone(), read.clone(), has_control);
        let sink = Arc::new(Sender::new(self.socket.clone()));
        let control: Arc<dyn Sink> = Arc::new(ControlSender(sink.clone()));
        let written = sink.clone();
        let outside = Outside::counting(move |visit| {
            visit("udp.read", &*read);
            visit("udp.write", &written.counters);
        });
        let (sources, control): (Vec<Box<dyn Source>>, _) = (vec![Box::new(source)], Some(control));
        Ports { sources, sinks: vec![sink], control, outside, ..Ports::default() }
    }
}

counters! {
    /// Counters of received frames.
    pub struct UdpReadCounters {
        /// Frames passed to the consumer.
        frames,
        /// Octets of those frames.
        bytes,
        /// ICMP errors reporting that the other end refused earlier datagrams.
        refused,
        /// Datagrams lost because they are longer than a NIC accepts.
        drop_too_long,
        /// Datagrams lost because they are shorter than an Ethernet header.
        drop_too_short,
    }

    /// Counters of transmitted frames.
    pub struct UdpWriteCounters {
        /// Frames that the kernel has accepted.
        frames,
        /// Octets of those frames.
        bytes,
        /// Frames whose checksum was filled in before sending.
        checksums,
        /// Frames that were segmented before sending.
        segmented,
        /// Segments made of them.
        segments,
        /// ICMP errors reporting that the other end refused earlier datagrams.
        refused,
        /// Frames lost before sending, because their offload request is invalid for them.
        drop_bad_offload,
        /// Frames lost because the kernel's queue was full.
        drop_full,
        /// Frames lost because they are longer than the path MTU permits.
        drop_too_long,
        /// Frames lost for another reason.
        drop_other,
    }
}

struct Receiver {
    socket: Arc<OwnedFd>,
    /// Buffers for a burst, each one octet larger than the longest frame, so that longer ones are detected.
    slots: Vec<u8>,
    counters: Arc<UdpReadCounters>,
    /// True if frames do not wait for room while half of the kernel's queue is in use: some of them have to be found.
    overflows: bool,
    /// True if that is so, as of the last look.
    is_crowded: bool,
    passes: u32,
}

impl Receiver {
    fn new(socket: Arc<OwnedFd>, counters: Arc<UdpReadCounters>, overflows: bool) -> Self {
        let slots = vec![0; BURST * (LONGEST + 1)];
        Self { socket, slots, counters, overflows, is_crowded: false, passes: 0 }
    }

    /// Looks how much waits in the kernel.
    fn look(&mut self) {
        self.is_crowded = self.overflows && is_half_full(self.socket.as_fd());
    }
}

impl Source for Receiver {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let (socket, counters, mut frames) = (&self.socket, &self.counters, Frames::new());
        for slot in self.slots.chunks_exact_mut(LONGEST + 1).take(budget.min(BURST)) {
            match recv(socket, &mut *slot, RecvFlags::DONTWAIT) {
                Ok((len, _)) if len < SHORTEST => counters.drop_too_short.add(1),
                Ok((len, _)) if len > LONGEST => counters.drop_too_long.add(1),
                Ok((len, _)) => frames.push(Frame::new(Bytes::from_slice(&mut slot[..len]))),
                // The call only reported this error and did nothing else.
                Err(Errno::CONNREFUSED) => counters.refused.add(1),
                Err(_) => break,
            }
        }
        if !frames.is_empty() {
            counters.frames.add(frames.len() as u64);
            counters.bytes.add(octets(&frames));
            take(&frames);
        }
        let shown = frames.len();
        drop(frames);
        if self.is_crowded {
            self.look();
        }
        shown
    }

    fn waits(&self) -> bool {
        !self.is_crowded
    }

    fn tend(&mut self) {
        self.passes = self.passes.wrapping_add(1);
        if self.passes.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    /// The socket is readable as long as frames wait, so nothing needs to be armed.
    fn bell(&self) -> Bell<'_> {
        Bell::Readable(self.socket.as_fd())
    }
}

struct Sender {
    socket: Arc<OwnedFd>,
    counters: UdpWriteCounters,
    /// Frames of a control plane that the kernel has not taken yet, in order.
    held: Mutex<VecDeque<Vec<u8>>>,
    /// True if there are any.
    is_holding: AtomicBool,
}

impl Sender {
    fn new(socket: Arc<OwnedFd>) -> Self {
        let (counters, held) = (UdpWriteCounters::default(), Mutex::default());
        Self { socket, counters, held, is_holding: AtomicBool::new(false) }
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a datagram. An ICMP error about earlier ones is reported by a call that does nothing else: then sends once more.
    fn send(&self, octets: &[u8]) -> Result<usize, Errno> {
        let sends = || send(&self.socket, octets, SendFlags::DONTWAIT);
        match sends() {
            Err(error) if !matches!(error, Errno::AGAIN | Errno::NOBUFS) => {
                self.counters.refused.add_shared(u64::from(error == Errno::CONNREFUSED));
                sends()
            }
            sent => sent,
        }
    }

    /// Sends a frame, and counts it, or its loss if the kernel refuses it individually; returns false if it takes none now.
    fn pass(&self, octets: &[u8]) -> bool {
        let counters = &self.counters;
        match self.send(octets) {
            Ok(_) => {
                counters.frames.add_shared(1);
                counters.bytes.add_shared(octets.len() as u64);
            }
            Err(Errno::MSGSIZE) => counters.drop_too_long.add_shared(1),
            Err(Errno::AGAIN | Errno::NOBUFS) => return false,
            Err(_) => counters.drop_other.add_shared(1),
        }
        true
    }

    /// Sends what is held; returns false if some of it still is.
    fn release(&self) -> bool {
        if !self.is_holding.load(Ordering::Relaxed) {
            return true;
        }
        let mut held = self.held();
        while held.front().is_some_and(|octets| self.pass(octets)) {
            held.pop_front();
        }
        self.is_holding.store(!held.is_empty(), Ordering::Relaxed);
        held.is_empty()
    }

    /// Holds a copy of a frame back; returns false if there is no place for it.
    #[cold]
    fn hold(&self, octets: &[u8]) -> bool {
        let mut held = self.held();
        let has_place = held.len() < MOST_HELD;
        if has_place {
            held.push_back(octets.to_vec());
            self.is_holding.store(true, Ordering::Relaxed);
        }
        has_place
    }

    /// Shows each frame to `send`, as long as that returns true; returns how many were handled. The others are lost.
    fn send_all(&self, frames: &[Frame<'_>], mut send: impl FnMut(&[u8]) -> bool) -> usize {
        let mut copy = [0; LONGEST];
        for (handled, frame) in frames.iter().enumerate() {
            let len = frame.octets().copy_to_slice(&mut copy);
            if frame.len() > LONGEST {
                self.counters.drop_too_long.add_shared(1);
            } else if !send(&copy[..len]) {
                self.counters.drop_full.add_shared((frames.len() - handled) as u64);
                return handled;
            }
        }
        frames.len()
    }
}

impl Sink for Sender {
    /// A frame that is refused individually is counted and skipped; if the kernel accepts no frames, the rest
    /// is lost.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let is_free = self.release();
        self.send_all(frames, |octets| is_free && self.pass(octets))
    }

    fn completed(&self, done: &Completed) {
        self.counters.checksums.add_shared(done.checksums);
        self.counters.segmented.add_shared(done.segmented);
        self.counters.segments.add_shared(done.segments);
        self.counters.drop_bad_offload.add_shared(done.drop_bad_offload);
    }
}

/// Sender of the frames of a control plane. What the kernel does not take at once is held back, and sent before all other frames; that
/// allocates, which only happens while its queue is full.
struct ControlSender(Arc<Sender>);

impl Sink for ControlSender {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let sender = &*self.0;
        let mut is_free = sender.release();
        sender.send_all(frames, |octets| {
            is_free = is_free && sender.pass(octets);
            is_free || sender.hold(octets)
        })
    }

    /// Has the kernel take what is held, if it can: nothing else may be delivered for long.
    fn room(&self) -> usize {
        self.0.release();
        usize::MAX
    }

    fn completed(&self, done: &Completed) {
        self.0.completed(done);
    }
}

#[cfg(test)]
mod tests;
