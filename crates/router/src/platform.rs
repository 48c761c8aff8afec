//! What a router stands on: bursts in, bursts out, buffers and a clock.

use arrayvec::ArrayVec;
use ring::BURST;

/// Octets at the start of every buffer that may be read and written whatever the frame's length: the headers.
pub const HEAD: usize = 64;

/// An owned frame buffer of the platform.
pub trait Buffer {
    /// The first [`HEAD`] octets of the buffer. What lies behind the end of a shorter frame is stale.
    fn head(&mut self) -> &mut [u8; HEAD];
    /// Octets of the frame, without FCS.
    fn len(&self) -> usize;
    /// Whether the frame has no octet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sets the frame's length, at most the buffer's capacity (a larger one is cut to it).
    fn set_len(&mut self, octets: usize);
    /// The frame.
    fn octets(&mut self) -> &mut [u8];
    /// Hints that the head will be read and written soon.
    fn prefetch(&self);
}

/// Up to [`BURST`] frames.
pub type Burst<B> = ArrayVec<B, BURST>;

/// Where a router runs: the KVM firmware, a sandboxed process, a unit test.
pub trait Platform {
    /// An owned frame buffer.
    type Buffer: Buffer;

    /// NICs, numbered from 0.
    fn nics(&self) -> usize;

    /// Fills `burst` (which is empty) with frames that NIC `nic` received.
    fn receive(&mut self, nic: usize, burst: &mut Burst<Self::Buffer>);

    /// Sends all frames of `burst` out of NIC `nic` and leaves it empty. What the NIC cannot take is counted there
    /// and its buffer goes back to the pool.
    fn transmit(&mut self, nic: usize, burst: &mut Burst<Self::Buffer>);

    /// How many frames NIC `nic` can surely take now; as many as there are where it does not say.
    fn room(&mut self, _nic: usize) -> usize {
        usize::MAX
    }

    /// An empty buffer, if there is one.
    fn allocate(&mut self) -> Option<Self::Buffer>;

    /// Takes a buffer back.
    fn free(&mut self, buffer: Self::Buffer);

    /// Milliseconds since some moment.
    fn now(&self) -> u64;
}
