//! Ports that misbehave on purpose: wraps a source or a sink, and drops, duplicates, reorders, truncates, corrupts
//! and stalls by a schedule that depends on its seed alone. Every fault is counted.
//!
//! The books: shown = passed + dropped - duplicated, for the frames that came to the faulty port and those that it
//! passed on; a stalled burst did not come to a source, and is dropped whole by a sink.

use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use ledger::counters;
use ring::{BURST, Slots};

use crate::boundary::{Frame, Frames, Sink, Source};
use crate::wrapper::{SinkWrapper, SourceWrapper};

/// Longest frame of which a corrupt copy can be made; longer ones are passed on unharmed.
const LONGEST: usize = 2048;

/// How often each fault happens, in thousandths; 0: never, 1000: always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames that vanish.
    pub drop: u16,
    /// Frames that come twice, if the burst has room for one more.
    pub duplicate: u16,
    /// Frames that change places with the one before them in the burst.
    pub reorder: u16,
    /// Frames that lose octets at their end.
    pub truncate: u16,
    /// Frames with one bit changed.
    pub corrupt: u16,
    /// Bursts in which the port does nothing.
    pub stall: u16,
    /// Seed of the faults: one makes the same ones each time.
    pub seed: u64,
}

counters! {
    /// What a faulty port did.
    pub struct FaultCounters {
        /// Frames that came to it.
        shown,
        /// Frames that it passed on.
        passed,
        /// Frames that vanished.
        dropped,
        /// Frames that came twice.
        duplicated,
        /// Frames that changed places with the one before.
        reordered,
        /// Frames that lost octets.
        truncated,
        /// Frames with one bit changed.
        corrupted,
        /// Bursts in which the port did nothing.
        stalled,
    }
}

/// A generator of numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn happens(&mut self, thousandths: u16) -> bool {
        self.roll() % 1000 < u64::from(thousandths)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }
}

/// The frames that are passed on, each with the number of the shown frame that it is.
#[derive(Default)]
struct Bent<'a> {
    frames: Frames<'a>,
    origin: ArrayVec<u8, BURST>,
}

struct Schedule {
    faults: Faults,
    dice: Dice,
    /// Where corrupt copies lie: a sender's own memory is not touched.
    copies: Slots,
    counters: Arc<FaultCounters>,
}

impl Schedule {
    fn new(faults: Faults) -> Self {
        let copies = Slots::new(BURST, LONGEST);
        Self { faults, dice: Dice(faults.seed), copies, counters: Arc::default() }
    }

    fn stalls(&mut self) -> bool {
        let stalls = self.dice.happens(self.faults.stall);
        self.counters.stalled.add(u64::from(stalls));
        stalls
    }

    /// Does its worst to a burst, at most `most` frames of which come out.
    fn bend<'a>(&'a mut self, frames: &[Frame<'a>], most: usize) -> Bent<'a> {
        let Self { faults, dice, copies, counters } = self;
        let mut bent = Bent::default();
        counters.shown.add(frames.len() as u64);
        for (i, frame) in frames.iter().enumerate() {
            if dice.happens(faults.drop) {
                counters.dropped.add(1);
                continue;
            }
            let frame = harm(*frame, copies, bent.frames.len(), (faults, dice, counters));
            // The frames still to come must find room.
            let room = most.min(BURST).saturating_sub(bent.frames.len() + frames.len() - i - 1);
            bent.push(frame, i);
            if dice.happens(faults.duplicate) && room > 1 {
                counters.duplicated.add(1);
                bent.push(frame, i);
            }
            let last = bent.frames.len() - 1;
            if dice.happens(faults.reorder) && last > 0 {
                counters.reordered.add(1);
                bent.frames.swap(last, last - 1);
                bent.origin.swap(last, last - 1);
            }
        }
        counters.passed.add(bent.frames.len() as u64);
        bent
    }
}

impl<'a> Bent<'a> {
    fn push(&mut self, frame: Frame<'a>, origin: usize) {
        self.frames.push(frame);
        self.origin.push(origin as u8);
    }
}

/// Truncates or corrupts a frame, or neither.
fn harm<'a>(
    frame: Frame<'a>,
    copies: &'a Slots,
    slot: usize,
    (faults, dice, counters): (&Faults, &mut Dice, &FaultCounters),
) -> Frame<'a> {
    let mut octets = frame.octets();
    if dice.happens(faults.truncate) && !octets.is_empty() {
        counters.truncated.add(1);
        octets = octets.take(dice.below(octets.len()) as u32);
    }
    if dice.happens(faults.corrupt)
        && !octets.is_empty()
        && let Some(copy) = copies.get(slot, octets.len())
    {
        octets.copy_to(&copy);
        let (at, bit) = (dice.below(octets.len()), dice.below(8));
        let [octet] = copy.read::<1>(at).unwrap_or_default();
        copy.write(at, [octet ^ 1 << bit]);
        counters.corrupted.add(1);
        octets = copy;
    }
    Frame::with_offload(octets, frame.offload())
}

