//! Ports with injected faults: wraps a source or a sink, and drops, duplicates, reorders, truncates, corrupts and
//! stalls by a schedule that depends on its seed only. Every fault is counted.
//!
//! Balance of the counters: shown = passed + dropped - duplicated, for the frames that arrived at the faulty port and
//! those that it passed on; a stalled burst does not arrive at a source, and a sink drops it as a whole.

use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use ledger::counters;
use ring::{BURST, Slots};

use crate::boundary::{Frame, Frames, Sink, Source};
use crate::wrapper::{SinkWrapper, SourceWrapper};

/// Length of the longest frame of which a corrupt copy can be made; longer ones are passed on unharmed.
const LONGEST: usize = 2048;

/// Probability of each fault in thousandths; 0: never, 1000: always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames that are dropped.
    pub drop: u16,
    /// Frames that are duplicated, if the burst has room for one more.
    pub duplicate: u16,
    /// Frames that are swapped with the one before them in the burst.
    pub reorder: u16,
    /// Frames that are truncated.
    pub truncate: u16,
    /// Frames with one bit changed.
    pub corrupt: u16,
    /// Bursts in which the port does nothing.
    pub stall: u16,
    /// Seed of the faults: equal seeds yield equal faults.
    pub seed: u64,
}

counters! {
    /// Counters of a faulty port.
    pub struct FaultCounters {
        /// Frames that arrived at it.
        shown,
        /// Frames that it passed on.
        passed,
        /// Frames that were dropped.
        dropped,
        /// Frames that were duplicated.
        duplicated,
        /// Frames that were swapped with the one before.
        reordered,
        /// Frames that were truncated.
        truncated,
        /// Frames with one bit changed.
        corrupted,
        /// Bursts in which the port did nothing.
        stalled,
    }
}

/// Pseudo-random number generator (splitmix64).
struct Prng(u64);

impl Prng {
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

    /// Returns a number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }
}

/// Frames that are passed on, each with the index of the shown frame that it stems from.
#[derive(Default)]
struct FaultyBurst<'a> {
    frames: Frames<'a>,
    origin: ArrayVec<u8, BURST>,
}

struct Schedule {
    faults: Faults,
    dice: Prng,
    /// Memory for corrupt copies: the sender's own memory is not touched.
    copies: Slots,
    counters: Arc<FaultCounters>,
}

impl Schedule {
    fn new(faults: Faults) -> Self {
        let copies = Slots::new(BURST, LONGEST);
        Self { faults, dice: Prng(faults.seed), copies, counters: Arc::default() }
    }

    fn stalls(&mut self) -> bool {
        let stalls = self.dice.happens(self.faults.stall);
        self.counters.stalled.add(u64::from(stalls));
        stalls
    }

    /// Applies faults to a burst; at most `most` frames come out.
    fn bend<'a>(&'a mut self, frames: &[Frame<'a>], most: usize) -> FaultyBurst<'a> {
        let Self { faults, dice, copies, counters } = self;
        let mut bent = FaultyBurst::default();
        counters.shown.add(frames.len() as u64);
        for (i, frame) in frames.iter().enumerate() {
            if dice.happens(faults.drop) {
                counters.dropped.add(1);
                continue;
            }
            let frame = harm(*frame, copies, bent.frames.len(), (faults, dice, counters));
            // Leaves room for the remaining frames.
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

impl<'a> FaultyBurst<'a> {
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
    (faults, dice, counters): (&Faults, &mut Prng, &FaultCounters),
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

/// A source with injected faults.
pub struct FaultSource<S> {
    inner: S,
    schedule: Schedule,
}

impl<S: Source> FaultSource<S> {
    /// Wraps a source.
    pub fn new(inner: S, faults: Faults) -> Self {
        Self { inner, schedule: Schedule::new(faults) }
    }

    /// Returns its counters.
    pub fn counters(&self) -> Arc<FaultCounters> {
        self.schedule.counters.clone()
    }
}

impl<S: Source> SourceWrapper for FaultSource<S> {
    crate::inner_source!(inner: S);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        // After a stall, or a burst that was dropped, frames may wait though none is shown: the inner source reports
        // that when it is armed.
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

/// A sink with injected faults. It serializes its callers, as a slow sink might.
pub struct FaultSink {
    inner: Arc<dyn Sink>,
    schedule: Mutex<Schedule>,
    counters: Arc<FaultCounters>,
}

impl FaultSink {
    /// Wraps a sink.
    pub fn new(inner: Arc<dyn Sink>, faults: Faults) -> Self {
        let schedule = Schedule::new(faults);
        let counters = schedule.counters.clone();
        Self { inner, schedule: Mutex::new(schedule), counters }
    }

    /// Returns its counters.
    pub fn counters(&self) -> &FaultCounters {
        &self.counters
    }

    /// Returns how many of the shown frames it handled.
    fn pass(&self, schedule: &mut Schedule, frames: &[Frame<'_>]) -> usize {
        if schedule.stalls() {
            schedule.counters.shown.add(frames.len() as u64);
            schedule.counters.dropped.add(frames.len() as u64);
            return 0;
        }
        let bent = schedule.bend(frames, BURST);
        let taken = self.inner.deliver(&bent.frames);
        // The inner sink has counted the frames that it did not take; here they only limit the return value.
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
            // The return value counts only the leading frames; later bursts are passed on all the same.
            taken += if whole { n } else { 0 };
            whole &= n == burst.len();
        }
        taken
    }
}

#[cfg(test)]
mod tests;
