//! The one way from a burst to a sink: what the sink cannot do itself is done here, in software.
//!
//! ```text
//!   frames --> nothing left to be done, or the sink does it -----------------> sink.deliver
//!         \--> checksum: copied, filled in ----------------------------------/
//!          \-> segments: headers written, payload copied, checksum filled in -/
//! ```
//!
//! A burst in which no frame leaves anything to be done costs one OR for each frame, and nothing where the sink takes
//! everything. What is done in software is done in memory of the thread's own, so that the frame's owner cannot change it
//! afterwards, and told to the sink for its books ([`Sink::completed`]).
//!
//! A frame that is cut may give more segments than the sink has room for. [`pump_on`] keeps them for the next time, as
//! far as the frames come from where they wait; anywhere else they are lost, and the sink counts them.

mod backlog;
mod work;

use std::cell::Cell;

use arrayvec::ArrayVec;
use frame::offload::{LARGEST, Offloads};
use ring::BURST;

pub use backlog::{Backlog, pump_on};
use work::Work;

use crate::boundary::{Frame, Frames, Sink};

/// What was done for a sink on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Frames whose checksum was filled in.
    pub checksums: u64,
    /// Frames that were cut.
    pub segmented: u64,
    /// Segments that they were cut into.
    pub segments: u64,
    /// Frames dropped because they ask for what does not fit them.
    pub drop_bad_offload: u64,
}

/// Octets of a thread's own for frames that are completed: one of the largest and its headers, many times over, fits.
const ROOM: usize = 2 * LARGEST;

thread_local! {
    /// Empty until it is needed, and while it is in use.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What somebody must be able to do, to take all of these frames as they are.
#[inline(always)]
pub fn needed(frames: &[Frame<'_>]) -> Offloads {
    Frame::needed(frames)
}

/// Delivers a burst to a sink, each frame as the sink can take it. Returns how many frames of the slice were taken whole
/// (or dropped, and counted, because they ask for what does not fit them); the rest is lost, as with [`Sink::deliver`].
#[inline]
pub fn deliver(sink: &dyn Sink, frames: &[Frame<'_>]) -> usize {
    let takes = sink.offloads();
    // Who takes everything need not be asked for each frame.
    if takes == Offloads::ALL || takes.has(needed(frames)) {
        return sink.deliver(frames);
    }
    deliver_completed(sink, takes, frames)
}

/// Delivers a burst to a sink, as [`deliver`] does, where it is known already what the frames need, or more.
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

/// Shows frames to `look` as they are on a plain wire: in bursts, whose frames leave nothing to be done.
pub fn plainly(frames: &[Frame<'_>], look: &mut dyn FnMut(&[Frame<'_>])) {
    if needed(frames).is_none() {
        return look(frames);
    }
    for burst in frames.chunks(BURST) {
        complete(Offloads::NONE, burst, &mut ToLook(look));
    }
}

/// Where completed frames go.
trait Target {
    /// Takes the first so many.
    fn take(&mut self, frames: &[Frame<'_>]) -> usize;

    /// All went there.
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

/// Delivers a burst of which some frames are to be completed first; returns how many were taken whole.
#[cold]
#[inline(never)]
fn complete(takes: Offloads, frames: &[Frame<'_>], target: &mut dyn Target) -> usize {
    // A sink may itself deliver to another one in this thread: it finds an empty scratch then, and makes its own.
    let mut scratch = SCRATCH.take();
    if scratch.len() < ROOM {
        scratch.resize(ROOM, 0);
    }
    let mut pass = Pass { takes, frames, next: 0, work: None, done: Completed::default() };
    // A bit for each frame of the burst.
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

/// A burst on its way, and how far it is.
struct Pass<'a> {
    takes: Offloads,
    frames: &'a [Frame<'a>],
    /// The frame whose turn it is.
    next: usize,
    /// What is being done to it.
    work: Option<Work>,
    done: Completed,
}

impl Pass<'_> {
    /// Adds frames to a batch for as long as it and the room last. `origins` says which frame of the burst each is of.
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
                self.work = Work::of(frame, self.takes);
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

    /// A frame's work begins, or cannot be done.
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
