//! The transmit queue's data path: frames from the guest are shown where they lie (virtio 1.2, section 5.1.6.2).
//!
//! Each chain is a header of [`HEADER`] octets, then a frame. In one buffer, or with the header in a buffer of its
//! own, the frame is shown in the guest's memory; in more pieces it is gathered into a private buffer first. The
//! header is not looked at: no offload that it could ask for is ever offered.

use ledger::NicDirection;
use ring::split::{Broken, Burst, Chain, DeviceQueue};
use ring::{BURST, Bytes};
use switch::{Frame, Frames};

/// Octets of the header before each frame (`struct virtio_net_hdr_v1`).
pub const HEADER: usize = 12;
/// Octets of the shortest frame: an Ethernet header.
pub const SHORTEST: usize = 14;
/// Room for the frames of one burst that have to be gathered; one frame of the largest size always fits.
const GATHER: usize = 64 * 1024;

/// What one call of [`TxQueue::drain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Frames that left the queue: those shown, and those dropped because of their length.
    pub frames: usize,
    /// Whether the driver wants an interrupt.
    pub interrupt: bool,
}

/// A transmit queue.
#[derive(Debug)]
pub struct TxQueue {
    queue: DeviceQueue,
    burst: Burst,
    /// Octets of the largest frame, without FCS.
    longest: usize,
    /// For frames in pieces; empty until the first one.
    gathered: Vec<u8>,
    /// Whether a broken ring was counted.
    reported: bool,
}

/// What a chain holds.
enum Content {
    /// A frame in one piece.
    Whole(Bytes<'static>),
    /// A frame of this many octets in pieces, behind the header.
    Pieces(usize),
    TooShort,
    TooLong,
}

/// Frames of one burst that were not shown.
#[derive(Default)]
struct Dropped {
    short: usize,
    long: usize,
}

impl TxQueue {
    /// Takes over a queue. `longest`: octets of the largest frame that is let through, without FCS.
    pub fn new(queue: DeviceQueue, longest: usize) -> Self {
        Self { queue, burst: Burst::new(), longest, gathered: Vec::new(), reported: false }
    }

    /// Shows up to `budget` (at most [`BURST`]) frames to `take`, in order and in one call, then returns their
    /// buffers to the driver. Nothing is shown where none waits or the ring is broken. Frames, drops and the
    /// interrupt are counted here.
    #[inline]
    pub fn drain(
        &mut self,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        match self.queue.take_readable(budget.min(BURST), &mut self.burst) {
            Ok(0) => {
                ledger.polls_empty.add(1);
                Drained::default()
            }
            Ok(_) => {
                if self.burst.is_simple() {
                    self.show_simple(ledger, take);
                } else {
                    self.show_pieces(ledger, take);
                }
                self.finish(ledger)
            }
            Err(_) => self.report(ledger),
        }
    }

    /// Shows a burst in which each chain is one buffer.
    #[inline(always)]
    fn show_simple(&mut self, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        let (mut frames, mut bytes, mut dropped) = (Frames::new_const(), 0, Dropped::default());
        for chain in self.burst.chains() {
            let octets = chain.only().skip(HEADER as u32);
            if octets.len().wrapping_sub(SHORTEST) <= self.longest - SHORTEST {
                bytes += octets.len() as u64;
                frames.push(Frame::new(octets));
            } else {
                dropped.add(octets.len() < SHORTEST && !chain.too_many());
            }
        }
        hand_over(&frames, bytes, &dropped, ledger, take);
    }

