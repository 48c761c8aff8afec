//! Measures the cost of a frame to the thread that moves it, in cycles of the time-stamp counter.
//!
//! A thread reads the counter before and after a pass that moved frames; a pass that moved none is charged to no frame.
//! Two reads of the counter are a considerable part of a burst on the fastest ring, so only one pass in [`EVERY`] is
//! timed.
//!
//! If the scheduler preempts the thread in the middle of a pass, the time of other threads would be charged to its
//! frames. Such a pass is an outlier: its cost per frame is many times the usual one. It is counted as torn and not
//! used. If frames really become that expensive, the estimate of the usual cost follows within several passes.

/// One of this many passes that moved frames is timed.
pub const EVERY: u32 = 8;
/// Factor over the usual cost of a frame above which a pass counts as torn (preempted).
const TORN: u64 = 4;
/// Cycles within which a pass is never torn: about a microsecond, the fixed cost that is equal for one frame and a
/// burst.
const ALWAYS: u64 = 4096;

/// Reads the time-stamp counter.
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has this instruction; Linux and our own ring 0 allow it in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Result of a pass that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The pass took this many cycles.
    Whole(u64),
    /// The thread was preempted during the pass.
    Preempted,
}

/// One thread's meter.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    passes: u32,
    /// Usual cost of a frame in cycles; 0: not known yet.
    usual: u64,
}

impl Meter {
    /// Call before a pass: returns the start time if the pass is to be timed.
    #[inline(always)]
    pub fn begin(&self) -> Option<u64> {
        self.passes.is_multiple_of(EVERY).then(cycles)
    }

    /// Call after a pass that moved `frames` (at least one): returns the result if the pass was timed.
    #[inline(always)]
    pub fn end(&mut self, begun: Option<u64>, frames: u64) -> Option<Timed> {
        self.passes = self.passes.wrapping_add(1);
        begun.map(|begun| self.judge(cycles().wrapping_sub(begun), frames))
    }

    /// Decides whether a pass of this length was whole or torn.
    fn judge(&mut self, took: u64, frames: u64) -> Timed {
        let frames = frames.max(1);
        let each = took / frames;
        if self.usual == 0 {
            self.usual = each.max(1);
            return Timed::Whole(took);
        }
        if took > ALWAYS && each > TORN * self.usual {
            // The estimate grows by a quarter each time: after seven such passes in a row the new cost is usual.
            self.usual += self.usual.div_ceil(4);
            return Timed::Preempted;
        }
        // Moves the estimate a sixteenth of the way to the cost per frame of this pass.
        self.usual = (self.usual - self.usual / 16 + each / 16).max(1);
        Timed::Whole(took)
    }
}

#[cfg(test)]
mod tests;
