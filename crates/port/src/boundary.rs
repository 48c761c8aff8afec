//! Frames, and the contracts of the two sides of a port.

use std::fmt;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use frame::offload::{self, Offload, Offloads};
use ring::{BURST, Bytes, Tagged};

use crate::offload::{Completed, deliver};

/// One frame in its sender's memory: Ethernet header first, no FCS; with its pending offload metadata.
#[derive(Clone, Copy)]
pub struct Frame<'a>(Tagged<'a>);

// The offload metadata fits beside the octets in [`Tagged`].
const _: () = assert!(offload::BITS <= Tagged::BITS && offload::LARGEST <= Tagged::LONGEST);

impl<'a> Frame<'a> {
    /// Creates a frame of these octets, at most 131,071.
    #[inline(always)]
    pub const fn new(octets: Bytes<'a>) -> Self {
        Self::with_offload(octets, Offload::NONE)
    }

    /// Creates a frame of these octets that carries this pending offload metadata.
    #[inline(always)]
    pub const fn with_offload(octets: Bytes<'a>, offload: Offload) -> Self {
        Self(Tagged::new(octets, offload.bits()))
    }

    /// Returns its pending offload metadata. Unlike the octets, the sender cannot change it any more.
    #[inline(always)]
    pub const fn offload(&self) -> Offload {
        Offload::from_bits(self.0.tag())
    }

    /// Returns the offloads that a sink must support to take all of these frames unchanged.
    #[inline(always)]
    pub(crate) fn needed(frames: &[Self]) -> Offloads {
        Offload::from_bits(Tagged::any(frames.iter().map(|frame| &frame.0))).needed()
    }

    /// Returns its octets, which the sender may still change.
    #[inline(always)]
    pub const fn octets(&self) -> Bytes<'a> {
        self.0.bytes()
    }

    /// Returns the length in octets, without FCS.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the frame has no octets.
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

/// Descriptor that wakes a thread that sleeps for a port.
#[derive(Clone, Copy, Debug)]
pub enum Bell<'a> {
    /// No descriptor: the port never has events of its own (a null port), or always has frames (a generator).
    None,
    /// An eventfd; the woken thread must read it (8 octets).
    Event(BorrowedFd<'a>),
    /// A device that is readable while frames wait; it need not be read to reset it.
    Readable(BorrowedFd<'a>),
}

/// Origin of frames. One thread polls it.
pub trait Source: Send {
    /// Shows up to `budget` (at most [`BURST`]) waiting frames to `take`, in order, then gives them back to the sender.
    /// Calls `take` at most once, and not at all if no frame waits. Returns how many were shown, with those that a
    /// decorator has taken out on the way.
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize;

    /// Returns true if frames that are not drained wait at their sender (back-pressure). If not (an offered load, a
    /// wire), the poller drains without regard to the sink's room, and the sink counts the frames that it cannot take.
    fn waits(&self) -> bool {
        true
    }

    /// Requests a ring of the bell when frames arrive; returns true if some are there already, in which case the poller
    /// must not sleep.
    fn arm(&mut self) -> bool {
        false
    }

    /// Withdraws the request of [`Source::arm`]: the thread polls again.
    fn disarm(&mut self) {}

    /// Returns the bell that rings after [`Source::arm`].
    fn bell(&self) -> Bell<'_> {
        Bell::None
    }

    /// Performs the work of each pass that is independent of frames. A poller that does not drain, because the sink has
    /// no room, calls this instead.
    fn tend(&mut self) {}

    /// Returns the bell that rings after [`Source::arm`] while no frame can move, when [`Source::tend`] has work to do.
    fn timer(&self) -> Bell<'_> {
        Bell::None
    }

    /// Tells the source which offloads the sink accepts from now on. A source that can choose stops requesting others;
    /// those that it requests all the same are completed in software on the way ([`deliver`]).
    fn set_sink_offloads(&mut self, takes: Offloads) {
        let _ = takes;
    }
}

/// Destination of frames. Several threads may deliver at the same time.
pub trait Sink: Send + Sync {
    /// Takes as many frames as it can, in order from the first of the slice on; returns how many. The rest is lost, and
    /// the sink has counted it under the reason.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize;

    /// Returns how many frames [`Sink::deliver`] would take now (a hint; a large number if there is no limit).
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Returns how many frames of the largest size, which may take many buffers each, [`Sink::deliver`] would take now.
    fn large_room(&self) -> usize {
        self.room()
    }

    /// Requests a ring of the bell when there is room again; returns true if there is room already.
    fn arm(&self) -> bool {
        true
    }

    /// Withdraws the request of [`Sink::arm`].
    fn disarm(&self) {}

    /// Returns the bell that rings after [`Sink::arm`].
    fn bell(&self) -> Bell<'_> {
        Bell::None
    }

    /// Returns the offloads that frames may leave to the sink at present: they change as drivers come and go.
    fn offloads(&self) -> Offloads {
        Offloads::NONE
    }

    /// Reports to the sink which offloads were completed in software for it, for its counters.
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

/// Returns the total length of these frames in octets.
#[inline]
pub fn octets(frames: &[Frame<'_>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}
