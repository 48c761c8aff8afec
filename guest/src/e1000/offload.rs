//! Transmit descriptors of frames with pending offload metadata, or in several buffers: a context descriptor for the
//! offload, then a data descriptor for each buffer (82540EM manual, "TCP/IP Context Transmit Descriptor Format", "TCP
//! Segmentation").

use frame::offload::{Gso, Offload};
use frame::{checksum, vlan};
use ring::e1000::{Context, Data, Descriptor, TxDriver, tx};
use router::Buffer;

use crate::buffer::{CAPACITY, FrameBuffer, HEADER};
use crate::segments;

/// Largest value of the context's fields for offsets, in octets.
const MOST_OFFSET: u16 = 255;

/// Frame with the descriptors that it needs in the ring.
pub(super) struct Order {
    frame: FrameBuffer,
    context: Option<Context>,
    /// Number of buffers of the frame, and octets of it in the first one.
    pieces: usize,
    first: u32,
}

impl Order {
    /// Prepares a frame. If it is to be segmented, its headers are adapted to the device: length fields, which differ
    /// for each segment, are cleared.
    pub(super) fn new(mut frame: FrameBuffer) -> Self {
        let (pieces, first) = match frame.table() {
            Some((_, pieces, first)) => (pieces, first - HEADER),
            None => (1, frame.len() as u32),
        };
        let offload = frame.offload();
        let context = if offload.is_work() { context(&mut frame, offload) } else { None };
        Self { frame, context, pieces, first }
    }

    /// Number of descriptors that it needs.
    pub(super) fn descriptors(&self) -> usize {
        usize::from(self.context.is_some()) + self.pieces
    }

    /// Length of the frame in octets.
    pub(super) fn octets(&self) -> usize {
        self.frame.len()
    }

    /// Adds it to the ring, which has room; `report` is set in the command of the last descriptor.
    pub(super) fn push(self, ring: &mut TxDriver<'static, u64>, report: u8) {
        let (segments, sums) = match &self.context {
            Some(context) if context.mss != 0 => (tx::TSE, tx::IXSM | tx::TXSM),
            Some(_) => (0, tx::TXSM),
            None => (0, 0),
        };
        if let Some(context) = self.context {
            ring.push(context.into(), None);
        }
        let (at, len, pieces) = (self.frame.address(), self.frame.len() as u32, self.pieces);
        let list = self.frame.pieces();
        let token = self.frame.into_token();
        let first = self.first;
        let mut left = len;
        let mut describe = |index: usize, address, most: u32| {
            let last = index + 1 == pieces;
            let length = if last { left } else { left.min(most) };
            left -= length;
            let ending = if last { tx::EOP | report } else { 0 };
            let options = if index == 0 { sums } else { 0 };
            let command = segments | tx::IFCS | ending;
            let data = Data { address, length, command, options, ..Data::default() };
            ring.push(Descriptor::from(data), last.then_some(token));
        };
        describe(0, at + u64::from(HEADER), first);
        if let Some((list, _)) = list.filter(|_| pieces > 1) {
            for (index, address) in segments::addresses(list, pieces).enumerate().skip(1) {
                describe(index, address, CAPACITY);
            }
        }
    }

    /// Returns the frame if there was no room for it.
    pub(super) fn into_frame(self) -> FrameBuffer {
        self.frame
    }
}

/// Context for a frame's offload metadata. A frame whose metadata the device cannot express is sent unchanged.
fn context(frame: &mut FrameBuffer, offload: Offload) -> Option<Context> {
    let sum_at = offload.csum_start().checked_add(offload.csum_offset())?;
    if sum_at > MOST_OFFSET || !offload.fits(frame.octets().len()) {
        return None;
    }
    let transport = offload.csum_start();
    let whole = Context { tcp_start: transport as u8, tcp_offset: sum_at as u8, ..Context::default() };
    let Some(Gso::Tcp4) = offload.gso() else { return Some(Context { command: 0, ..whole }) };
    let len = frame.len();
    let octets = frame.octets();
    let headers = router::offload::headers(octets, offload)?;
    let transport = usize::from(transport);
    // Behind the tags of a VLAN.
    let start = vlan::Tags::parse(octets).ok()?.header();
    let (ip, sum_at) = (octets.get_mut(start..transport)?, usize::from(sum_at));
    // IPv4's length and checksum, and the length in TCP's pseudo header, differ for each segment.
    ip.get_mut(2..4)?.fill(0);
    ip.get_mut(10..12)?.fill(0);
    let pseudo = checksum::sum(u16::from(frame::ipv4::TCP), ip.get(12..20)?);
    octets.get_mut(sum_at..sum_at + 2)?.copy_from_slice(&pseudo.to_be_bytes());
    Some(Context {
        ip_start: start as u8,
        ip_offset: start as u8 + 10,
        ip_end: transport as u16 - 1,
        payload: (len - headers.min(len)) as u32,
        command: tx::TSE | tx::IP | tx::TCP,
        header: headers.min(usize::from(u8::MAX)) as u8,
        mss: offload.gso_size(),
        ..whole
    })
}
