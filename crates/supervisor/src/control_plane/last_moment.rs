//! How long the thread of a control plane that is to end waits for its daemons.

use super::thread::End;

/// Time for the daemons to end, in milliseconds: the supervision of them kills one that takes 5 s, and only then ends zebra. Less than a
/// run waits for this thread.
const GRACE: u64 = 15_000;

const _: () = assert!(GRACE / 1000 < crate::ending::THREADS_GRACE.as_secs());

/// Time in milliseconds at which the thread ends, whatever still runs, once it is told to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastMoment(Option<u64>);

impl LastMoment {
    /// The thread is told to end. The first such order counts.
    pub(super) fn set(&mut self, how: End, now: u64) {
        let grace = if how == End::LeftBehind { 0 } else { GRACE };
        self.0.get_or_insert(now + grace);
    }

    /// Returns true if the thread ends now: no daemon runs any more, or they had their time.
    pub(super) fn is_reached(self, now: u64, are_stopped: bool) -> bool {
        self.0.is_some_and(|end| are_stopped || now >= end)
    }

    /// When the thread ends at the latest, if it was told to.
    pub(super) const fn due(self) -> Option<u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_have_15_seconds_to_end_unless_there_is_nobody_to_speak_to() {
        let told = |how| {
            let mut end = LastMoment::default();
            assert!(!end.is_reached(u64::MAX, true), "it was not told to end");
            end.set(how, 1000);
            end
        };
        for how in [End::Without, End::Together] {
            let end = told(how);
            assert!(end.is_reached(1000, true), "{how:?}: none runs");
            assert_eq!([15_999, 16_000].map(|now| end.is_reached(now, false)), [false, true], "{how:?}");
        }
        assert!(told(End::LeftBehind).is_reached(1000, false));
        // Another order gives them no more time.
        let mut end = told(End::Without);
        end.set(End::Together, 9000);
        assert_eq!(end.due(), Some(16_000));
    }
}
