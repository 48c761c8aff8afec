//! Protocol between FRR's bfdd and a data plane that keeps its sessions (`bfdd --dplaneaddr`), as in `bfdd/bfddp_packet.h` of
//! FRR 8.4. bfdd listens, the data plane connects. All numbers are in network order, except what a reply only repeats.
//!
//! ```text
//! header (8)   version 1, zero, type (2), id (2; 0: no reply is expected), length (2; of header and payload)
//! session      flags (4), source (16), destination (16), number, min tx, min rx, min echo tx, min echo rx, hold (4 each),
//!              least ttl, multiplier, zero (2), interface index (4), interface name (64)
//! state change number, remote number, remote flags, desired tx, required rx, required echo rx (4 each), state, diagnostic,
//!              multiplier, zero
//! counters     number (4), zero (4), octets and packets of control and echo, in and out (8 each)
//! echo         time of the data plane, time of bfdd (8 each)
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::{LEN, State};
use crate::session::{Config, Session};
use crate::sessions::{Path, Traffic, Watch};

/// Version of the protocol (`BFD_DP_VERSION`).
pub const VERSION: u8 = 1;
/// Octets of a message's header.
pub const HEADER: usize = 8;
/// Octets of a session.
pub const SESSION: usize = 132;
/// Octets of the longest message accepted: those of newer versions may be longer than a session.
const LONGEST: usize = 4096;
/// Octets of a control packet with its headers, for the counters of octets: IPv4, UDP.
const WIRE: u64 = LEN as u64 + 28;

/// Types of messages (`enum bfddp_message_type`).
mod types {
    pub(super) const ECHO_REQUEST: u16 = 0;
    pub(super) const ECHO_REPLY: u16 = 1;
    pub(super) const ADD_SESSION: u16 = 2;
    pub(super) const DELETE_SESSION: u16 = 3;
    pub(super) const STATE_CHANGE: u16 = 4;
    pub(super) const REQUEST_COUNTERS: u16 = 5;
    pub(super) const COUNTERS: u16 = 6;
}

/// Flags of a session (`enum bfddp_session_flag`).
mod flags {
    pub(super) const MULTIHOP: u32 = 1;
    pub(super) const DEMAND: u32 = 1 << 1;
    pub(super) const ECHO: u32 = 1 << 3;
    pub(super) const IPV6: u32 = 1 << 4;
    pub(super) const PASSIVE: u32 = 1 << 5;
    pub(super) const SHUTDOWN: u32 = 1 << 6;
}

/// Flags of the other side in a state change (`enum bfd_remote_flags`).
mod remote_flags {
    pub(super) const INDEPENDENT: u32 = 1;
    pub(super) const DEMAND: u32 = 1 << 1;
}

/// Message of bfdd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Add a session, or change its settings.
    Add(Wanted),
    /// Delete the session with this number.
    Delete(u32),
    /// Tell the counters of a session, in a reply with this id.
    Counters {
        /// Id of the request.
        id: u16,
        /// Number of the session.
        number: u32,
    },
    /// Answer at once, to show that the data plane is alive.
    Echo {
        /// Id of the request.
        id: u16,
        /// Payload, which is returned.
        payload: [u8; 16],
    },
    /// A message of another type.
    Other(u16),
}

/// Session that bfdd wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Session.
    pub watch: Watch,
    /// Name of the interface; empty if bfdd gives none.
    pub interface: String,
    /// What bfdd asks for and the data plane does not do: `echo`, `demand`.
    pub unsupported: Vec<&'static str>,
}

/// Reason why the messages cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another version.
    #[error("expected version {VERSION} of bfdd's data plane protocol, found {0}: use FRR 8.4 to 10")]
    Version(u8),
    /// A length that a message cannot have.
    #[error("expected a message of bfdd of {HEADER} to {LONGEST} octets, found {0}")]
    Length(u16),
}

/// Cuts bfdd's stream into messages, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub struct Orders {
    waiting: Vec<u8>,
}

impl Orders {
    /// Takes octets of the stream; returns the messages that are whole now. Keeps less than a message.
    ///
    /// # Errors
    /// The stream cannot be read on: close the connection, and connect again; bfdd sends all sessions then.
    pub fn take(&mut self, octets: &[u8]) -> Result<Vec<Order>, Error> {
        self.waiting.extend_from_slice(octets);
        let (mut orders, mut rest) = (Vec::new(), self.waiting.as_slice());
        while let Some((order, len)) = first(rest)? {
            orders.push(order);
            rest = &rest[len..];
        }
        let taken = self.waiting.len() - rest.len();
        self.waiting.drain(..taken);
        Ok(orders)
    }

