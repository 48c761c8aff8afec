//! What a router stands on: bursts in, bursts out, buffers and a clock.

use arrayvec::ArrayVec;
use frame::Mac;
use frame::offload::Offload;
use ring::BURST;

/// Octets at the start of every buffer that may be read and written whatever the frame's length: the headers.
pub const HEAD: usize = 64;

/// An owned frame buffer of the platform, or a chain of them: a frame of several pieces. Of such a frame only the first
/// piece is ever changed.
pub trait Buffer {
    /// The first [`HEAD`] octets of the buffer. What lies behind the end of a shorter frame is stale.
    fn head(&mut self) -> &mut [u8; HEAD];
    /// Octets of the frame with all its pieces, without FCS.
    fn len(&self) -> usize;
    /// Octets of the longest frame that it becomes on a wire: its own, or those of its first segment.
    #[inline(always)]
    fn wire_len(&self) -> usize {
        self.len()
    }
    /// Whether the frame has no octet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sets the frame's length, at most the capacity of its pieces (a larger one is cut to it).
    fn set_len(&mut self, octets: usize);
    /// The frame; of one with several pieces the first, which holds at least all headers.
    fn octets(&mut self) -> &mut [u8];
    /// Copies octets of the frame from number `at` on, whatever its pieces; false if they are not all there.
    fn read(&mut self, at: usize, target: &mut [u8]) -> bool {
        let Some(found) = self.octets().get(at..).and_then(|rest| rest.get(..target.len())) else {
            return false;
        };
        target.copy_from_slice(found);
        true
    }
    /// What the frame leaves to be done on its way; nothing where the platform's NICs do no such thing.
    fn offload(&self) -> Offload {
        Offload::NONE
    }
    /// The frame is ready for a plain wire from now on.
    fn clear_offload(&mut self) {}
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

    /// How often the cable of NIC `nic` has been plugged anew: whoever was at its other end may be another one by now.
    fn plugged(&self, _nic: usize) -> u32 {
        0
    }

    /// An empty buffer, if there is one.
    fn allocate(&mut self) -> Option<Self::Buffer>;

    /// Takes a buffer back.
    fn free(&mut self, buffer: Self::Buffer);

    /// Milliseconds since some moment.
    fn now(&self) -> u64;

    /// Another station at NIC `nic` says that it has this address of the router. Nothing has to be done about it.
    fn is_claimed(&mut self, _nic: usize, _ip: u32, _by: Mac) {}
}
