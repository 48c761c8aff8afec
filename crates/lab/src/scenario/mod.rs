//! Scenarios: what happens over time.

pub(crate) mod load;
mod step;

use std::time::{Duration, Instant};

pub(crate) use step::{Climb, Step, step};

/// Does something again and again for about `length`, so often between two looks at the clock; returns the seconds it took.
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

/// Does something again and again until it has said for `rest` that nothing moves, or that all is over (none); no longer than for
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