    /// Forgets what waits: a new connection begins.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// The first message of a stream and its length, if it is whole.
fn first(stream: &[u8]) -> Result<Option<(Order, usize)>, Error> {
    let Some(header) = stream.first_chunk::<HEADER>() else { return Ok(None) };
    let (kind, id, length) = (be16(header, 2), be16(header, 4), be16(header, 6));
    if header[0] != VERSION {
        return Err(Error::Version(header[0]));
    }
    if !(HEADER..=LONGEST).contains(&length.into()) {
        return Err(Error::Length(length));
    }
    let Some(payload) = stream.get(HEADER..length.into()) else { return Ok(None) };
    let order = read(kind, id, payload).ok_or(Error::Length(length))?;
    Ok(Some((order, length.into())))
}

/// Reads a message; `None` if it is too short for its type.
fn read(kind: u16, id: u16, payload: &[u8]) -> Option<Order> {
    Some(match kind {
        types::ADD_SESSION => Order::Add(wanted(payload.first_chunk()?)),
        types::DELETE_SESSION => Order::Delete(be32(payload.first_chunk::<SESSION>()?, 36)),
        types::REQUEST_COUNTERS => Order::Counters { id, number: be32(payload.first_chunk::<4>()?, 0) },
        types::ECHO_REQUEST => Order::Echo { id, payload: *payload.first_chunk()? },
        other => Order::Other(other),
    })
}

fn wanted(session: &[u8; SESSION]) -> Wanted {
    let flags = be32(session, 0);
    let is = |flag: u32| flags & flag != 0;
    let config = Config {
        number: be32(session, 36),
        min_tx: be32(session, 40),
        min_rx: be32(session, 44),
        multiplier: session[61],
        is_passive: is(flags::PASSIVE),
        is_shut: is(flags::SHUTDOWN),
        // Our sessions live while the control plane is restarted, whatever bfdd itself would do.
        is_independent: true,
    };
    let path = Path {
        local: address(session, 4, is(flags::IPV6)),
        remote: address(session, 20, is(flags::IPV6)),
        index: be32(session, 64),
        is_multihop: is(flags::MULTIHOP),
        least_ttl: session[60],
    };
    let name = session[68..].split(|octet| *octet == 0).next().unwrap_or_default();
    let unsupported = [(flags::ECHO, "echo"), (flags::DEMAND, "demand")];
    Wanted {
        watch: Watch { config, path, hold: u64::from(be32(session, 56)) * 1000 },
        interface: String::from_utf8_lossy(name).into_owned(),
        unsupported: unsupported.iter().filter(|(flag, _)| is(*flag)).map(|(_, name)| *name).collect(),
    }
}

/// An address in 16 octets; those of IPv4 are the first four.
fn address(session: &[u8; SESSION], at: usize, is_ipv6: bool) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&session[at..at + 16]);
    if is_ipv6 {
        return Ipv6Addr::from(octets).into();
    }
    let [a, b, c, d, ..] = octets;
    Ipv4Addr::new(a, b, c, d).into()
}

/// Appends a state change of a session to `stream`.
pub fn put_state(stream: &mut Vec<u8>, session: &Session) {
    let remote = session.remote();
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags =
        flag(remote.is_independent, remote_flags::INDEPENDENT) | flag(remote.is_demand, remote_flags::DEMAND);
    put_header(stream, types::STATE_CHANGE, 0, 28);
    let numbers = [session.config().number, remote.number, flags];
    let intervals = [remote.desired_tx, remote.required_rx, remote.required_echo_rx];
    numbers.iter().chain(&intervals).for_each(|word| stream.extend(word.to_be_bytes()));
    stream.extend([session.state() as u8, session.diagnostic().0, remote.multiplier, 0]);
}

/// Appends a state change to `stream` for a session that is not kept (any more): it is down.
pub fn put_down(stream: &mut Vec<u8>, number: u32) {
    put_header(stream, types::STATE_CHANGE, 0, 28);
    stream.extend(number.to_be_bytes());
    stream.extend([0; 20]);
    stream.extend([State::Down as u8, 0, 0, 0]);
}

/// Appends the reply to a request for counters to `stream`.
pub fn put_counters(stream: &mut Vec<u8>, id: u16, number: u32, traffic: Traffic) {
    put_header(stream, types::COUNTERS, id, 72);
    stream.extend(number.to_be_bytes());
    stream.extend([0; 4]);
    let (into, out) = (traffic.packets_in, traffic.packets_out);
    let control = [into * WIRE, into, out * WIRE, out];
    control.iter().for_each(|count| stream.extend(count.to_be_bytes()));
    stream.extend([0; 32]);
}

/// Appends the reply to an echo request to `stream`.
pub fn put_echo(stream: &mut Vec<u8>, id: u16, payload: &[u8; 16]) {
    put_header(stream, types::ECHO_REPLY, id, payload.len() as u16);
    stream.extend(payload);
}

fn put_header(stream: &mut Vec<u8>, kind: u16, id: u16, payload: u16) {
    stream.extend([VERSION, 0]);
    [kind, id, HEADER as u16 + payload].iter().for_each(|word| stream.extend(word.to_be_bytes()));
}

fn be16<const N: usize>(octets: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn be32<const N: usize>(octets: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[cfg(test)]
mod tests;
