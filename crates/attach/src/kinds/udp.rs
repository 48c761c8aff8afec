//! `udp:LOCAL-REMOTE`: Ethernet in UDP. A frame is a datagram between these two, with nothing before it: a port of a tunnel, which hides
//! and proves nothing. A frame costs a system call, by which no thread that moves frames can name anybody but the other end: the
//! filters allow no address (`sandbox`), and what they cannot look into (sendmsg(2), sendmmsg(2)) such a thread may not call.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, Result};
use ledger::counters;
use port::{Bell, Completed, Frame, Frames, Sink, Source, octets};
use ring::{BURST, Bytes};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sandbox::Confinement;

use crate::{
    Attachment, Finding, Handed, Kept, Kind, Lack, Opened, Outside, Place, Ports, State, Traits, Wanted,
    lack, plain,
};

/// Octets of the longest frame that a NIC takes, and of an Ethernet header: shorter frames are none.
const LONGEST: usize = 2048;
const SHORTEST: usize = 14;
/// Octets of a UDP header and an IP header: version 4, version 6.
const HEADERS: [usize; 2] = [8 + 20, 8 + 40];

/// More datagrams than a socket holds before it is connected, so that nobody keeps us taking them out.
const MOST_LEFT: u32 = 1 << 16;

pub(crate) const KIND: Kind = Kind {
    read: |_, name| ends(name).map(drop),
    traits: |_| Traits { is_by_calls: true, ..Traits::default() },
    counts: &[("udp_read", UdpReadCounters::FIELDS), ("udp_write", UdpWriteCounters::FIELDS)],
    ..Kind::plain("udp", Some("LOCAL-REMOTE"), Place::Outside { look, open, serve })
};

/// Our end, and the other one.
fn ends(name: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let is_one = |ip: IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    let end = |text: &str| text.parse().ok().filter(|end: &SocketAddr| end.port() != 0 && is_one(end.ip()));
    let both = name.split_once('-').and_then(|(local, remote)| Some((end(local)?, end(remote)?)));
    both.filter(|(local, remote)| local.is_ipv4() == remote.is_ipv4()).ok_or_else(|| {
        let example = "udp:192.0.2.1:4789-198.51.100.1:4789";
        format!("{name:?} names no two ends of one version of IP; write e.g. {example:?}")
    })
}

fn look(wanted: &Wanted) -> Result<Finding, Vec<Lack>> {
    let (local, remote) = ends(wanted.attach.name()).map_err(lack)?;
    if let Err(error) = UdpSocket::bind((local.ip(), 0)) {
        return Err(lack(format!("cannot have the address {}: {error}", local.ip())));
    }
    let most = wanted.mtu as usize + SHORTEST + HEADERS[usize::from(remote.is_ipv6())];
    Ok((State::Ok, format!("sends IP packets of up to {most} octets to {remote}, and cuts none")))
}

/// As many frames wait in the kernel as the NIC wants, if they are not all of the largest size.
fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let (local, remote) = ends(wanted.attach.name()).map_err(anyhow::Error::msg)?;
    let socket = UdpSocket::bind(local).with_context(|| format!("cannot have {local}"))?;
    socket.connect(remote).with_context(|| format!("cannot reach {remote} from {local}"))?;
    let waiting = (wanted.queue_len as usize).saturating_mul(LONGEST);
    // Whoever may not have more has as much as the host allows.
    let sized = sockopt::set_socket_recv_buffer_size_force(&socket, waiting)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, waiting));
    // What is too long is refused here, and not cut on the way.
    let whole = match local {
        SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO),
        SocketAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO),
    };
    sized.and(whole).with_context(|| format!("settling the socket at {local}"))?;
    // What came before it was connected may be anybody's.
    let is_left = |_: &u32| recv(&socket, &mut [0_u8][..], RecvFlags::DONTWAIT).is_ok();
    (0..MOST_LEFT).take_while(is_left).for_each(drop);
    Ok(Box::new(Kept { descriptors: vec![socket.into()], ..Kept::default() }))
}

