//! Frames that lie in several chunks (XDP_USE_SG, Linux 6.6): the descriptor of each chunk but the last says that the frame goes on.
//! Such a frame is copied together, because frames are shown in one piece; one that lies in a single chunk is shown there.

use std::ops::Range;
use std::slice::ChunksExactMut;

use port::{Frame, Frames};
use ring::{BURST, Bytes};

use super::super::abi::{CONTINUES, Descriptor};
use super::super::rings::Consumer;
use super::super::umem::{Layout, Umem};
use super::{Receiver, XdpReadCounters};

/// Most frames that are copied together at a time: they stay in a core's cache. Frames in a single chunk come in whole bursts.
const JOINED: usize = 16;

/// Returns room for the frames that are copied together; none if all lie in one chunk.
pub(super) fn room(layout: Layout) -> Box<[u8]> {
    let octets = if layout.is_in_pieces() { JOINED * layout.longest() as usize } else { 0 };
    vec![0; octets].into_boxed_slice()
}

impl Receiver {
    /// Shows the available frames that are complete, and returns their chunks.
    pub(super) fn drain_joined(
        &mut self,
        budget: usize,
        counters: &XdpReadCounters,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> usize {
        let (layout, budget) = (self.queue.umem.layout, budget.min(BURST));
        let waiting = self.receive.waiting(budget as u32 * layout.pieces);
        let mut rooms = self.joined.chunks_exact_mut(layout.longest() as usize);
        let (mut frames, mut octets, mut done) = (Frames::new(), 0, 0);
        while done < waiting && frames.len() < budget {
            if self.skips {
                self.skips = goes_on(&self.receive, done);
                done += 1;
                continue;
            }
            let Some(pieces) = pieces(&self.receive, done..waiting, layout.pieces) else { break };
            if pieces > 1 && rooms.len() == 0 {
                break;
            }
            let end = done + pieces;
            self.skips = goes_on(&self.receive, end - 1);
            let whole =
                if self.skips { None } else { join(&self.queue.umem, &self.receive, done..end, &mut rooms) };
            match whole {
                Some(bytes) => {
                    octets += bytes.len() as u64;
                    frames.push(Frame::new(bytes));
                }
                None => counters.drop_bad_address.add(1),
            }
            done = end;
        }
        let shown = frames.len();
        if shown > 0 {
            counters.frames.add(shown as u64);
            counters.bytes.add(octets);
            counters.batches.add(1);
            take(&frames);
        }
        drop(frames);
        if done > 0 {
            self.give_back(done, counters);
        } else if self.unpublished > 0 {
            self.refill(counters);
        }
        shown
    }
}

/// Returns true if the frame of the `n`th descriptor has further ones.
fn goes_on(receive: &Consumer<Descriptor>, n: u32) -> bool {
    receive.peek(n).options & CONTINUES != 0
}

/// Returns how many of these descriptors the first frame has, at most `most`: if it goes on after so many, it is longer than any that
/// is expected. `None` if the rest of it has not come yet.
fn pieces(receive: &Consumer<Descriptor>, available: Range<u32>, most: u32) -> Option<u32> {
    let from = available.start;
    let last = available.clone().take(most as usize).find(|n| !goes_on(receive, *n));
    match last {
        Some(last) => Some(last + 1 - from),
        None => (available.end - from >= most).then_some(most),
    }
}

/// Returns the octets of the frame with these descriptors, one of which is shown where it is; `None` if they lead outside the memory,
/// or the frame is too long.
fn join<'a>(
    umem: &'a Umem,
    receive: &Consumer<Descriptor>,
    pieces: Range<u32>,
    rooms: &mut ChunksExactMut<'a, u8>,
) -> Option<Bytes<'a>> {
    let piece = |n: u32| {
        let Descriptor { addr, len, .. } = receive.peek(n);
        umem.bytes(addr, len)
    };
    if pieces.len() == 1 {
        return piece(pieces.start);
    }
    let (room, mut len) = (rooms.next()?, 0);
    for n in pieces {
        let bytes = piece(n)?;
        bytes.copy_to_slice(room.get_mut(len..len + bytes.len())?);
        len += bytes.len();
    }
    room.get_mut(..len).map(Bytes::from_slice)
}
