//! Send combining (seed paper 001, section 3.2): the driver hands new frames to the device (a write of the tail
//! register) only when the interrupt arrives that reports earlier frames as sent.
//!
//! ```text
//!            offer: write                     interrupt
//!   idle ---------------------> pending -------------------------> idle, if no frame waits;
//!     ^                           |  offer: the frame waits        otherwise: write --> pending
//!     |                           +------> pending
//!   no interrupt is outstanding   one is outstanding: waiting frames are not forgotten
//! ```
//!
//! One party offers frames and another serves interrupts; they may run on two vCPUs. While one of them writes the
//! register, which takes long because it is a VM exit, an interrupt may arrive, caused by this write or by an earlier
//! one. It is recorded in the state word, and the writing party checks again afterwards. So at most one party writes at
//! a time, the register never moves backwards, and no frame is left behind: either it has been written to the register,
//! or an interrupt is outstanding after which it will be (`tests/combine_loom.rs`).

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// No interrupt is outstanding.
const IDLE: u32 = 0;
/// A party is writing the register.
const WRITING: u32 = 1;
/// The register was written, and the interrupt for that write is outstanding.
const PENDING: u32 = 2;
/// As [`WRITING`], and an interrupt has arrived meanwhile.
const FIRED: u32 = 3;

/// Word shared by both parties. A trait, because the loom model substitutes words of its own.
pub trait Word {
    /// Reads the word; writes made before its value was stored are visible afterwards (acquire).
    fn read(&self) -> u32;
    /// Writes the word after all earlier writes (release).
    fn write(&self, value: u32);
    /// Writes `to` if the word holds `from`; returns true if it did (acquire and release).
    fn exchange(&self, from: u32, to: u32) -> bool;
    /// Full fence: keeps later reads behind earlier writes.
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

/// State shared by the two parties. Each call takes a closure that writes the register, and returns how often it was
/// called.
#[derive(Debug, Default)]
pub struct Combiner<W = AtomicU32> {
    state: W,
    /// The tail that the register is to hold.
    tail: W,
    /// The tail that the register holds. Only the party in state [`WRITING`] writes it.
    written: W,
}

impl<W: Word> Combiner<W> {
    /// Creates a combiner from three words that hold 0: the register holds 0, and no frame was offered.
    pub fn new([state, tail, written]: [W; 3]) -> Self {
        Self { state, tail, written }
    }

    /// Offers the frames up to `tail` of the ring: writes the register unless an interrupt is outstanding.
    #[inline(always)]
    pub fn offer(&self, tail: u32, write: impl FnMut(u32)) -> u32 {
        self.tail.write(tail);
        W::full_fence();
        if self.state.read() == IDLE { self.write_out(IDLE, write) } else { 0 }
    }

    /// Handles an interrupt that may be the outstanding one: writes the register if frames wait.
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

    /// Writes the register if frames wait, even though an interrupt is outstanding.
    pub fn flush(&self, write: impl FnMut(u32)) -> u32 {
        let state = self.state.read();
        let free = matches!(state, IDLE | PENDING);
        if free && self.is_waiting() { self.write_out(state, write) } else { 0 }
    }

    /// Returns true if frames were offered that the register does not cover yet.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        self.tail.read() != self.written.read()
    }

    /// Returns the tail that the register holds.
    #[inline(always)]
    pub fn written(&self) -> u32 {
        self.written.read()
    }

    /// Writes the register, unless the state is no longer `from`: then the other party is writing it.
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
            // Either the register was up to date, or an interrupt has arrived that may be the one for this write.
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

/// Frames that may arrive at once before a sender counts as fast.
const TOLERANCE: u64 = 8;
/// Upper bound of the lead of a sender, in frames: a sender that slows down counts as slow again soon afterwards.
const MOST_AHEAD: u64 = 2 * TOLERANCE;

/// Detects frames that arrive faster than a given rate, above which combining them pays (seed paper 001, section 3.2),
/// by the generic cell rate algorithm (ITU-T I.371): a sender is fast if its lead over an ideal sender of exactly that
/// rate exceeds a tolerance.
///
/// ```text
///   frames         |     |     | | | | | | | | | | | |       |     |     |     |
///   at the rate    |     |     |     |     |     |     |     |     |     |     |
///   ahead          1     1     1 2 2 3 3 4 4 5 5 6 6 7 ...   fast above the tolerance
/// ```
#[derive(Clone, Debug)]
pub struct RateDetector {
    /// Ticks between two frames at that rate.
    period: u64,
    /// Theoretical arrival time: when the next frame would arrive if all earlier ones had arrived at that rate.
    due: u64,
}

impl RateDetector {
    /// Creates a detector for a rate of one frame in `period` ticks of a clock.
    pub const fn new(period: u64) -> Self {
        Self { period, due: 0 }
    }

    /// Records the arrival of a frame at `now`; returns true if frames arrive faster than the rate.
    pub fn note(&mut self, now: u64) -> bool {
        let ahead = self.due.saturating_sub(now).saturating_add(self.period);
        let ahead = ahead.min(MOST_AHEAD.saturating_mul(self.period));
        self.due = now.saturating_add(ahead);
        ahead > TOLERANCE.saturating_mul(self.period)
    }
}

#[cfg(test)]
mod tests;
