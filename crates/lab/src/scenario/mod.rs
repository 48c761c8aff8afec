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
