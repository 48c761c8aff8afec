//! Order and time of what the benches of both tables do.

use std::time::{Duration, Instant};

use fib::synthetic::Random;

const SLICE: Duration = Duration::from_millis(50);
const SLICES: usize = 8;

/// Puts routes in random order, as a routing daemon would learn them.
pub(crate) fn shuffle<T>(order: &mut [T]) {
    let mut random = Random::new(3);
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u32 + 1) as usize);
    }
}

/// Prints the rate of the changes that were done, of so many, since `start`.
pub(crate) fn tell_changes(name: &str, done: usize, of: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{name}: {:.0} k routes/s ({done} of {of} in {seconds:.2} s)", done as f64 / seconds / 1e3);
}

/// Returns the nanoseconds of a lookup in the best slice, if a pass does so many.
pub(crate) fn best(lookups: usize, mut pass: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..SLICES {
        let (start, mut passes) = (Instant::now(), 0);
        while start.elapsed() < SLICE {
            pass();
            passes += 1;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / (passes * lookups) as f64);
    }
    best
}
