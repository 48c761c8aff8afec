//! Detection of preemption: does a busy-polling thread have its core to itself?

/// Time between two reads of the clock, in microseconds, above which a polling thread was preempted. Empty polls take a
/// few microseconds between two reads; the scheduler gives the core to another thread for a slice of a millisecond or
/// more.
const GAP: u64 = 200;
/// Time in microseconds for which a core counts as shared after such a gap. Once the thread goes to sleep early, it is
/// no longer preempted and sees no further gaps.
const MEMORY: u64 = 1_000_000;

/// Knowledge of a thread about competitors on its core.
#[derive(Clone, Debug, Default)]
pub(super) struct PreemptionDetector {
    /// Time of the last read of the clock, if all polls since then were empty.
    last: Option<u64>,
    /// Time of the last gap.
    gap: Option<u64>,
}

impl PreemptionDetector {
    /// Records a read of the clock between two empty polls. Returns true if other threads want the core.
    pub(super) fn record_poll(&mut self, now: u64) -> bool {
        let last = self.last.replace(now);
        if last.is_some_and(|last| now.saturating_sub(last) > GAP) {
            self.gap = Some(now);
        }
        self.gap.is_some_and(|gap| now.saturating_sub(gap) < MEMORY)
    }

    /// The thread does something that may take long: it moves frames or sleeps. The next interval is not judged.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}
