//! Send combining (seed paper 001, section 3.2): a frame is handed to the device only when the interrupt comes by which
//! the device tells that it has sent the frames before.
//!
//! ```text
//!            offer: write                     interrupt
//!   idle ---------------------> pending -------------------------> idle, if nothing waits;
//!     ^                           |  offer: the frame waits        otherwise: write --> pending
//!     |                           +------> pending
//!   no interrupt is to come     one is to come: who waits is not forgotten
//! ```
//!
//! Frames are offered by one party and interrupts served by another, which may be two vCPUs. While one of them writes the
//! register, which takes long, an interrupt may come, of this write or of one before: it is remembered, and who writes
//! looks again. So at most one party writes at a time, the register never goes back, and no frame is left behind:
//! either it has been written, or an interrupt is to come after which it will be (`tests/combine_loom.rs`).

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// No interrupt is to come.
const IDLE: u32 = 0;
/// A party writes the register.
const WRITING: u32 = 1;
/// The register was written, and the interrupt for it is to come.
const PENDING: u32 = 2;
/// As [`WRITING`], and an interrupt came meanwhile.
const FIRED: u32 = 3;

/// A word that both parties share. (The model check has words of its own.)
pub trait Word {
    /// Reads the word; what was written before it was is then visible (acquire).
    fn read(&self) -> u32;
    /// Writes the word after all that was written before (release).
    fn write(&self, value: u32);
    /// Writes the word if it holds `from`; whether it did (acquire and release).
    fn exchange(&self, from: u32, to: u32) -> bool;
    /// Keeps later reads behind earlier writes.
    fn full_fence();
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn read(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn write(&self, value: u32) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn exchange(&self, from: u32, to: u32) -> bool {
        self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// What the parties share. Each call returns how often it wrote the register, by the closure that it was given.
#[derive(Debug, Default)]
pub struct Combiner<W = AtomicU32> {
    state: W,
    /// What the register is to hold.
    tail: W,
    /// What it holds. Written by who writes the register.
    written: W,
}

impl<W: Word> Combiner<W> {
    /// From words that hold 0. The register holds 0, and nothing was offered.
    pub fn new([state, tail, written]: [W; 3]) -> Self {
        Self { state, tail, written }
    }

    /// Frames lie in the ring up to `tail`: writes the register unless an interrupt is to come.
    #[inline(always)]
    pub fn offer(&self, tail: u32, write: impl FnMut(u32)) -> u32 {
        self.tail.write(tail);
        W::full_fence();
        if self.state.read() == IDLE { self.write_out(IDLE, write) } else { 0 }
    }

    /// The interrupt has come, or one that may be it: writes the register if frames wait.
    pub fn interrupted(&self, write: impl FnMut(u32)) -> u32 {
        loop {
            match self.state.read() {
                PENDING if !self.state.exchange(PENDING, IDLE) => {}
                WRITING if !self.state.exchange(WRITING, FIRED) => {}
                WRITING | FIRED => return 0,
                _ => break,
            }
        }
        W::full_fence();
        if self.is_waiting() { self.write_out(IDLE, write) } else { 0 }
    }

    /// Writes the register although an interrupt is to come, if frames wait.
    pub fn flush(&self, write: impl FnMut(u32)) -> u32 {
        let state = self.state.read();
        let free = matches!(state, IDLE | PENDING);
        if free && self.is_waiting() { self.write_out(state, write) } else { 0 }
    }

    /// Whether frames wait.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        self.tail.read() != self.written.read()
    }

    /// What the register holds.
    #[inline(always)]
    pub fn written(&self) -> u32 {
        self.written.read()
    }

    /// Writes the register, unless the state is no longer `from`: then somebody else does.
    fn write_out(&self, mut from: u32, mut write: impl FnMut(u32)) -> u32 {
        let mut writes = 0;
        while self.state.exchange(from, WRITING) {
            W::full_fence();
            let tail = self.tail.read();
            if tail != self.written.read() {
                write(tail);
                self.written.write(tail);
                writes += 1;
                if self.state.exchange(WRITING, PENDING) {
                    return writes;
                }
            }
            // There was nothing to write, or an interrupt has come that may be the one for it.
            self.state.write(IDLE);
            W::full_fence();
            if !self.is_waiting() {
                return writes;
            }
            from = IDLE;
        }
        writes
    }
}

/// Frames that come at once before they count as fast.
const TOLERANCE: u64 = 8;
/// How many frames ahead a sender is held to be at most: so it is slow again soon after it became so.
const MOST_AHEAD: u64 = 2 * TOLERANCE;

/// Tells whether frames come faster than a rate, above which combining them pays (seed paper 001, section 3.2), by the
/// generic cell rate algorithm (ITU-T I.371): who is ahead of a sender at just that rate by more than a tolerance is fast.
///
/// ```text
///   frames         |     |     | | | | | | | | | | | |       |     |     |     |
///   at the rate    |     |     |     |     |     |     |     |     |     |     |
///   ahead          1     1     1 2 2 3 3 4 4 5 5 6 6 7 ...   fast above the tolerance
/// ```
#[derive(Clone, Debug)]
pub struct Onset {
    /// Ticks between two frames at that rate.
    period: u64,
    /// When the next frame would come if all of those that have come had come at that rate.
    due: u64,
}

impl Onset {
    /// For a rate of one frame in so many ticks of a clock.
    pub const fn new(period: u64) -> Self {
        Self { period, due: 0 }
    }

    /// Notes that a frame comes now; whether frames come faster than the rate.
    pub fn note(&mut self, now: u64) -> bool {
        let ahead = self.due.saturating_sub(now).saturating_add(self.period);
        let ahead = ahead.min(MOST_AHEAD.saturating_mul(self.period));
        self.due = now.saturating_add(ahead);
        ahead > TOLERANCE.saturating_mul(self.period)
    }
}

#[cfg(test)]
mod tests;
