//! Client: opens streams, requests and datagrams to a server.

use core::mem;

use ledger::StationTally;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{IpAddress, IpEndpoint, Ipv4Address};

use crate::memory::Buffers;
use crate::server::{discard, ended_well};
use crate::stack::{Stack, StationConfig};
use crate::{DISCARD, ECHO};

/// Delay before a failed call is retried.
const RETRY: Duration = Duration::from_millis(200);
/// Time after which a server that does not acknowledge is given up.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Range of ports for the local ends of connections (RFC 6335, section 6): the first, and their number.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_384;
/// Length of the headers of a UDP datagram in octets.
const DATAGRAM_HEADERS: usize = frame::ipv4::HEADER + frame::udp::HEADER;
/// Period of a stream's octets: octet n is n modulo this. It is prime, so that errors by a power of two are detected.
const PATTERN: usize = 251;

/// A TCP connection that is reopened whenever it has ended.
pub(crate) struct Connection {
    handle: SocketHandle,
    to: IpEndpoint,
    port: u16,
    connected: bool,
    /// Time to reopen it, while it is closed.
    retry: Option<Instant>,
}

impl Connection {
    fn new<'a>(
        orders: &StationConfig<'_>,
        port: u16,
        socket: tcp::Socket<'a>,
        sockets: &mut SocketSet<'a>,
    ) -> Self {
        Self {
            handle: sockets.add(socket),
            to: endpoint(orders, port),
            port: (orders.seed % u64::from(PORTS)) as u16,
            connected: false,
            retry: Some(Instant::ZERO),
        }
    }

    /// Returns when it needs attention, if it is closed: at once if the end was not noticed yet.
    pub(crate) fn due(&self, net: &Stack<'_>) -> Option<Instant> {
        let open = net.sockets.get::<tcp::Socket<'_>>(self.handle).is_open();
        self.retry.or((!open).then_some(Instant::ZERO))
    }

    /// Returns the socket if the connection is established, and opens it otherwise. The second value is true if it has
    /// just been established.
    fn socket<'n, 'a>(
        &mut self,
        net: &'n mut Stack<'a>,
        now: Instant,
        tally: &StationTally,
    ) -> Option<(&'n mut tcp::Socket<'a>, bool)> {
        let socket = net.sockets.get_mut::<tcp::Socket<'a>>(self.handle);
        if socket.may_send() && socket.may_recv() {
            let fresh = !mem::replace(&mut self.connected, true);
            tally.connections.add(u64::from(fresh));
            return Some((socket, fresh));
        }
        if socket.is_open() {
            // The other side has sent FIN, or nothing yet.
            if !socket.may_recv() && socket.may_send() {
                socket.close();
            }
            return None;
        }
        match self.retry {
            None => {
                if !ended_well(socket) {
                    tally.resets.add(1);
                }
                self.connected = false;
                self.retry = Some(now + RETRY);
            }
            Some(retry) if now >= retry => {
                self.retry = None;
                self.port = (self.port + 1) % PORTS;
                // The socket is closed and the ports are not 0; if the address is invalid, the socket stays closed.
                let _ = socket.connect(net.interface.context(), self.to, FIRST_PORT + self.port);
            }
            Some(_) => {}
        }
        None
    }
}

/// Sends an endless stream to the discard port.
pub(crate) struct Stream {
    call: Connection,
    write_len: usize,
    /// Number of octets sent on this connection, modulo [`PATTERN`].
    phase: usize,
}

impl Stream {
    pub(crate) fn new<'a>(
        orders: &StationConfig<'_>,
        sockets: &mut SocketSet<'a>,
        buffers: &mut Buffers<'a>,
    ) -> Option<Self> {
        let window = buffers.window;
        let mut socket = buffers.tcp(0, window)?;
        socket.set_timeout(Some(TIMEOUT));
        let call = Connection::new(orders, DISCARD, socket, sockets);
        Some(Self { call, write_len: orders.write_len.clamp(1, window), phase: 0 })
    }

    pub(crate) fn call(&self) -> &Connection {
        &self.call
    }

    /// Writes as long as there is room for a whole write.
    pub(crate) fn work(&mut self, net: &mut Stack<'_>, now: Instant, tally: &StationTally) {
        let Some((socket, fresh)) = self.call.socket(net, now, tally) else { return };
        if fresh {
            self.phase = 0;
        }
        while socket.send_capacity() - socket.send_queue() >= self.write_len {
            let sent = self.write(socket);
            if sent == 0 {
                break;
            }
            tally.octets_sent.add(sent as u64);
        }
        discard(socket, tally);
    }

    /// Performs one write; in two parts if the buffer wraps around.
    fn write(&mut self, socket: &mut tcp::Socket<'_>) -> usize {
        let mut left = self.write_len;
        while left > 0 {
            let phase = self.phase;
            let written = socket.send(|room| {
                let part = room.len().min(left);
                pattern(&mut room[..part], phase);
                (part, part)
            });
            let Ok(part @ 1..) = written else { break };
            self.phase = (phase + part) % PATTERN;
            left -= part;
        }
        self.write_len - left
    }
}

