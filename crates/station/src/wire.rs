//! NIC 0 of a platform as a device for smoltcp.

use arrayvec::ArrayVec;
use frame::ethernet;
use router::{Buffer, Burst, Platform};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// The NIC that a station uses.
pub(crate) const NIC: usize = 0;

/// Frames between the NIC and the stack.
pub(crate) struct FrameBuffers<B> {
    /// Received frames, the oldest one last.
    incoming: Burst<B>,
    /// Frames that the stack has read; their buffers are freed at the end of the pass.
    spent: Burst<B>,
    /// Frames that the stack has written.
    outgoing: Burst<B>,
    /// Buffer for the next frame that the stack writes.
    spare: Option<B>,
    /// Maximum length of an IP packet in octets.
    mtu: usize,
}

impl<B: Buffer> FrameBuffers<B> {
    pub(crate) const fn new(mtu: usize) -> Self {
        Self {
            incoming: ArrayVec::new_const(),
            spent: ArrayVec::new_const(),
            outgoing: ArrayVec::new_const(),
            spare: None,
            mtu,
        }
    }

    /// Takes a burst from the NIC, if the last one has been read completely; returns how many frames are
    /// available.
    pub(crate) fn fill<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        if self.incoming.is_empty() {
            platform.receive(NIC, &mut self.incoming);
            self.incoming.reverse();
        }
        self.incoming.len()
    }

    /// Connects the frames to the platform for one pass.
    pub(crate) fn on<'p, P: Platform<Buffer = B>>(&'p mut self, platform: &'p mut P) -> Wire<'p, P> {
        let room = platform.room(NIC);
        Wire { platform, lanes: self, room, sent: 0 }
    }
}

/// The device during one pass.
pub(crate) struct Wire<'p, P: Platform> {
    platform: &'p mut P,
    lanes: &'p mut FrameBuffers<P::Buffer>,
    /// Number of frames that the NIC can still take.
    room: usize,
    sent: usize,
}

impl<P: Platform> Wire<'_, P> {
    /// Returns the number of frames sent in this pass.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Returns the number of frames that the stack has not yet read.
    pub(crate) fn unread(&self) -> usize {
        self.lanes.incoming.len()
    }

    /// Hands the last burst to the NIC, and returns the buffers that were read to the pool.
    pub(crate) fn finish(self) {
        if !self.lanes.outgoing.is_empty() {
            self.platform.transmit(NIC, &mut self.lanes.outgoing);
        }
        for frame in self.lanes.spent.drain(..) {
            self.platform.free(frame);
        }
    }

    /// Returns true if a frame can be sent: there is room in the ring and a buffer.
    fn can_send(&mut self) -> bool {
        if self.lanes.spare.is_none() {
            self.lanes.spare = self.platform.allocate();
        }
        self.room > 0 && self.lanes.spare.is_some()
    }
}

impl<P: Platform> Device for Wire<'_, P> {
    type RxToken<'a>
        = Incoming<'a, P::Buffer>
    where
        Self: 'a;
    type TxToken<'a>
        = Outgoing<'a, P>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        // A frame may need a reply, so it waits until there is room for one.
        if self.lanes.incoming.is_empty() || !self.can_send() {
            return None;
        }
        let Self { platform, lanes, room, sent, .. } = self;
        let FrameBuffers { incoming, spent, outgoing, spare, .. } = &mut **lanes;
        let incoming = Incoming { frame: incoming.pop()?, spent };
        Some((incoming, Outgoing { platform, outgoing, spare, room, sent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        if !self.can_send() {
            return None;
        }
        let Self { platform, lanes, room, sent, .. } = self;
        let FrameBuffers { outgoing, spare, .. } = &mut **lanes;
        Some(Outgoing { platform, outgoing, spare, room, sent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.lanes.mtu + ethernet::HEADER;
        capabilities
    }
}

/// A frame for the stack to read. The stack reads each frame that it takes.
pub(crate) struct Incoming<'a, B> {
    frame: B,
    spent: &'a mut Burst<B>,
}

impl<B: Buffer> RxToken for Incoming<'_, B> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(mut self, read: F) -> R {
        let result = read(self.frame.octets());
        // Cannot overflow: at most one burst is read before `finish` empties this one.
        let _ = self.spent.try_push(self.frame);
        result
    }
}

/// Permission to send a frame.
pub(crate) struct Outgoing<'a, P: Platform> {
    platform: &'a mut P,
    outgoing: &'a mut Burst<P::Buffer>,
    spare: &'a mut Option<P::Buffer>,
    room: &'a mut usize,
    sent: &'a mut usize,
}

impl<P: Platform> TxToken for Outgoing<'_, P> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Some(mut frame) = self.spare.take() else {
            // `can_send` has allocated a buffer. Without one the frame is lost, as on any link.
            return write(&mut [0; LONGEST][..len.min(LONGEST)]);
        };
        frame.set_len(len);
        let result = write(frame.octets());
        self.outgoing.push(frame);
        *self.room -= 1;
        *self.sent += 1;
        if self.outgoing.is_full() {
            self.platform.transmit(NIC, self.outgoing);
        }
        result
    }
}

/// Largest packet that a station sends, in octets: it fits the buffers of every platform.
pub(crate) const LARGEST_MTU: usize = 1500;
/// Length of the longest frame in octets.
const LONGEST: usize = LARGEST_MTU + ethernet::HEADER;
