//! Delivery of a burst to a sink: offloads that the sink does not support are completed here, in software.
//!
//! ```text
//!   frames --> no pending offload, or the sink supports it ------------------> sink.deliver
//!         \--> checksum: copied, filled in -----------------------------------/
//!          \-> segments: headers written, payload copied, checksum filled in -/
//! ```
//!
//! A burst without pending offloads costs one OR for each frame, and nothing if the sink supports all offloads.
//! Software completion works in the thread's own memory, so that the frame's owner cannot change the result afterwards,
//! and is reported to the sink for its counters ([`Sink::completed`]).
//!
//! A frame may be segmented into more segments than the sink has room for. [`pump_on`] keeps them for the next pass, if
//! the source's frames wait (back-pressure); otherwise they are lost, and the sink counts them.

mod backlog;
mod work;

use std::cell::Cell;

use arrayvec::ArrayVec;
use frame::offload::{LARGEST, Offloads};
use ring::BURST;

pub use backlog::{Backlog, pump_on};
use work::FrameCompletion;

use crate::boundary::{Frame, Frames, Sink};

/// Counts of offloads completed in software for a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Frames whose checksum was filled in.
    pub checksums: u64,
    /// Frames that were segmented.
    pub segmented: u64,
    /// Segments that they were split into.
    pub segments: u64,
    /// Frames dropped because their offload metadata does not fit them.
    pub drop_bad_offload: u64,
}

/// Size of a thread's own memory for completed frames: several times the largest frame with its headers.
const ROOM: usize = 2 * LARGEST;

thread_local! {
    /// Empty until first used, and while it is in use.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns the offloads that a sink must support to take all of these frames unchanged.
#[inline(always)]
pub fn needed(frames: &[Frame<'_>]) -> Offloads {
    Frame::needed(frames)
}

/// Delivers a burst to a sink, with the offloads that the sink does not support completed. Returns how many frames of
/// the slice were taken completely (or dropped, and counted, because their offload metadata does not fit them); the
/// rest is lost, as with [`Sink::deliver`].
#[inline]
pub fn deliver(sink: &dyn Sink, frames: &[Frame<'_>]) -> usize {
    let takes = sink.offloads();
    // If the sink supports everything, the frames need not be checked.
    if takes == Offloads::ALL || takes.has(needed(frames)) {
        return sink.deliver(frames);
    }
    deliver_completed(sink, takes, frames)
}

/// As [`deliver`], if the offloads that the frames need, or a superset, are already known.
#[inline]
pub fn deliver_known(sink: &dyn Sink, needed: Offloads, frames: &[Frame<'_>]) -> usize {
    if needed.is_none() {
        return sink.deliver(frames);
    }
    let takes = sink.offloads();
    if takes.has(needed) { sink.deliver(frames) } else { deliver_completed(sink, takes, frames) }
}

#[cold]
fn deliver_completed(sink: &dyn Sink, takes: Offloads, frames: &[Frame<'_>]) -> usize {
    frames.chunks(BURST).map(|burst| complete(takes, burst, &mut ToSink(sink))).sum()
}

/// Shows frames to `look` as a plain wire would carry them: in bursts of frames without pending offloads.
pub fn show_completed(frames: &[Frame<'_>], look: &mut dyn FnMut(&[Frame<'_>])) {
    if needed(frames).is_none() {
        return look(frames);
    }
    for burst in frames.chunks(BURST) {
        complete(Offloads::NONE, burst, &mut ToLook(look));
    }
}

/// Destination of completed frames.
trait Target {
    /// Takes frames from the first on; returns how many.
    fn take(&mut self, frames: &[Frame<'_>]) -> usize;

    /// Called when all frames were offered.
    fn end(&mut self, done: &Completed);
}

struct ToSink<'a>(&'a dyn Sink);

impl Target for ToSink<'_> {
    fn take(&mut self, frames: &[Frame<'_>]) -> usize {
        self.0.deliver(frames)
    }

    fn end(&mut self, done: &Completed) {
        self.0.completed(done);
    }
}

struct ToLook<'a>(&'a mut dyn FnMut(&[Frame<'_>]));

impl Target for ToLook<'_> {
    fn take(&mut self, frames: &[Frame<'_>]) -> usize {
        (self.0)(frames);
        frames.len()
    }

    fn end(&mut self, _done: &Completed) {}
}

/// Delivers a burst with frames to be completed first; returns how many were taken completely.
#[cold]
#[inline(never)]
fn complete(takes: Offloads, frames: &[Frame<'_>], target: &mut dyn Target) -> usize {
    // A sink may itself deliver to another one in this thread: then it finds an empty buffer, and allocates its own.
    let mut scratch = SCRATCH.take();
    if scratch.len() < ROOM {
        scratch.resize(ROOM, 0);
    }
    let mut pass = BurstCompletion { takes, frames, next: 0, work: None, done: Completed::default() };
    // Bit set of the frames of the burst that were lost.
    let mut lost = 0_u64;
    while pass.next < frames.len() {
        let (mut batch, mut origins) = (Frames::new(), ArrayVec::new());
        pass.fill(&mut scratch, &mut batch, &mut origins);
        if batch.is_empty() {
            continue;
        }
        let taken = target.take(&batch);
        for &origin in origins.get(taken..).unwrap_or(&[]) {
            lost |= 1 << (origin % BURST as u8);
        }
    }
    target.end(&pass.done);
    SCRATCH.set(scratch);
    frames.len() - lost.count_ones() as usize
}

/// A burst that is being completed, and the progress.
struct BurstCompletion<'a> {
    takes: Offloads,
    frames: &'a [Frame<'a>],
    /// Index of the current frame.
    next: usize,
    /// Work on the current frame.
    work: Option<FrameCompletion>,
    done: Completed,
}

impl BurstCompletion<'_> {
    /// Adds completed frames to a batch while it and the memory have room. `origins` holds, for each, the index of its
    /// frame in the burst.
    fn fill<'r>(
        &'r mut self,
        mut room: &'r mut [u8],
        batch: &mut Frames<'r>,
        origins: &mut ArrayVec<u8, BURST>,
    ) {
        while let Some(frame) = self.frames.get(self.next) {
            if batch.is_full() {
                return;
            }
            if self.takes.has(frame.offload().needed()) {
                batch.push(*frame);
                origins.push(self.next as u8);
                self.next += 1;
                continue;
            }
            if self.work.is_none() {
                self.work = FrameCompletion::of(frame, self.takes);
                self.count(frame);
            }
            let Some(work) = &mut self.work else {
                self.next += 1;
                continue;
            };
            while !batch.is_full() && !work.is_done() {
                let Ok((shown, rest)) = work.next(frame, room) else { return };
                room = rest;
                batch.push(shown);
                origins.push(self.next as u8);
            }
            if work.is_done() {
                self.work = None;
                self.next += 1;
            }
        }
    }

    /// Counts a frame whose work begins, or cannot be done.
    fn count(&mut self, frame: &Frame<'_>) {
        match &self.work {
            None => self.done.drop_bad_offload += 1,
            Some(work) if frame.offload().gso().is_some() => {
                self.done.segmented += 1;
                self.done.segments += work.count() as u64;
            }
            Some(_) => self.done.checksums += 1,
        }
    }
}

#[cfg(test)]
mod tests;