/// A source that misbehaves.
pub struct FaultSource<S> {
    inner: S,
    schedule: Schedule,
}

impl<S: Source> FaultSource<S> {
    /// Makes a source misbehave.
    pub fn new(inner: S, faults: Faults) -> Self {
        Self { inner, schedule: Schedule::new(faults) }
    }

    /// What it did.
    pub fn counters(&self) -> Arc<FaultCounters> {
        self.schedule.counters.clone()
    }
}

impl<S: Source> SourceWrapper for FaultSource<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        // After a stall, or a burst that vanished, frames may wait though none is shown: the inner source says so when it is armed.
        if self.schedule.stalls() {
            return 0;
        }
        let (schedule, mut passed) = (&mut self.schedule, 0);
        self.inner.drain(budget, &mut |frames| {
            let bent = schedule.bend(frames, budget);
            passed = bent.frames.len();
            if passed != 0 {
                take(&bent.frames);
            }
        });
        passed
    }
}

/// A sink that misbehaves. One thread at a time is in it: that is part of its slowness.
pub struct FaultSink {
    inner: Arc<dyn Sink>,
    schedule: Mutex<Schedule>,
    counters: Arc<FaultCounters>,
}

impl FaultSink {
    /// Makes a sink misbehave.
    pub fn new(inner: Arc<dyn Sink>, faults: Faults) -> Self {
        let schedule = Schedule::new(faults);
        let counters = schedule.counters.clone();
        Self { inner, schedule: Mutex::new(schedule), counters }
    }

    /// What it did.
    pub fn counters(&self) -> &FaultCounters {
        &self.counters
    }

    /// Returns how many of the shown frames it dealt with.
    fn pass(&self, schedule: &mut Schedule, frames: &[Frame<'_>]) -> usize {
        if schedule.stalls() {
            schedule.counters.shown.add(frames.len() as u64);
            schedule.counters.dropped.add(frames.len() as u64);
            return 0;
        }
        let bent = schedule.bend(frames, BURST);
        let taken = self.inner.deliver(&bent.frames);
        // What the inner sink did not take it has counted; here it only limits the answer.
        let lost = bent.origin.get(taken..).unwrap_or_default().iter().min();
        lost.map_or(frames.len(), |&first| usize::from(first))
    }
}

impl SinkWrapper for FaultSink {
    fn inner(&self) -> &dyn Sink {
        &*self.inner
    }

    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        let mut whole = true;
        for burst in frames.chunks(BURST) {
            let n = self.pass(&mut schedule, burst);
            // The answer counts the first frames only; later bursts are passed on all the same.
            taken += if whole { n } else { 0 };
            whole &= n == burst.len();
        }
        taken
    }
}

#[cfg(test)]
mod tests;
