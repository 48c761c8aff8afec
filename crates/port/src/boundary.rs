//! Frames, and the two sides of a port: what is promised of each.

use std::fmt;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use frame::offload::{self, Offload, Offloads};
use ring::{BURST, Bytes, Tagged};

use crate::offload::{Completed, deliver};

/// One frame, shown where it lies: Ethernet header first, no FCS; and what it leaves to be done.
#[derive(Clone, Copy)]
pub struct Frame<'a>(Tagged<'a>);

// What a frame leaves to be done fits beside its octets.
const _: () = assert!(offload::BITS <= Tagged::BITS && offload::LARGEST <= Tagged::LONGEST);

impl<'a> Frame<'a> {
    /// A frame of these octets, at most 131,071.
    #[inline(always)]
    pub const fn new(octets: Bytes<'a>) -> Self {
        Self::with_offload(octets, Offload::NONE)
    }

    /// A frame of these octets that leaves this to be done.
    #[inline(always)]
    pub const fn with_offload(octets: Bytes<'a>, offload: Offload) -> Self {
        Self(Tagged::new(octets, offload.bits()))
    }

    /// What it leaves to be done. Its sender has said so once and cannot change it any more, unlike the octets.
    #[inline(always)]
    pub const fn offload(&self) -> Offload {
        Offload::from_bits(self.0.tag())
    }

    /// What somebody must be able to do, to take all of these as they are.
    #[inline(always)]
    pub(crate) fn needed(frames: &[Self]) -> Offloads {
        Offload::from_bits(Tagged::any(frames.iter().map(|frame| &frame.0))).needed()
    }

    /// Its octets, which the sender may still change.
    #[inline(always)]
    pub const fn octets(&self) -> Bytes<'a> {
        self.0.bytes()
    }

    /// Octets, without FCS.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the frame has no octet.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("octets", &self.octets()).field("offload", &self.offload()).finish()
    }
}

/// Up to [`BURST`] frames.
pub type Frames<'a> = ArrayVec<Frame<'a>, BURST>;

/// What wakes the thread that sleeps for a port.
#[derive(Clone, Copy, Debug)]
pub enum Bell<'a> {
    /// Nothing: the port never has news by itself (a null port), or always has (a generator).
    None,
    /// An eventfd, to be read (8 octets) when it rings.
    Event(BorrowedFd<'a>),
    /// A device that is readable while frames wait; nothing has to be read from it to silence it.
    Readable(BorrowedFd<'a>),
}

/// Where frames come from. One thread polls it.
pub trait Source: Send {
    /// Shows up to `budget` (at most [`BURST`]) waiting frames to `take`, in order, then gives them back to the
    /// sender. `take` is called at most once, and not at all when no frame waits. Returns how many were shown.
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize;

    /// Whether frames that are not drained wait where they are. If not (an offered load, a wire), the poller drains
    /// without regard to the sink's room, and the sink counts what it cannot take.
    fn waits(&self) -> bool {
        true
    }

    /// Asks to be rung when frames come; true if some are there already, in which case the poller must not sleep.
    fn arm(&mut self) -> bool {
        false
    }

    /// Takes the wish of [`Source::arm`] back: we poll again.
    fn disarm(&mut self) {}

    /// What rings after [`Source::arm`].
    fn bell(&self) -> Bell<'_> {
        Bell::None
    }

    /// Does what is to be done in each pass, whatever frames may move. Who does not drain, because the other end has no
    /// room, calls this instead.
    fn tend(&mut self) {}

    /// What rings after [`Source::arm`], where no frame can move, when [`Source::tend`] has something to do.
    fn timer(&self) -> Bell<'_> {
        Bell::None
    }

    /// Tells the source what the other end takes from now on. A source that can choose stops asking for anything else;
    /// what it asks for all the same is done on the way ([`deliver`]).
    fn settle(&mut self, takes: Offloads) {
        let _ = takes;
    }
}

/// Where frames go. Several threads may deliver at the same time.
pub trait Sink: Send + Sync {
    /// Takes the frames in order, as many as it can: the first frames of the slice, returned as a number. The rest
    /// is lost, and has been counted by the sink under the reason.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize;

    /// How many frames [`Sink::deliver`] would take just now (a hint; a large number where there is no limit).
    fn room(&self) -> usize {
        usize::MAX
    }

    /// How many frames of the largest size, which may take many buffers each, [`Sink::deliver`] would take just now.
    fn large_room(&self) -> usize {
        self.room()
    }

    /// Asks to be rung when there is room again; true if there is already.
    fn arm(&self) -> bool {
        true
    }

    /// Takes the wish of [`Sink::arm`] back.
    fn disarm(&self) {}

    /// What rings after [`Sink::arm`].
    fn bell(&self) -> Bell<'_> {
        Bell::None
    }

    /// What frames may leave to the sink, just now: it changes as drivers come and go.
    fn offloads(&self) -> Offloads {
        Offloads::NONE
    }

    /// Tells the sink what was done for it on the way, for its books.
    fn completed(&self, done: &Completed) {
        let _ = done;
    }
}

/// Moves one burst from a source to a sink; returns how many frames left the source.
#[inline]
pub fn pump(source: &mut dyn Source, sink: &dyn Sink) -> usize {
    let budget = if source.waits() { sink.room().min(BURST) } else { BURST };
    if budget == 0 {
        source.tend();
        return 0;
    }
    source.drain(budget, &mut |frames| {
        deliver(sink, frames);
    })
}

/// Octets of all these frames together.
#[inline]
pub fn octets(frames: &[Frame<'_>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}
