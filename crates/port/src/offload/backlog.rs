//! Segments that a sink had no room for yet.

use std::collections::VecDeque;

use frame::offload::{Offload, Offloads};
use ring::{BURST, Bytes};

use super::{Completed, Target, complete, deliver, needed};
use crate::boundary::{Frame, Frames, Sink, Source};

/// Passes after which a source is told again what its sink takes: it may have begun anew since.
const SETTLE: u32 = 256;
/// Octets of a backlog that are kept for the next one.
const KEEP: usize = 256 * 1024;
/// Bursts after the last one with a large frame in which the next one is expected.
const EXPECT: u8 = 64;
/// Passes for which a large frame waits for room: who has less than that for longer, has not got so much.
const PATIENCE: u16 = 1000;

/// What lies between one source and one sink: nothing, as a rule. After a frame that was cut, the segments that the sink
/// had no room for.
#[derive(Default)]
pub struct Backlog {
    octets: Vec<u8>,
    /// Frames that follow each other there.
    frames: VecDeque<(u32, Offload)>,
    /// Octets of the frames that have gone.
    gone: usize,
    /// A frame was cut not long ago: the next burst is to be short. Bursts until that is over.
    cuts: u8,
    /// A large frame passed not long ago. Bursts until that is over.
    large: u8,
    /// Passes without room for a large frame.
    waited: u16,
    passes: u32,
    /// What the source was told last.
    told: Offloads,
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

    /// Tells the source what the sink takes: at once when that changes, as a guest's driver may wake us for a few passes only.
    #[inline]
    fn settle(&mut self, source: &mut dyn Source, takes: Offloads) {
        if self.passes & (SETTLE - 1) == 0 || takes != self.told {
            source.settle(takes);
            self.told = takes;
        }
        self.passes = self.passes.wrapping_add(1);
    }

    /// How many frames may come from where they wait.
    #[inline]
    fn budget(&mut self, sink: &dyn Sink) -> usize {
        let room = sink.room().min(BURST);
        if self.cuts | self.large == 0 { room } else { self.short_budget(sink, room) }
    }

    /// How many frames may come from where they wait while large ones may be among them.
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

    /// A burst came that needs this.
    #[inline]
    fn came(&mut self, needed: Offloads) {
        if needed.segments() {
            self.large = EXPECT;
        } else if self.cuts | self.large != 0 {
            (self.cuts, self.large) = (self.cuts.saturating_sub(1), self.large.saturating_sub(1));
        }
    }

    /// Delivers a burst of frames that wait; what the sink cannot take as it is it gets piece by piece, as long as there is
    /// room. Says what it could not take.
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
        if done.segmented > 0 {
            self.backlog.cuts = EXPECT;
        }
        self.sink.completed(done);
    }
}

/// Moves one burst from a source to a sink, as [`crate::pump`], with a place for what the sink has no room for once
/// it is cut; the same place each time. Tells the source what the sink takes. Returns how many frames moved.
#[inline]
pub fn pump_on(source: &mut dyn Source, sink: &dyn Sink, backlog: &mut Backlog) -> usize {
    backlog.settle(source, sink.offloads());
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
        source.settle(sink.offloads());
    }
    moved
}
