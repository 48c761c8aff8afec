//! Detection of a thread that moves frames but makes no passes any more: a pure function of its counters, without thread and clock.
//!
//! A sleeping thread counts no passes, so it is woken once a second, and then must count one: within [`GRACE`] if it spends at least half
//! of its time on a CPU, within [`STARVED`] if it gets none or waits for something. Time is observed time: a late round counts as one in
//! time, because whatever delayed it may have delayed the thread as well.

use std::time::Duration;

/// Time without a pass after which a thread is woken.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time without a pass after which a woken thread that has a CPU stands still.
const GRACE: Duration = Duration::from_secs(2);
/// Time without a pass after which a woken thread that spends little time on a CPU stands still.
const STARVED: Duration = Duration::from_secs(10);
/// Maximum time that a check adds: two rounds.
const LONGEST_STEP: Duration = Duration::from_millis(20);

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is to be done.
    Goes,
    /// It may be asleep: wake it.
    Wake,
    /// It makes no passes any more.
    Stands,
}

/// State of the watch over a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    /// Passes at the last check.
    passes: u64,
    /// Time of the last check.
    looked: Duration,
    /// Observed time since its last pass, or since it was woken after that.
    waited: Duration,
    /// Its CPU time when it was woken; `None`: it was not.
    woken: Option<Duration>,
}

impl Pulse {
    /// Checks a thread by its number of passes and its CPU time.
    pub(super) fn look(&mut self, now: Duration, passes: u64, cpu: impl FnOnce() -> Duration) -> Verdict {
        let step = now.saturating_sub(self.looked).min(LONGEST_STEP);
        self.looked = now;
        if passes != self.passes {
            (self.passes, self.waited, self.woken) = (passes, Duration::ZERO, None);
            return Verdict::Goes;
        }
        self.waited += step;
        match self.woken {
            None if self.waited < HEARTBEAT => Verdict::Goes,
            None => {
                (self.waited, self.woken) = (Duration::ZERO, Some(cpu()));
                Verdict::Wake
            }
            Some(_) if self.waited < GRACE => Verdict::Goes,
            Some(before) => {
                let spent = cpu().saturating_sub(before);
                let stands = self.waited >= STARVED || spent >= self.waited / 2;
                if stands { Verdict::Stands } else { Verdict::Goes }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(10);

    /// Looks each round at a thread that makes no pass and spends this part of its time on a CPU, in percent; when it was woken, and when
    /// it stands.
    fn stands(part: u32, most: u32) -> (Option<Duration>, Option<Duration>) {
        let (mut pulse, mut woken) = (Pulse::default(), None);
        for now in (0..most).map(|round| ROUND * round) {
            match pulse.look(now, 0, || now * part / 100) {
                Verdict::Goes => {}
                Verdict::Wake => {
                    assert_eq!(woken.replace(now), None, "it is woken once");
                }
                Verdict::Stands => return (woken, Some(now)),
            }
        }
        (woken, None)
    }

    #[test]
    fn a_thread_that_makes_no_pass_is_woken_and_then_stands() {
        assert_eq!(stands(100, 2000), (Some(HEARTBEAT), Some(HEARTBEAT + GRACE)));
        assert_eq!(stands(0, 2000), (Some(HEARTBEAT), Some(HEARTBEAT + STARVED)));
        assert_eq!(stands(10, 1000), (Some(HEARTBEAT), None), "it has hardly had a CPU");
    }

    #[test]
    fn a_thread_that_passes_now_and_then_does_not_stand() {
        let mut pulse = Pulse::default();
        for round in 0..10_000_u32 {
            // In each three seconds once: it is woken, and needs a second.
            let passes = u64::from(round / 290);
            let verdict = pulse.look(ROUND * round, passes, || ROUND * round);
            assert_ne!(verdict, Verdict::Stands, "{round}");
        }
    }

    #[test]
    fn time_that_no_round_has_observed_hardly_counts() {
        let mut pulse = Pulse::default();
        let now = |look: u32| Duration::from_secs(5) * look;
        let verdicts: Vec<Verdict> = (0..200).map(|look| pulse.look(now(look), 0, || now(look))).collect();
        // The first 750 seconds, of which three were observed.
        let first = |wanted: Verdict| verdicts.iter().position(|verdict| *verdict == wanted);
        assert_eq!((first(Verdict::Wake), first(Verdict::Stands)), (Some(50), Some(150)));
    }
}
