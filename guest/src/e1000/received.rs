//! Assembly of received frames from descriptors.

use ledger::RouterNic;
use ring::e1000::{Received, rx};
use router::Burst;

use crate::buffer::{CAPACITY, FrameBuffer, HEADER, Pool};

/// A frame in one buffer: its address and length.
type Piece = (u64, u32);

/// Length of the longest frame in a buffer, in octets. The device may write a little more, into the spare octets behind it.
const LONGEST: u32 = CAPACITY - HEADER;

/// Passes on frames that fit into one buffer; longer ones are discarded, since no frame within the NIC's MTU is
/// longer. To the device buffers may be shorter than they are: then the second part of a frame is copied behind the first.
#[derive(Default)]
pub(super) struct Assembly {
    /// True within a frame that did not end with its first descriptor.
    within: bool,
    /// What has come of that frame, unless it is being discarded.
    begun: Option<Piece>,
    /// Number of discarded frames that were not counted yet.
    discarded: u64,
}

impl Assembly {
    /// Takes a returned buffer; returns the octets of the frame that it completes.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        at: u64,
        received: Received,
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
    ) -> u64 {
        let (ends, len) = (received.status & rx::EOP != 0, u32::from(received.length));
        if self.within || !ends || len > LONGEST || burst.is_full() {
            return self.take_piece((at, len), ends, burst, pool);
        }
        burst.push(FrameBuffer::new(at, len));
        u64::from(len)
    }

    /// Counts the frames that were discarded since the last call.
    #[inline(always)]
    pub(super) fn count_discarded(&mut self, counters: &RouterNic) {
        let discarded = core::mem::take(&mut self.discarded);
        if discarded > 0 {
            counters.drop_rx_pieces.add(discarded);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_piece(
        &mut self,
        piece: Piece,
        ends: bool,
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
    ) -> u64 {
        let within = core::mem::replace(&mut self.within, !ends);
        let frame = match self.begun.take() {
            Some(begun) => join(begun, piece, pool),
            None if within => {
                // The rest of a frame that is being discarded.
                pool.give(piece.0);
                return 0;
            }
            None if piece.1 > LONGEST => {
                pool.give(piece.0);
                None
            }
            None => Some(piece),
        };
        match frame {
            Some(begun) if !ends => self.begun = Some(begun),
            Some((at, len)) if !burst.is_full() => {
                burst.push(FrameBuffer::new(at, len));
                return u64::from(len);
            }
            Some((at, _)) => {
                self.discarded += 1;
                pool.give(at);
            }
            None => self.discarded += 1,
        }
        0
    }
}

/// Copies a part of a frame behind what has come of it. `None`: it does not fit, and both buffers were given back.
fn join((at, len): Piece, (other, more): Piece, pool: &mut Pool) -> Option<Piece> {
    let fits = len + more <= LONGEST;
    if fits {
        let from = (other + u64::from(HEADER)) as *const u8;
        let to = (at + u64::from(HEADER + len)) as *mut u8;
        // SAFETY: two buffers that the device has returned, hence of this vCPU alone; `more` octets behind the header lie in
        // the one, and behind `len` of them in the other, because they fit.
        unsafe { core::ptr::copy_nonoverlapping(from, to, more as usize) };
    }
    pool.give(other);
    if !fits {
        pool.give(at);
    }
    fits.then_some((at, len + more))
}
