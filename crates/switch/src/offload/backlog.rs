//! Segments that a sink had no room for yet.

use std::collections::VecDeque;

use frame::offload::{Offload, Offloads};
use ring::{BURST, Bytes};

use super::{Completed, Target, complete, deliver, is_work};
use crate::port::{Frame, Frames, Sink, Source};

/// Passes after which a source is told again what its sink takes.
const SETTLE: u32 = 256;
/// Octets of a backlog that are kept for the next one.
const KEEP: usize = 256 * 1024;

/// What lies between one source and one sink: nothing, as a rule. After a frame that was cut, the segments that the sink
/// had no room for.
#[derive(Default)]
pub struct Backlog {
    octets: Vec<u8>,
    /// Frames that follow each other there.
    frames: VecDeque<(u32, Offload)>,
    /// Octets of the frames that have gone.
    gone: usize,
    /// The last burst had frames that were cut: the next one is to be short.
    cuts: bool,
    passes: u32,
}

impl Backlog {
    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Keeps frames for later.
    fn keep(&mut self, frames: &[Frame<'_>]) {
        for frame in frames {
            let start = self.octets.len();
            self.octets.resize(start + frame.len(), 0);
            let copied = self.octets.get_mut(start..).map_or(0, |place| frame.octets().copy_to_slice(place));
            self.frames.push_back((copied as u32, frame.offload()));
        }
    }

    /// Delivers as much as the sink has room for; returns how many frames have gone.
    #[cold]
    fn flush(&mut self, sink: &dyn Sink) -> usize {
        let before = self.frames.len();
        while !self.is_empty() {
            let room = sink.room().min(BURST).min(self.frames.len());
            if room == 0 {
                return before - self.frames.len();
            }
            let mut batch = Frames::new();
            let mut rest = self.octets.get_mut(self.gone..).unwrap_or_default();
            for (len, offload) in self.frames.drain(..room) {
                let (octets, after) = rest.split_at_mut((len as usize).min(rest.len()));
                rest = after;
                self.gone += octets.len();
                batch.push(Frame::with_offload(Bytes::from_slice(octets), offload));
            }
            deliver(sink, &batch);
        }
        self.octets.clear();
        self.octets.shrink_to(KEEP);
        self.gone = 0;
        before
    }

    /// Delivers a burst of which some frames are to be completed, and keeps what there is no room for.
    fn complete(&mut self, sink: &dyn Sink, takes: Offloads, frames: &[Frame<'_>]) {
        let mut target = Keeping { sink, backlog: self };
        complete(takes, frames, &mut target);
    }
}

/// A sink, and what keeps what it has no room for.
struct Keeping<'a> {
    sink: &'a dyn Sink,
    backlog: &'a mut Backlog,
}

impl Target for Keeping<'_> {
    fn take(&mut self, frames: &[Frame<'_>]) -> usize {
        let room = if self.backlog.is_empty() { self.sink.room().min(frames.len()) } else { 0 };
        let (now, later) = frames.split_at(room);
        if !now.is_empty() {
            self.sink.deliver(now);
        }
        self.backlog.keep(later);
        frames.len()
    }

    fn end(&mut self, done: &Completed) {
        self.backlog.cuts |= done.segmented > 0;
        self.sink.completed(done);
    }
}

/// Moves one burst from a source to a sink, as [`crate::port::pump`], with a place for what the sink has no room for once
/// it is cut; the same place each time. Tells the source what the sink takes. Returns how many frames moved.
#[inline]
pub fn pump_on(source: &mut dyn Source, sink: &dyn Sink, backlog: &mut Backlog) -> usize {
    if backlog.passes & (SETTLE - 1) == 0 {
        source.settle(sink.offloads());
    }
    backlog.passes = backlog.passes.wrapping_add(1);
    if !backlog.is_empty() {
        return backlog.flush(sink);
    }
    let waits = source.waits();
    let budget = if waits { sink.room().min(BURST) } else { BURST };
    let budget = if backlog.cuts { budget.min(1) } else { budget };
    if budget == 0 {
        return 0;
    }
    let mut lacking = false;
    let moved = source.drain(budget, &mut |frames| {
        if !is_work(frames) {
            sink.deliver(frames);
            return;
        }
        let takes = sink.offloads();
        lacking = takes != Offloads::ALL
            && frames.iter().any(|frame| frame.offload().needed() & !takes != Offloads::NONE);
        match (lacking, waits) {
            (false, _) => _ = sink.deliver(frames),
            (true, false) => _ = deliver(sink, frames),
            (true, true) => backlog.complete(sink, takes, frames),
        }
    });
    if lacking {
        source.settle(sink.offloads());
    } else {
        backlog.cuts = false;
    }
    moved
}
