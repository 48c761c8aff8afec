//! From descriptors to frames.

use ring::e1000::{Received, rx};
use router::Burst;

use crate::buffer::{FrameBuffer, Pool};

/// Frames in one buffer are passed on; what is longer than a buffer is thrown away, as no frame of the NIC's MTU is.
#[derive(Default)]
pub(super) struct Assembly {
    /// Within a frame that is thrown away.
    skipping: bool,
}

impl Assembly {
    /// Takes a buffer that came back; returns the octets of the frame.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        at: u64,
        received: Received,
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
    ) -> u64 {
        let ends = received.status & rx::EOP != 0;
        if self.skipping || !ends || burst.is_full() {
            self.skipping = !ends;
            pool.give(at);
            return 0;
        }
        burst.push(FrameBuffer::new(at, u32::from(received.length)));
        u64::from(received.length)
    }
}
