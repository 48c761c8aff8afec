//! What a frame costs the thread that moves it, in cycles of the time-stamp counter.
//!
//! A thread looks at the counter before and after a pass that moved something; a pass that moved nothing costs nobody's
//! frame anything. Two looks are no small part of a burst by the fastest ring, so only one pass in [`EVERY`] is timed.
//!
//! A thread that is taken off its core in the middle of a pass would charge its frames with what others did meanwhile. Such a
//! pass stands out: a frame of it seems to cost many times what frames cost so far. It is counted, and left out. If frames do
//! cost more from now on, what is taken for usual follows within some passes.

/// Passes that moved something, of which one is timed.
pub const EVERY: u32 = 8;
/// A pass whose frames cost so many times as much as usual was torn.
const TORN: u64 = 4;
/// What a pass may take in any case: about a microsecond, for what is the same for one frame and for a burst.
const ALWAYS: u64 = 4096;

/// The time-stamp counter.
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; Linux and our own ring 0 let programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What came of a pass that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// It took so many cycles.
    Whole(u64),
    /// The thread was away meanwhile.
    Torn,
}

/// One thread's meter.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    passes: u32,
    /// Cycles that a frame costs as a rule; 0: not known yet.
    usual: u64,
}

impl Meter {
    /// Before a pass: when it begins, if it is to be timed.
    #[inline(always)]
    pub fn begin(&self) -> Option<u64> {
        self.passes.is_multiple_of(EVERY).then(cycles)
    }

    /// After a pass that moved `frames` (at least one): what it took, if it was timed.
    #[inline(always)]
    pub fn end(&mut self, begun: Option<u64>, frames: u64) -> Option<Timed> {
        self.passes = self.passes.wrapping_add(1);
        begun.map(|begun| self.judge(cycles().wrapping_sub(begun), frames))
    }

    /// Whether a pass of this length was whole.
    fn judge(&mut self, took: u64, frames: u64) -> Timed {
        let frames = frames.max(1);
        let each = took / frames;
        if self.usual == 0 {
            self.usual = each.max(1);
            return Timed::Whole(took);
        }
        if took > ALWAYS && each > TORN * self.usual {
            // By a quarter each time: seven such passes in a row, and it is usual.
            self.usual += self.usual.div_ceil(4);
            return Timed::Torn;
        }
        // A sixteenth of the way, and towards what is usual for a pass of this many frames.
        self.usual = (self.usual - self.usual / 16 + each / 16).max(1);
        Timed::Whole(took)
    }
}

#[cfg(test)]
mod tests;
