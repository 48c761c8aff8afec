//! Sends numbered UDP frames as fast as the NIC takes them.

use arrayvec::ArrayVec;
use frame::{Mac, ethernet, ipv4, udp};

use super::{FLOW, SEQUENCE, SHORTEST};
use crate::platform::{Buffer, Burst, Platform};

/// First source port; the ports of flows count up from it.
const FIRST_PORT: u32 = 1024;
/// Number of distinct source ports.
const PORTS: u32 = 60_000;
/// Destination port: discard (RFC 863).
const TO_PORT: u16 = 9;

/// Parameters of the traffic that a [`Source`] sends.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Length of a frame in octets, without FCS; at least [`SHORTEST`].
    pub frame_len: usize,
    /// Number of flows, each with its own source port (up to 60,000) and sequence; at least 1.
    pub flows: u32,
    /// Number of the first flow.
    pub first_flow: u32,
    /// Destination address of the packets, in host byte order.
    pub to_ip: u32,
    /// Source address of the packets, in host byte order.
    pub from_ip: u32,
    /// Destination Ethernet address.
    pub to_mac: Mac,
    /// Source Ethernet address.
    pub from_mac: Mac,
}

/// A source of numbered frames of several flows in round-robin order; each flow starts at number 0. After the number, a
/// frame contains the stale contents of its buffer.
pub struct Source<B> {
    next: Next,
    burst: Burst<B>,
}

/// State for the next frame.
struct Next {
    template: [u8; SHORTEST],
    frame_len: usize,
    flows: u32,
    first_flow: u32,
    flow: u32,
    sequence: u32,
}

impl<B: Buffer> Source<B> {
    /// Creates a source that has sent no frame yet.
    pub fn new(traffic: &Traffic) -> Self {
        let frame_len = traffic.frame_len.clamp(SHORTEST, usize::from(u16::MAX));
        let next = Next {
            template: template(traffic, frame_len),
            frame_len,
            flows: traffic.flows.max(1),
            first_flow: traffic.first_flow,
            flow: 0,
            sequence: 0,
        };
        Self { next, burst: ArrayVec::new_const() }
    }

    /// Sends up to one burst out of NIC 0, as far as that has room, so that no frame is lost there. Returns how many.
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let room = platform.room(0).min(self.burst.capacity());
        while self.burst.len() < room {
            let Some(buffer) = platform.allocate() else { break };
            buffer.prefetch();
            self.burst.push(buffer);
        }
        self.burst.iter_mut().for_each(|buffer| self.next.write(buffer));
        let frames = self.burst.len();
        if frames != 0 {
            platform.transmit(0, &mut self.burst);
        }
        frames
    }
}

impl Next {
    #[inline(always)]
    fn write<B: Buffer>(&mut self, buffer: &mut B) {
        buffer.set_len(self.frame_len);
        let flow = self.first_flow.wrapping_add(self.flow);
        // The rest of the buffer is not written: that would fetch a second cache line for each frame.
        let head = &mut buffer.head()[..SHORTEST];
        head.copy_from_slice(&self.template);
        let port = (FIRST_PORT + flow % PORTS) as u16;
        head[34..36].copy_from_slice(&port.to_be_bytes());
        head[FLOW..FLOW + 4].copy_from_slice(&flow.to_be_bytes());
        head[SEQUENCE..SEQUENCE + 4].copy_from_slice(&self.sequence.to_be_bytes());
        self.flow += 1;
        if self.flow == self.flows {
            self.flow = 0;
            self.sequence = self.sequence.wrapping_add(1);
        }
    }
}

/// Returns the first octets of every frame. No write can fail: the headers take 42 of the 50 octets.
fn template(traffic: &Traffic, frame_len: usize) -> [u8; SHORTEST] {
    let mut head = [0; SHORTEST];
    let datagram = (frame_len - ethernet::HEADER - ipv4::HEADER) as u16;
    let ethernet =
        ethernet::Header { destination: traffic.to_mac, source: traffic.from_mac, ethertype: ethernet::IPV4 };
    let ip = ipv4::Header::new(ipv4::UDP, traffic.from_ip, traffic.to_ip, datagram);
    let udp = udp::Header { source: 0, destination: TO_PORT, len: datagram, checksum: 0 };
    let written = ethernet
        .write(&mut head)
        .and_then(|()| ip.write(&mut head[ethernet::HEADER..]))
        .and_then(|()| udp.write(&mut head[ethernet::HEADER + ipv4::HEADER..]));
    debug_assert!(written.is_ok());
    head
}
