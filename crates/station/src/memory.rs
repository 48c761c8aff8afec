//! Memory of sockets, given by the caller: there is no allocator.

use smoltcp::iface::SocketStorage;
use smoltcp::socket::{tcp, udp};

use crate::VISITORS;

/// Largest window of a TCP socket, in octets. The window that keeps 25 Gbit/s going over 80 µs.
const WINDOW: usize = 256 << 10;
/// Smallest window with which a station starts: a few segments.
const LEAST_WINDOW: usize = 16 << 10;
/// Octets of a TCP buffer through which next to nothing goes.
const SMALL: usize = 4 << 10;
/// Windows of which a server, who needs most, has buffers: echo of TCP (in halves) and discard, echo of UDP and discard.
const WINDOWS: usize = 2 * VISITORS + 2;
/// Sockets of a server.
const SOCKETS: usize = 2 * VISITORS + 2;
/// Datagrams that wait in one direction of a UDP socket at most.
const DATAGRAMS: usize = 256;
/// Directions of UDP sockets in which datagrams wait: echo both ways, discard.
const QUEUES: usize = 3;

/// Octets of buffers that a station can make use of.
pub const MOST_OCTETS: usize = octets(WINDOW);
/// Octets of buffers that a station needs.
pub const LEAST_OCTETS: usize = octets(LEAST_WINDOW);

const fn octets(window: usize) -> usize {
    WINDOWS * window + VISITORS * SMALL
}

/// Places for a station's sockets, to be kept as long as the station.
pub struct Places<'a> {
    pub(crate) sockets: [SocketStorage<'a>; SOCKETS],
    datagrams: [udp::PacketMetadata; QUEUES * DATAGRAMS],
}

impl Default for Places<'_> {
    fn default() -> Self {
        Self {
            sockets: [SocketStorage::EMPTY; SOCKETS],
            datagrams: [udp::PacketMetadata::EMPTY; QUEUES * DATAGRAMS],
        }
    }
}

impl<'a> Places<'a> {
    /// The places of sockets, and what sockets are made of. None if `octets` are fewer than [`LEAST_OCTETS`].
    pub(crate) fn split(
        &'a mut self,
        octets: &'a mut [u8],
    ) -> Option<(&'a mut [SocketStorage<'a>], Buffers<'a>)> {
        let mut window = WINDOW;
        while self::octets(window) > octets.len() {
            window /= 2;
        }
        let buffers = Buffers { window, octets, datagrams: &mut self.datagrams };
        (window >= LEAST_WINDOW).then_some((&mut self.sockets, buffers))
    }
}

/// What is left of the memory for buffers.
pub(crate) struct Buffers<'a> {
    /// Octets of a window.
    pub(crate) window: usize,
    octets: &'a mut [u8],
    datagrams: &'a mut [udp::PacketMetadata],
}

impl<'a> Buffers<'a> {
    /// A TCP socket with so many octets for what it receives and for what it sends; 0: few.
    pub(crate) fn tcp(&mut self, receive: usize, send: usize) -> Option<tcp::Socket<'a>> {
        let receive = self.take(receive.max(SMALL))?;
        let send = self.take(send.max(SMALL))?;
        let mut socket = tcp::Socket::new(tcp::SocketBuffer::new(receive), tcp::SocketBuffer::new(send));
        // A pass acknowledges a whole burst at once, after the duty has had its turn to answer: there is nothing to be won
        // by waiting, and the clock that would end it may tick slowly.
        socket.set_ack_delay(None);
        Some(socket)
    }

    /// A UDP socket with so many octets for what it receives and for what it sends; 0: none.
    pub(crate) fn udp(&mut self, receive: usize, send: usize) -> Option<udp::Socket<'a>> {
        let receive = self.datagrams(receive)?;
        let send = self.datagrams(send)?;
        Some(udp::Socket::new(receive, send))
    }

    fn datagrams(&mut self, octets: usize) -> Option<udp::PacketBuffer<'a>> {
        let count = if octets == 0 { 0 } else { DATAGRAMS };
        let (datagrams, rest) = core::mem::take(&mut self.datagrams).split_at_mut_checked(count)?;
        self.datagrams = rest;
        Some(udp::PacketBuffer::new(datagrams, self.take(octets)?))
    }

    fn take(&mut self, octets: usize) -> Option<&'a mut [u8]> {
        let (taken, rest) = core::mem::take(&mut self.octets).split_at_mut_checked(octets)?;
        self.octets = rest;
        Some(taken)
    }
}