    /// Shows a burst in which a chain has several buffers.
    #[cold]
    fn show_pieces(&mut self, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        self.gathered.resize(GATHER + self.longest, 0);
        let (mut frames, mut bytes, mut dropped) = (Frames::new_const(), 0, Dropped::default());
        let (mut room, mut keep) = (&mut self.gathered[..], self.burst.len());
        for (i, chain) in self.burst.chains().iter().enumerate() {
            let octets = match content(&self.burst, chain, self.longest) {
                Content::Whole(octets) => octets,
                Content::Pieces(len) if len <= room.len() => {
                    let (frame, rest) = room.split_at_mut(len);
                    room = rest;
                    gather(self.burst.readable(chain), frame);
                    Bytes::from_slice(frame)
                }
                Content::Pieces(_) => {
                    keep = i;
                    break;
                }
                Content::TooShort => {
                    dropped.add(true);
                    continue;
                }
                Content::TooLong => {
                    dropped.add(false);
                    continue;
                }
            };
            bytes += octets.len() as u64;
            frames.push(Frame::new(octets));
        }
        hand_over(&frames, bytes, &dropped, ledger, take);
        // The rest comes again in the next burst, with the room all empty.
        self.queue.give_back(&mut self.burst, keep);
    }

    /// Returns the burst's buffers.
    #[inline(always)]
    fn finish(&mut self, ledger: &NicDirection) -> Drained {
        self.queue.complete_all(&self.burst);
        let interrupt = self.queue.publish();
        let counter = if interrupt { &ledger.interrupts } else { &ledger.interrupts_suppressed };
        counter.add(1);
        Drained { frames: self.burst.len(), interrupt }
    }

    #[cold]
    fn report(&mut self, ledger: &NicDirection) -> Drained {
        if !self.reported {
            self.reported = true;
            ledger.drop_bad_ring.add(1);
        }
        Drained::default()
    }

    /// Whether frames wait; false on a broken ring.
    pub fn has_frames(&mut self) -> bool {
        self.queue.ready(1).is_ok_and(|waiting| waiting > 0)
    }

    /// Available index of the next chain: where somebody else can go on.
    pub fn index(&self) -> u16 {
        self.queue.index()
    }

    /// Asks for a kick when the next frame comes; true if one waits already.
    pub fn arm(&mut self) -> bool {
        self.queue.arm()
    }

    /// Asks for no kicks: we poll.
    pub fn disarm(&mut self) {
        self.queue.disarm();
    }

    /// Why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        self.queue.broken()
    }
}

impl Dropped {
    #[cold]
    fn add(&mut self, short: bool) {
        *if short { &mut self.short } else { &mut self.long } += 1;
    }
}

/// Counts and shows.
#[inline(always)]
fn hand_over(
    frames: &[Frame<'_>],
    bytes: u64,
    dropped: &Dropped,
    ledger: &NicDirection,
    take: &mut dyn FnMut(&[Frame<'_>]),
) {
    if dropped.short + dropped.long > 0 {
        ledger.drop_too_short.add(dropped.short as u64);
        ledger.drop_too_long.add(dropped.long as u64);
    }
    if !frames.is_empty() {
        take(frames);
        ledger.frames.add(frames.len() as u64);
        ledger.bytes.add(bytes);
        ledger.batches.add(1);
    }
}

/// What a chain of any shape holds.
fn content(burst: &Burst, chain: &Chain, longest: usize) -> Content {
    let segments = burst.readable(chain);
    let total: usize = segments.iter().map(Bytes::len).sum();
    let len = total.saturating_sub(HEADER);
    if len > longest || chain.too_many() {
        return Content::TooLong;
    }
    if len < SHORTEST {
        return Content::TooShort;
    }
    let mut header = HEADER;
    for segment in segments {
        if segment.len() > header {
            let frame = segment.skip(header as u32);
            return if frame.len() == len { Content::Whole(frame) } else { Content::Pieces(len) };
        }
        header -= segment.len();
    }
    Content::TooShort
}

/// Copies the frame behind the header; the target is as long as the frame.
fn gather(segments: &[Bytes<'static>], mut target: &mut [u8]) {
    let mut header = HEADER;
    for segment in segments {
        let piece = segment.skip(header as u32);
        header = header.saturating_sub(segment.len());
        let copied = piece.copy_to_slice(target);
        target = &mut target[copied..];
    }
}

#[cfg(test)]
mod tests;
