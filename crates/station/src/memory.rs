//! Memory for sockets, provided by the caller: there is no allocator.

use smoltcp::iface::SocketStorage;
use smoltcp::socket::{tcp, udp};

use crate::MAX_CONNECTIONS;

/// Largest window of a TCP socket in octets: the window that sustains 25 Gbit/s over 80 µs.
const WINDOW: usize = 256 << 10;
/// Smallest window with which a station starts: a few segments.
const LEAST_WINDOW: usize = 16 << 10;
/// Size of a TCP buffer for a direction with next to no data, in octets.
const SMALL: usize = 4 << 10;
/// Number of window-sized buffers of a server, which needs most: echo of TCP (in halves) and discard, echo of UDP and
/// discard.
const WINDOWS: usize = 2 * MAX_CONNECTIONS + 2;
/// Number of sockets of a server.
const SOCKETS: usize = 2 * MAX_CONNECTIONS + 2;
/// Maximum number of datagrams that wait in one direction of a UDP socket.
const DATAGRAMS: usize = 256;
/// Number of directions of UDP sockets in which datagrams wait: echo both ways, discard.
const QUEUES: usize = 3;

/// Maximum size of buffers in octets that a station can use.
pub const MOST_OCTETS: usize = octets(WINDOW);
/// Minimum size of buffers in octets that a station needs.
pub const LEAST_OCTETS: usize = octets(LEAST_WINDOW);

const fn octets(window: usize) -> usize {
    WINDOWS * window + MAX_CONNECTIONS * SMALL
}

/// Storage for a station's sockets; must live as long as the station.
pub struct SocketMemory<'a> {
    pub(crate) sockets: [SocketStorage<'a>; SOCKETS],
    datagrams: [udp::PacketMetadata; QUEUES * DATAGRAMS],
}

impl Default for SocketMemory<'_> {
    fn default() -> Self {
        Self {
            sockets: [SocketStorage::EMPTY; SOCKETS],
            datagrams: [udp::PacketMetadata::EMPTY; QUEUES * DATAGRAMS],
        }
    }
}

impl<'a> SocketMemory<'a> {
    /// Returns the storage for sockets, and the allocator of their buffers. `None` if `octets` are fewer than
    /// [`LEAST_OCTETS`].
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

/// Unallocated rest of the memory for buffers.
pub(crate) struct Buffers<'a> {
    /// Size of a window in octets.
    pub(crate) window: usize,
    octets: &'a mut [u8],
    datagrams: &'a mut [udp::PacketMetadata],
}

impl<'a> Buffers<'a> {
    /// Creates a TCP socket with receive and send buffers of these sizes; 0: a small buffer.
    pub(crate) fn tcp(&mut self, receive: usize, send: usize) -> Option<tcp::Socket<'a>> {
        let receive = self.take(receive.max(SMALL))?;
        let send = self.take(send.max(SMALL))?;
        let mut socket = tcp::Socket::new(tcp::SocketBuffer::new(receive), tcp::SocketBuffer::new(send));
        // A pass acknowledges a whole burst at once, after the duty had the opportunity to reply: delaying
        // acknowledgements gains nothing, and the clock that would end the delay may tick slowly.
        socket.set_ack_delay(None);
        Some(socket)
    }

    /// Creates a UDP socket with receive and send buffers of these sizes; 0: none.
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
