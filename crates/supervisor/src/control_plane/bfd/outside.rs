//! What the sessions of BFD reach: sockets in the control namespace, and the threads that act on verdicts.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use anyhow::Result;
use bfd::{Agent, Arrived, MULTIHOP_PORT, PORT, Path, TTL, Told};
use netns::Namespace;
use uplink::datagrams::{Datagrams, sender};

use super::News;
use crate::bell::Ringer;

/// Most packets taken from a socket in a turn.
const MOST: usize = 1024;
/// Octets of the longest packet that is looked at: longer ones are authenticated, which no session is.
const LONGEST: usize = 128;
/// Senders beyond the number of sessions before those that are not used any more are closed.
const SPARE: usize = 64;
/// Source ports tried for a session if others have its own.
const TRIES: u16 = 8;

/// Address, interface and port that a session sends from.
type Source = (IpAddr, u32, u16);

/// See the module.
pub(super) struct Outside {
    namespace: Namespace,
    /// Receiving sockets with their ports.
    pub(super) sockets: Vec<(u16, Datagrams)>,
    senders: HashMap<Source, UdpSocket>,
    news: Ringer<News>,
}

impl Outside {
    /// Opens the receiving sockets.
    ///
    /// # Errors
    /// A port is in use in the namespace, or no descriptors are left.
    pub(super) fn open(namespace: Namespace, news: Ringer<News>) -> Result<Self> {
        let places = [(PORT, false), (PORT, true), (MULTIHOP_PORT, false), (MULTIHOP_PORT, true)];
        let open =
            |(port, is_ipv6)| -> io::Result<(u16, Datagrams)> { Ok((port, Datagrams::open(port, is_ipv6)?)) };
        let sockets = namespace.within(|| places.into_iter().map(open).collect::<io::Result<Vec<_>>>())??;
        Ok(Self { namespace, sockets, senders: HashMap::new(), news })
    }

    /// Has the agent take the packets that have arrived.
    pub(super) fn receive(&mut self, agent: &mut Agent, now: u64) {
        let mut octets = [0; LONGEST];
        for at in 0..self.sockets.len() {
            for _ in 0..MOST {
                let (port, socket) = &self.sockets[at];
                let (port, received) = (*port, socket.receive(&mut octets));
                let Ok((len, origin)) = received else { break };
                let Some(origin) = origin else { continue };
                let arrived = Arrived {
                    source: origin.source,
                    destination: origin.destination,
                    index: origin.index,
                    port,
                    ttl: origin.ttl,
                    payload: &octets[..len],
                    at: now,
                };
                // What is dropped is counted.
                let _ = agent.take(&arrived, &mut |told| self.take(told));
            }
        }
    }

    /// Does what sessions ask for.
    pub(super) fn take(&mut self, told: Told<'_>) {
        match told {
            Told::Send { path, source_port, payload } => self.send(path, source_port, payload),
            Told::Verdict { index, remote, is_alive } => self.tell(News::Verdict { index, remote, is_alive }),
            Told::Unsupported { path, what } => {
                let what = format!("BFD: {}: it works without {what}, which is not done here", path.remote);
                self.tell(News::Notice(what));
            }
            Told::Refused { path } => {
                let what = format!("BFD: {}: there are too many sessions; it stays down", path.remote);
                self.tell(News::Notice(what));
            }
        }
    }

    pub(super) fn tell(&self, news: News) {
        self.news.send(news);
    }

    /// Closes senders of sessions that are gone, if there are so many sessions.
    pub(super) fn tidy(&mut self, sessions: usize) {
        if self.senders.len() > sessions + SPARE {
            self.senders.clear();
        }
    }

    /// Sends a packet. One that cannot be sent is lost, as on a link that is down.
    fn send(&mut self, path: &Path, source_port: u16, payload: &[u8]) {
        let port = if path.is_multihop { MULTIHOP_PORT } else { PORT };
        let from = (local(path), path.index, source_port);
        if !self.senders.contains_key(&from) {
            let opened = self.namespace.within(|| opened(from));
            let Ok(Some(sender)) = opened else { return };
            self.senders.insert(from, sender);
        }
        if let Some(sender) = self.senders.get(&from) {
            let _ = sender.send_to(payload, place(path.remote, port, path.index));
        }
    }
}

/// Opens a sender, in the namespace.
fn opened((local, index, port): Source) -> Option<UdpSocket> {
    let ports = (0..TRIES).map(|other| port ^ other);
    ports.map(|port| sender(place(local, port, index), TTL)).find_map(Result::ok)
}

/// Address that a session sends from, of the family of its other side.
const fn local(path: &Path) -> IpAddr {
    match (path.local, path.remote) {
        (IpAddr::V6(ip), IpAddr::V4(_)) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (IpAddr::V4(ip), IpAddr::V6(_)) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        (local, _) => local,
    }
}

/// Address of a socket; a link-local one is of an interface.
const fn place(ip: IpAddr, port: u16, index: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, index)),
        _ => SocketAddr::new(ip, port),
    }
}
