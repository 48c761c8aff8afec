//! Frames that leave something to be done, or lie in several buffers: a context descriptor that says what, then a data
//! descriptor for each buffer (82540EM manual, "TCP/IP Context Transmit Descriptor Format", "TCP Segmentation").

use frame::checksum;
use frame::offload::{Gso, Offload};
use ring::e1000::{Context, Data, Descriptor, TxDriver, tx};
use router::Buffer;

use crate::buffer::{CAPACITY, FrameBuffer, HEADER};
use crate::pieces;

/// Where Ethernet's header ends and IPv4's begins.
const IP: usize = frame::ethernet::HEADER;
/// Octets of the context's fields for offsets reach so far.
const MOST_OFFSET: u16 = 255;

/// A frame, and what the ring is to be told of it.
pub(super) struct Order {
    frame: FrameBuffer,
    context: Option<Context>,
    /// Buffers of the frame.
    pieces: usize,
}

impl Order {
    /// What this frame takes. The frame itself is made as the device wants it: to be cut, without the lengths that every
    /// segment has its own of.
    pub(super) fn new(mut frame: FrameBuffer) -> Self {
        let octets = HEADER as usize + frame.len();
        let pieces = match frame.pieces() {
            Some((list, count)) if octets > CAPACITY as usize => pieces::cut(list, count, octets),
            _ => 1,
        };
        let offload = frame.offload();
        let context = if offload.is_work() { context(&mut frame, offload) } else { None };
        Self { frame, context, pieces }
    }

    /// Descriptors that it takes.
    pub(super) fn descriptors(&self) -> usize {
        usize::from(self.context.is_some()) + self.pieces
    }

    /// Octets of the frame.
    pub(super) fn octets(&self) -> usize {
        self.frame.len()
    }

    /// Puts it into the ring, which has room; the last descriptor with `report` in its command.
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
        let first = len.min(CAPACITY - HEADER);
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
            for (index, address) in pieces::addresses(list, pieces).enumerate().skip(1) {
                describe(index, address, CAPACITY);
            }
        }
    }

    /// The frame again: there was no room for it.
    pub(super) fn into_frame(self) -> FrameBuffer {
        self.frame
    }
}

/// The context for what a frame leaves to be done. A frame that the device cannot be told about goes as it is.
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
    let (ip, sum_at) = (octets.get_mut(IP..transport)?, usize::from(sum_at));
    // Its length and checksum, and the length in TCP's sum, are each segment's own.
    ip.get_mut(2..4)?.fill(0);
    ip.get_mut(10..12)?.fill(0);
    let pseudo = checksum::sum(u16::from(frame::ipv4::TCP), ip.get(12..20)?);
    octets.get_mut(sum_at..sum_at + 2)?.copy_from_slice(&pseudo.to_be_bytes());
    Some(Context {
        ip_start: IP as u8,
        ip_offset: IP as u8 + 10,
        ip_end: transport as u16 - 1,
        payload: (len - headers.min(len)) as u32,
        command: tx::TSE | tx::IP | tx::TCP,
        header: headers.min(usize::from(u8::MAX)) as u8,
        mss: offload.gso_size(),
        ..whole
    })
}
