//! Backlog of segments for which a sink had no room yet.

use std::collections::VecDeque;

use frame::offload::{Offload, Offloads};
use ring::{BURST, Bytes};

use super::{Completed, Target, complete, deliver, needed};
use crate::boundary::{Frame, Frames, Sink, Source};

/// Passes after which a source is told again which offloads its sink accepts: the source may have been restarted since.
const SETTLE: u32 = 256;
/// Capacity in octets that an empty backlog keeps for the next use.
const KEEP: usize = 256 * 1024;
/// Bursts after the last large frame during which the next one is expected.
const EXPECT: u8 = 64;
/// Passes for which a large frame waits for room: a sink that has less room than that for longer has too little
/// altogether.
const PATIENCE: u16 = 1000;

/// State between one source and one sink: usually empty. After a frame was segmented, holds the segments for which the
/// sink had no room.
#[derive(Default)]
pub struct Backlog {
    octets: Vec<u8>,
    /// Lengths and offload metadata of the frames, which follow one another in `octets`.
    frames: VecDeque<(u32, Offload)>,
    /// Octets of the frames already delivered.
    gone: usize,
    /// Bursts for which the budget stays short, because a frame was segmented recently.
    cuts: u8,
    /// Bursts for which large frames are expected, because one passed recently.
    large: u8,
    /// Consecutive passes without room for a large frame.
    waited: u16,
    passes: u32,
    /// Offloads that the source was last told.
    told: Offloads,
}

impl Backlog {
    /// Returns true if no frame is kept.
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

    /// Delivers as many kept frames as the sink has room for; returns how many.
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

    /// Tells the source which offloads the sink accepts: at once if they change, because a guest's driver may wake us
    /// for a few passes only.
    #[inline]
    fn set_sink_offloads(&mut self, source: &mut dyn Source, takes: Offloads) {
        if self.passes & (SETTLE - 1) == 0 || takes != self.told {
            source.set_sink_offloads(takes);
            self.told = takes;
        }
        self.passes = self.passes.wrapping_add(1);
    }

    /// Returns the budget for a source whose frames wait (back-pressure).
    #[inline]
    fn budget(&mut self, sink: &dyn Sink) -> usize {
        let room = sink.room().min(BURST);
        if self.cuts | self.large == 0 { room } else { self.short_budget(sink, room) }
    }

    /// Returns that budget while large frames may be among them.
    fn short_budget(&mut self, sink: &dyn Sink, room: usize) -> usize {
        if self.cuts > 0 {
            return room.min(1);
        }
        let large = sink.large_room().min(room);
        self.waited = if large == 0 && room > 0 { self.waited + 1 } else { 0 };
        if self.waited < PATIENCE {
            return large;
        }
        self.waited = 0;
        1
    }

    /// Records the offloads that a burst needs.
    #[inline]
    fn came(&mut self, needed: Offloads) {
        if needed.segments() {
            self.large = EXPECT;
        } else if self.cuts | self.large != 0 {
            (self.cuts, self.large) = (self.cuts.saturating_sub(1), self.large.saturating_sub(1));
        }
    }

    /// Delivers a burst from a source whose frames wait; frames that the sink cannot take unchanged are delivered
    /// segment by segment, as long as there is room. Returns the offloads that the sink lacks.
    fn deliver(&mut self, sink: &dyn Sink, needed: Offloads, frames: &[Frame<'_>]) -> Offloads {
        let takes = sink.offloads();
        let lacking = needed.without(takes);
        if lacking.is_none() {
            sink.deliver(frames);
        } else {
            complete(takes, frames, &mut Keeping { sink, backlog: self });
        }
        lacking
    }
}

/// A sink, and the backlog for frames without room.
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
        if done.segmented > 0 {
            self.backlog.cuts = EXPECT;
        }
        self.sink.completed(done);
    }
}

/// Moves one burst from a source to a sink, as [`crate::pump`], with a backlog for segments for which the sink has no
/// room; pass the same backlog each time. Tells the source which offloads the sink accepts. Returns how many frames
/// moved.
#[inline]
pub fn pump_on(source: &mut dyn Source, sink: &dyn Sink, backlog: &mut Backlog) -> usize {
    backlog.set_sink_offloads(source, sink.offloads());
    if !backlog.is_empty() {
        source.tend();
        return backlog.flush(sink);
    }
    let waits = source.waits();
    let budget = if waits { backlog.budget(sink) } else { BURST };
    if budget == 0 {
        source.tend();
        return 0;
    }
    let mut lacking = Offloads::NONE;
    let moved = source.drain(budget, &mut |frames| {
        let needed = needed(frames);
        backlog.came(needed);
        if needed.is_none() {
            sink.deliver(frames);
        } else if waits {
            lacking = backlog.deliver(sink, needed, frames);
        } else {
            deliver(sink, frames);
        }
    });
    if !lacking.is_none() {
        source.set_sink_offloads(sink.offloads());
    }
    moved
}