/// Writes octets of a stream, starting at the one whose number modulo [`PATTERN`] is `phase`.
fn pattern(octets: &mut [u8], phase: usize) {
    let mut from = phase;
    let mut rest = octets;
    while !rest.is_empty() {
        let len = rest.len().min(CYCLES.len() - from);
        let (part, behind) = rest.split_at_mut(len);
        part.copy_from_slice(&CYCLES[from..from + len]);
        // The table ends where the pattern starts again.
        from = 0;
        rest = behind;
    }
}

/// The pattern, repeated: few long copies are faster than many short ones.
static CYCLES: [u8; 8 * PATTERN] = {
    let mut cycles = [0; 8 * PATTERN];
    let mut at = 0;
    while at < cycles.len() {
        cycles[at] = (at % PATTERN) as u8;
        at += 1;
    }
    cycles
};

/// Sends one octet at a time to the echo port and waits for its return (request/response).
pub(crate) struct Requests {
    call: Connection,
    /// The last octet sent; none: no request is outstanding.
    asked: Option<u8>,
    next: u8,
}

impl Requests {
    pub(crate) fn new<'a>(
        orders: &StationConfig<'_>,
        sockets: &mut SocketSet<'a>,
        buffers: &mut Buffers<'a>,
    ) -> Option<Self> {
        let mut socket = buffers.tcp(0, 0)?;
        socket.set_timeout(Some(TIMEOUT));
        socket.set_nagle_enabled(false);
        Some(Self { call: Connection::new(orders, ECHO, socket, sockets), asked: None, next: 0 })
    }

    pub(crate) fn call(&self) -> &Connection {
        &self.call
    }

    /// Receives the reply and sends the next request.
    pub(crate) fn work(&mut self, net: &mut Stack<'_>, now: Instant, tally: &StationTally) {
        let Some((socket, fresh)) = self.call.socket(net, now, tally) else { return };
        if fresh {
            self.asked = None;
        }
        let mut answer = [0; 1];
        while let Ok(1) = socket.recv_slice(&mut answer) {
            tally.octets_received.add(1);
            if self.asked.take() != Some(answer[0]) {
                // Not the expected reply: replies can no longer be matched to requests.
                socket.abort();
                return;
            }
            tally.transactions.add(1);
        }
        if self.asked.is_none() && socket.send_slice(&[self.next]) == Ok(1) {
            tally.octets_sent.add(1);
            self.asked = Some(self.next);
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// Sends an endless sequence of datagrams to the discard port. Those of at least 8 octets begin with a flow's number,
/// which is 0, and their own, like the frames of a source.
pub(crate) struct Datagrams {
    handle: SocketHandle,
    to: IpEndpoint,
    len: usize,
    number: u32,
}

impl Datagrams {
    pub(crate) fn new<'a>(
        orders: &StationConfig<'_>,
        sockets: &mut SocketSet<'a>,
        buffers: &mut Buffers<'a>,
    ) -> Option<Self> {
        let mut socket = buffers.udp(0, buffers.window)?;
        socket.bind(FIRST_PORT + (orders.seed % u64::from(PORTS)) as u16).ok()?;
        let mtu = orders.mtu.clamp(crate::stack::LEAST_MTU, crate::wire::LARGEST_MTU);
        Some(Self {
            handle: sockets.add(socket),
            to: endpoint(orders, DISCARD),
            len: orders.write_len.min(mtu - DATAGRAM_HEADERS),
            number: 0,
        })
    }

    /// Fills the socket's send buffer.
    pub(crate) fn work(&mut self, net: &mut Stack<'_>, tally: &StationTally) {
        let socket = net.sockets.get_mut::<udp::Socket<'_>>(self.handle);
        while socket.can_send()
            && let Ok(payload) = socket.send(self.len, self.to)
        {
            if let Some(head) = payload.first_chunk_mut::<8>() {
                *head = u64::from(self.number).to_be_bytes();
            }
            self.number = self.number.wrapping_add(1);
            tally.octets_sent.add(self.len as u64);
            tally.datagrams_sent.add(1);
        }
    }
}

fn endpoint(orders: &StationConfig<'_>, port: u16) -> IpEndpoint {
    IpEndpoint::new(IpAddress::Ipv4(Ipv4Address::from_bits(orders.to_ip)), port)
}
