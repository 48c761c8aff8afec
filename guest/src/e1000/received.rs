//! Assembly of received frames from descriptors.

use ring::e1000::{Received, rx};
use router::Burst;

use crate::buffer::{FrameBuffer, Pool};

/// Passes on frames that fit into one buffer; longer ones are discarded, since no frame within the NIC's MTU is
/// longer.
#[derive(Default)]
pub(super) struct Assembly {
    /// True within a frame that is being discarded.
    skipping: bool,
}

impl Assembly {
    /// Takes a returned buffer; returns the octets of the frame.
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
