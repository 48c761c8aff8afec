//! Whether a thread that polls has its core for itself.

/// Between two looks of a thread that polls in vain, microseconds pass at most. If it is so many, it was not running:
/// the scheduler gave its core to somebody else, for a slice of a millisecond or more.
const GAP: u64 = 200;
/// How long, in microseconds, a core counts as shared after such a gap. Somebody who was polite since then left no
/// other gaps.
const MEMORY: u64 = 1_000_000;

/// What a thread knows of the others on its core.
#[derive(Clone, Debug, Default)]
pub(super) struct Company {
    /// The last look, if the thread has polled in vain ever since.
    last: Option<u64>,
    /// The last gap.
    gap: Option<u64>,
}

impl Company {
    /// A look at the clock between two polls in vain. True if others want the core.
    pub(super) fn look(&mut self, now: u64) -> bool {
        let last = self.last.replace(now);
        if last.is_some_and(|last| now.saturating_sub(last) > GAP) {
            self.gap = Some(now);
        }
        self.gap.is_some_and(|gap| now.saturating_sub(gap) < MEMORY)
    }

    /// The thread does something else, which may take long: moves frames, sleeps.
    #[inline(always)]
    pub(super) fn look_away(&mut self) {
        self.last = None;
    }
}
