//! Pacing: an offered rate without bursts.

use std::time::Instant;

/// Monotonic clock with an arbitrary origin.
pub trait Clock: Send {
    /// Returns the current time, in nanoseconds.
    fn now_ns(&mut self) -> u64;
}

/// The host's monotonic clock.
#[derive(Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now_ns(&mut self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Longest delay, in seconds, that is made up for. Frames that fell due earlier are skipped.
const CATCH_UP: f64 = 50e-6;

/// Pacer: computes how many frames are due.
#[derive(Debug)]
pub struct Pace {
    per_ns: f64,
    most: u64,
    start: Option<u64>,
    settled: u64,
}

impl Pace {
    /// Creates a pace of `rate` frames a second.
    pub fn new(rate: f64) -> Self {
        Self { per_ns: rate * 1e-9, most: (rate * CATCH_UP).ceil().max(1.0) as u64, start: None, settled: 0 }
    }

    /// Returns how many frames are due at `now` (the first call starts the clock), and how many have just been
    /// skipped because the caller came too late for them.
    pub fn due(&mut self, now: u64) -> (u64, u64) {
        let start = *self.start.get_or_insert(now);
        let total = (now.saturating_sub(start) as f64 * self.per_ns) as u64;
        let due = total.saturating_sub(self.settled);
        let given_up = due.saturating_sub(self.most);
        self.settled += given_up;
        (due - given_up, given_up)
    }

    /// Records that `n` of the due frames were sent.
    pub fn sent(&mut self, n: u64) {
        self.settled += n;
    }
}
