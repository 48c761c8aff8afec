//! Echo and discard services, over TCP and UDP.

use core::mem;

use arrayvec::ArrayVec;
use ledger::StationTally;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{self, RecvError, State};
use smoltcp::socket::udp;
use smoltcp::time::{Duration, Instant};

use crate::memory::Buffers;
use crate::stack::Stack;
use crate::{DISCARD, ECHO, MAX_CONNECTIONS};

/// Silence after which a keep-alive is sent to a client.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Silence after which a client that does not answer is dropped.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Octets that an echo moves at once.
const PIECE: usize = 2048;

/// Serves all clients.
pub(crate) struct Server {
    visitors: ArrayVec<ServerSocket, { 2 * MAX_CONNECTIONS }>,
    udp_echo: SocketHandle,
    udp_discard: SocketHandle,
}

/// One TCP socket: it listens, serves a connection, and listens again.
struct ServerSocket {
    handle: SocketHandle,
    port: u16,
    connected: bool,
}

impl Server {
    pub(crate) fn new<'a>(sockets: &mut SocketSet<'a>, buffers: &mut Buffers<'a>) -> Option<Self> {
        let window = buffers.window;
        let mut visitors = ArrayVec::new();
        for _ in 0..MAX_CONNECTIONS {
            for (port, receive, send) in [(ECHO, window / 2, window / 2), (DISCARD, window, 0)] {
                let mut socket = buffers.tcp(receive, send)?;
                socket.set_keep_alive(Some(KEEP_ALIVE));
                socket.set_timeout(Some(TIMEOUT));
                socket.set_nagle_enabled(false);
                visitors.push(ServerSocket { handle: sockets.add(socket), port, connected: false });
            }
        }
        let mut bound = |receive, send, port: u16| {
            let mut socket = buffers.udp(receive, send)?;
            socket.bind(port).ok()?;
            Some(sockets.add(socket))
        };
        let udp_echo = bound(window / 2, window / 2, ECHO)?;
        let udp_discard = bound(window, 0, DISCARD)?;
        Some(Self { visitors, udp_echo, udp_discard })
    }

    /// Returns when it must be called: at once, if the stack has dropped a client whose socket is free now, or has sent
    /// datagrams in whose place others can be returned.
    pub(crate) fn due(&self, net: &Stack<'_>) -> Option<Instant> {
        let closed = |visitor: &ServerSocket| !net.sockets.get::<tcp::Socket<'_>>(visitor.handle).is_open();
        let echo = net.sockets.get::<udp::Socket<'_>>(self.udp_echo);
        let can_echo = echo.can_recv() && echo.can_send();
        (can_echo || self.visitors.iter().any(closed)).then_some(Instant::ZERO)
    }

    /// Reads received data and replies.
    pub(crate) fn work(&mut self, net: &mut Stack<'_>, tally: &StationTally) {
        for visitor in &mut self.visitors {
            visitor.work(net.sockets.get_mut(visitor.handle), tally);
        }
        echo_datagrams(net.sockets.get_mut(self.udp_echo), tally);
        let socket = net.sockets.get_mut::<udp::Socket<'_>>(self.udp_discard);
        while let Ok((octets, _)) = socket.recv() {
            count(tally, octets.len());
        }
    }
}

impl ServerSocket {
    fn work(&mut self, socket: &mut tcp::Socket<'_>, tally: &StationTally) {
        if !socket.is_open() {
            if mem::take(&mut self.connected) && !ended_well(socket) {
                tally.resets.add(1);
            }
            // The socket is closed, and the port is not 0.
            let _ = socket.listen(self.port);
        }
        if matches!(socket.state(), State::Listen | State::SynReceived) {
            return;
        }
        if !mem::replace(&mut self.connected, true) {
            tally.connections.add(1);
        }
        if self.port == ECHO {
            echo(socket, tally)
        } else {
            discard(socket, tally)
        }
        if socket.state() == State::CloseWait && socket.recv_queue() == 0 {
            socket.close();
        }
    }
}

/// Returns true if the other side of a closed connection had sent FIN.
pub(crate) fn ended_well(socket: &mut tcp::Socket<'_>) -> bool {
    matches!(socket.recv(|_| (0, ())), Err(RecvError::Finished))
}

/// Discards received data.
pub(crate) fn discard(socket: &mut tcp::Socket<'_>, tally: &StationTally) {
    // In two parts if the buffer wraps around.
    while let Ok(octets @ 1..) = socket.recv(|octets| (octets.len(), octets.len())) {
        tally.octets_received.add(octets as u64);
    }
}

/// Sends received data back as far as there is room; the rest stays in the receive buffer, which closes the window.
fn echo(socket: &mut tcp::Socket<'_>, tally: &StationTally) {
    if !socket.can_recv() {
        return;
    }
    let mut piece = [0; PIECE];
    loop {
        let room = socket.send_capacity() - socket.send_queue();
        let Some(part) = piece.get_mut(..room.min(PIECE)).filter(|part| !part.is_empty()) else { return };
        let Ok(octets @ 1..) = socket.recv_slice(part) else { return };
        tally.octets_received.add(octets as u64);
        let sent = socket.send_slice(&part[..octets]).unwrap_or(0);
        tally.octets_sent.add(sent as u64);
    }
}

/// Sends each datagram back. Two such services would exchange a datagram forever, so datagrams from the echo service's
/// own port are discarded.
fn echo_datagrams(socket: &mut udp::Socket<'_>, tally: &StationTally) {
    if !socket.can_recv() {
        return;
    }
    let mut piece = [0; PIECE];
    while socket.can_send()
        && let Ok((octets, from)) = socket.recv_slice(&mut piece)
    {
        count(tally, octets);
        if from.endpoint.port != ECHO && socket.send_slice(&piece[..octets], from).is_ok() {
            tally.octets_sent.add(octets as u64);
            tally.datagrams_sent.add(1);
        }
    }
}

/// Counts a datagram.
fn count(tally: &StationTally, octets: usize) {
    tally.octets_received.add(octets as u64);
    tally.datagrams_received.add(1);
}
