//! A frame in several buffers that the device cuts into segments (82540EM manual, "TCP Segmentation").

use arrayvec::ArrayVec;
use ledger::RouterNic;
use ring::e1000::{Context, Data, Descriptor, TxDriver, tx};
use router::Buffer;

use crate::buffer::{CAPACITY, FrameBuffer, HEADER};

/// Octets of a frame that one buffer holds.
pub(crate) const PIECE: usize = (CAPACITY - HEADER) as usize;
/// The longest frame: an Ethernet header and the longest IPv4 packet.
pub(crate) const LONGEST: usize = 14 + 65_535;
/// Buffers that the longest frame takes.
const BUFFERS: usize = LONGEST.div_ceil(PIECE);

/// Where Ethernet's header ends and IPv4's begins.
const IP: u8 = 14;
/// Where IPv4's ends and TCP's begins.
const TCP: u8 = IP + 20;
/// Octets of all three headers, TCP's without options.
pub(crate) const HEADERS: u8 = TCP + 20;

/// How a frame is cut: TCP over IPv4, both without options.
#[derive(Clone, Copy)]
pub(crate) struct Segmentation {
    /// Octets of payload in each segment.
    pub(crate) mss: u16,
}

/// A frame in pieces.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) buffers: ArrayVec<FrameBuffer, BUFFERS>,
}

impl Chain {
    /// Octets of the frame.
    pub(crate) fn octets(&self) -> usize {
        self.buffers.iter().map(Buffer::len).sum()
    }

    /// Descriptors that it takes.
    pub(crate) fn descriptors(&self) -> usize {
        1 + self.buffers.len()
    }

    /// Puts it into the ring, the last descriptor with `report` in its command; false, and it stays, if there is no room.
    pub(super) fn push(
        &mut self,
        ring: &mut TxDriver<'static, u64>,
        how: &Segmentation,
        report: u8,
        counters: &RouterNic,
    ) -> bool {
        let (octets, pieces) = (self.octets(), self.buffers.len());
        if pieces == 0 || ring.free() < self.descriptors() {
            counters.drop_tx_full.add(1);
            return false;
        }
        counters.tx_frames.add(1);
        counters.tx_bytes.add(octets as u64);
        ring.push(context(octets, how), None);
        for (index, buffer) in self.buffers.drain(..).enumerate() {
            let last = if index + 1 == pieces { tx::EOP | report } else { 0 };
            let options = if index == 0 { tx::IXSM | tx::TXSM } else { 0 };
            let length = buffer.len() as u32;
            let at = buffer.into_token();
            let data = Data {
                address: at + u64::from(HEADER),
                length,
                command: tx::TSE | tx::IFCS | last,
                options,
                ..Data::default()
            };
            ring.push(data.into(), Some(at));
        }
        true
    }
}

fn context(octets: usize, how: &Segmentation) -> Descriptor {
    let context = Context {
        ip_start: IP,
        ip_offset: IP + 10,
        ip_end: u16::from(TCP) - 1,
        tcp_start: TCP,
        tcp_offset: TCP + 16,
        tcp_end: 0,
        payload: octets.saturating_sub(usize::from(HEADERS)) as u32,
        command: tx::TSE | tx::IP | tx::TCP,
        status: 0,
        header: HEADERS,
        mss: how.mss,
    };
    context.into()
}