fn serve(mut handed: Handed, _: &Wanted, _: Confinement) -> Result<Arc<dyn Attachment>> {
    let socket = Arc::new(handed.last()?);
    Ok(plain(move |_| {
        let (slots, read) = (vec![0; BURST * (LONGEST + 1)], Arc::<UdpReadCounters>::default());
        let source = Receiver { socket: socket.clone(), slots, counters: read.clone() };
        let sink = Arc::new(Sender { socket: socket.clone(), counters: UdpWriteCounters::default() });
        let written = sink.clone();
        let outside = Outside::counting(move |visit| {
            visit("udp.read", &*read);
            visit("udp.write", &written.counters);
        });
        Ok(Ports { sources: vec![Box::new(source)], sinks: vec![sink], outside, ..Ports::default() })
    }))
}

counters! {
    /// Frames that came.
    pub struct UdpReadCounters {
        /// Frames shown to the taker.
        frames,
        /// Octets of those frames.
        bytes,
        /// Times the other end was told to have refused what was sent before.
        refused,
        /// Datagrams longer than a NIC takes.
        drop_too_long,
        /// Datagrams shorter than an Ethernet header.
        drop_too_short,
    }

    /// Frames that went.
    pub struct UdpWriteCounters {
        /// Frames the kernel took.
        frames,
        /// Octets of those frames.
        bytes,
        /// Frames whose checksum was filled in on the way here.
        checksums,
        /// Frames that were cut on the way here.
        segmented,
        /// Segments that they were cut into.
        segments,
        /// Times the other end was told to have refused what was sent before.
        refused,
        /// Frames lost on the way here, because they ask for what does not fit them.
        drop_bad_offload,
        /// Frames lost because the kernel's queue was full.
        drop_full,
        /// Frames lost because they are longer than the way to the other end has room for.
        drop_too_long,
        /// Frames lost for another reason.
        drop_other,
    }
}

struct Receiver {
    socket: Arc<OwnedFd>,
    /// Room for a burst, each with an octet more, so that a frame that is too long shows itself.
    slots: Vec<u8>,
    counters: Arc<UdpReadCounters>,
}

impl Source for Receiver {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let (socket, counters, mut frames) = (&self.socket, &self.counters, Frames::new());
        for slot in self.slots.chunks_exact_mut(LONGEST + 1).take(budget.min(BURST)) {
            match recv(socket, &mut *slot, RecvFlags::DONTWAIT) {
                Ok((len, _)) if len < SHORTEST => counters.drop_too_short.add(1),
                Ok((len, _)) if len > LONGEST => counters.drop_too_long.add(1),
                Ok((len, _)) => frames.push(Frame::new(Bytes::from_slice(&mut slot[..len]))),
                // That was told, and nothing else was done.
                Err(Errno::CONNREFUSED) => counters.refused.add(1),
                Err(_) => break,
            }
        }
        if !frames.is_empty() {
            counters.frames.add(frames.len() as u64);
            counters.bytes.add(octets(&frames));
            take(&frames);
        }
        frames.len()
    }

    /// It rings as long as frames wait, so nothing has to be armed.
    fn bell(&self) -> Bell<'_> {
        Bell::Readable(self.socket.as_fd())
    }
}

struct Sender {
    socket: Arc<OwnedFd>,
    counters: UdpWriteCounters,
}

impl Sink for Sender {
    /// A frame that is refused for itself is counted and passed over; when the kernel takes nothing the rest is lost.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let (counters, mut copy) = (&self.counters, [0; LONGEST]);
        for (handled, frame) in frames.iter().enumerate() {
            let len = frame.octets().copy_to_slice(&mut copy);
            let sends = || send(&self.socket, &copy[..len], SendFlags::DONTWAIT);
            let mut sent = if frame.len() > LONGEST { Err(Errno::MSGSIZE) } else { sends() };
            // That was told, and nothing else was done.
            if sent == Err(Errno::CONNREFUSED) {
                counters.refused.add_shared(1);
                sent = sends();
            }
            match sent {
                Ok(_) => {
                    counters.frames.add_shared(1);
                    counters.bytes.add_shared(len as u64);
                }
                Err(Errno::MSGSIZE) => counters.drop_too_long.add_shared(1),
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    counters.drop_full.add_shared((frames.len() - handled) as u64);
                    return handled;
                }
                Err(_) => counters.drop_other.add_shared(1),
            }
        }
        frames.len()
    }

    fn completed(&self, done: &Completed) {
        self.counters.checksums.add_shared(done.checksums);
        self.counters.segmented.add_shared(done.segmented);
        self.counters.segments.add_shared(done.segments);
        self.counters.drop_bad_offload.add_shared(done.drop_bad_offload);
    }
}

#[cfg(test)]
mod tests;
