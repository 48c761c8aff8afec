//! Counts the frames of a [`Source`](super::Source) and detects missing and reordered ones.

use arrayvec::ArrayVec;

use super::{FLOW, SEQUENCE, SHORTEST};
use crate::platform::{Buffer, Burst, Platform};

/// Number of flows whose sequence is checked; frames of further flows are only counted.
const FLOWS: usize = 4096;

/// Counts of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All frames of any kind.
    pub frames: u64,
    /// Total length of those frames in octets.
    pub octets: u64,
    /// Sequence numbers that were skipped and did not arrive later.
    pub lost: u64,
    /// Frames that arrived after a later one of their flow.
    pub reordered: u64,
    /// Frames that are not a source's, or of a flow that is not checked.
    pub foreign: u64,
}

/// A sink on all NICs. About 18 KiB.
pub struct Sink<B> {
    expected: [u32; FLOWS],
    tally: Tally,
    burst: Burst<B>,
}

impl<B: Buffer> Default for Sink<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Buffer> Sink<B> {
    /// Creates a sink that has seen no frame: all flows start at number 0.
    pub const fn new() -> Self {
        Self {
            expected: [0; FLOWS],
            tally: Tally { frames: 0, octets: 0, lost: 0, reordered: 0, foreign: 0 },
            burst: ArrayVec::new_const(),
        }
    }

    /// Returns the counts so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Makes one pass over all NICs; returns how many frames arrived.
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let before = self.tally.frames;
        for nic in 0..platform.nics() {
            platform.receive(nic, &mut self.burst);
            self.burst.iter().for_each(Buffer::prefetch);
            for mut buffer in self.burst.drain(..) {
                note(&mut self.expected, &mut self.tally, &mut buffer);
                platform.free(buffer);
            }
        }
        (self.tally.frames - before) as usize
    }
}

/// Counts one frame.
#[inline(always)]
fn note<B: Buffer>(flows: &mut [u32; FLOWS], tally: &mut Tally, buffer: &mut B) {
    let len = buffer.len();
    tally.frames += 1;
    tally.octets += len as u64;
    let head = buffer.head();
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (flow, sequence) = (word(FLOW), word(SEQUENCE));
    let ours = len >= SHORTEST && head[12..15] == [0x08, 0x00, 0x45] && head[23] == frame::ipv4::UDP;
    let Some(expected) = flows.get_mut(flow as usize).filter(|_| ours) else {
        tally.foreign += 1;
        return;
    };
    let ahead = sequence.wrapping_sub(*expected);
    if ahead < 1 << 31 {
        tally.lost += u64::from(ahead);
        *expected = sequence.wrapping_add(1);
    } else {
        tally.reordered += 1;
        tally.lost = tally.lost.saturating_sub(1);
    }
}
