//! Scenarios: the course of events in a measurement.

pub(crate) mod load;
mod step;

use std::time::{Duration, Instant};

pub(crate) use step::{LoadSweep, Step, step};

/// Calls `turn` repeatedly for about `length`, reading the clock after every `often` calls; returns the seconds it took.
#[inline(always)]
pub(crate) fn for_about(length: Duration, often: usize, mut turn: impl FnMut()) -> f64 {
    let start = Instant::now();
    while start.elapsed() < length {
        for _ in 0..often {
            turn();
        }
    }
    start.elapsed().as_secs_f64()
}

/// Frames that came out while a load was offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Came {
    /// Seconds for which the load was offered.
    pub(crate) seconds: f64,
    /// Frames that came in these seconds.
    pub(crate) in_time: u64,
    /// These, and those that came afterwards.
    pub(crate) in_all: u64,
}

/// Offers load for about `length` by calling `offer` repeatedly, then calls `rest`, in which the remaining frames come. `frames`
/// returns how many frames have come so far.
pub(crate) fn offered(
    length: Duration,
    often: usize,
    offer: impl FnMut(),
    rest: impl FnOnce(),
    frames: impl Fn() -> u64,
) -> Came {
    let before = frames();
    let seconds = for_about(length, often, offer);
    let in_time = frames() - before;
    rest();
    Came { seconds, in_time, in_all: frames() - before }
}

/// Calls `moves` repeatedly until it has reported for `rest` that nothing moved, or reports that all is done (none); for at most
/// `limit`.
pub(crate) fn until_quiet(rest: Duration, limit: Duration, mut moves: impl FnMut() -> Option<bool>) {
    let (start, mut quiet) = (Instant::now(), Instant::now());
    while start.elapsed() < limit && quiet.elapsed() < rest {
        match moves() {
            Some(true) => quiet = Instant::now(),
            Some(false) => {}
            None => return,
        }
    }
}

#[cfg(test)]
mod tests;
