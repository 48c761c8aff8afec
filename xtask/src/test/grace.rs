//! Watch of the kernel's grace periods (RCU) during a run.
//!
//! Closing, deleting and moving an interface, a namespace or a machine waits for a grace period, and a host that stops a CPU for seconds
//! makes all of these wait. The table of times says so: a test that ran out of its patience then has a reason outside of the program.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Pause between two grace periods.
const PAUSE: Duration = Duration::from_secs(2);
/// Grace periods from this duration on are counted.
const LONG: Duration = Duration::from_secs(4);

/// Grace periods of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GracePeriods {
    /// Duration of the longest one.
    longest: Duration,
    /// Number of those of at least [`LONG`].
    long: usize,
}

impl GracePeriods {
    fn add(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.long += usize::from(took >= LONG);
    }

    /// Formats the line for the table of times.
    pub(super) fn line(self) -> String {
        let (longest, limit) = (self.longest.as_secs_f64(), LONG.as_secs());
        let long = self.long;
        format!("{longest:8.1} s  longest grace period of the kernel; {long} of {limit} s or more")
    }
}

/// A thread that waits for one grace period after the other until [`GraceWatch::end`].
#[derive(Debug)]
pub(super) struct GraceWatch {
    stop: Sender<()>,
    thread: JoinHandle<GracePeriods>,
}

impl GraceWatch {
    /// Starts the watch; `None` if the kernel has no `membarrier`.
    pub(super) fn start() -> Option<Self> {
        if !membarrier_query().contains_command(MembarrierCommand::Global) {
            return None;
        }
        let (stop, stopped) = channel();
        Some(Self { stop, thread: std::thread::spawn(move || watch(&stopped)) })
    }

    /// Ends the watch, after the grace period that it waits for; `None` if its thread failed.
    pub(super) fn end(self) -> Option<GracePeriods> {
        drop(self.stop);
        self.thread.join().ok()
    }
}

fn watch(stopped: &Receiver<()>) -> GracePeriods {
    let mut seen = GracePeriods::default();
    loop {
        let start = Instant::now();
        if membarrier(MembarrierCommand::Global).is_err() {
            return seen;
        }
        seen.add(start.elapsed());
        if stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected) {
            return seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_kept_and_the_long_ones_are_counted() {
        let mut seen = GracePeriods::default();
        [1, 9, 4, 3].into_iter().for_each(|seconds| seen.add(Duration::from_secs(seconds)));
        assert_eq!(seen, GracePeriods { longest: Duration::from_secs(9), long: 2 });
        assert_eq!(seen.line(), "     9.0 s  longest grace period of the kernel; 2 of 4 s or more");
    }

    #[test]
    fn a_watch_that_is_ended_has_seen_one_grace_period_at_least() {
        let Some(watch) = GraceWatch::start() else { return };
        let seen = watch.end();
        assert!(seen.is_some_and(|seen| seen.longest > Duration::ZERO), "{seen:?}");
    }
}
