//! Whether a thread that moves frames still passes over what it serves: a pure function of what it counts, without thread and clock.
//!
//! A thread that sleeps counts no passes, so it is woken once a second, and then has to. One that spends at least half of its time on a CPU
//! is given [`GRACE`]; one that gets none, or waits for something, [`STARVED`]. Time is what the rounds have observed: one that comes late
//! counts as one in time, because whatever delayed it may have delayed the thread.

use std::time::Duration;

/// For how long a thread may count no pass until it is woken.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// For how long one that is woken may count no pass although it has a CPU.
const GRACE: Duration = Duration::from_secs(2);
/// For how long it may count none where it spends little time on a CPU.
const STARVED: Duration = Duration::from_secs(10);
/// Time that a look adds at most: twice that between two rounds.
const LONGEST_STEP: Duration = Duration::from_millis(20);

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is to be done.
    Goes,
    /// It may sleep: it is to be woken.
    Wake,
    /// It makes no pass any more.
    Stands,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    /// Passes at the last look.
    passes: u64,
    /// When that was.
    looked: Duration,
    /// Observed since it has made a pass, or was woken after that.
    waited: Duration,
    /// Its CPU time when it was woken; none: it was not.
    woken: Option<Duration>,
}

impl Pulse {
    /// Looks at a thread that has made so many passes and has spent so much time on a CPU.
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
