//! Distance between two CPUs: the round trip time of a cache line between them.
//!
//! Hosts migrate virtual CPUs, and every rate between two cores halves or doubles with that. So the figure is
//! taken just before and after each sample.

use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};

use crate::cores;

/// Time limit of a measurement, however slowly the other CPU answers.
const PATIENCE: Duration = Duration::from_millis(500);
/// Reads of the line between two checks of the clock.
const READS: u32 = 1 << 16;

/// A word alone in its pair of cache lines (adjacent lines are prefetched together).
#[repr(align(128))]
#[derive(Default)]
struct Line<Word>(Word);

/// Nanoseconds that a cache line takes from `cpu_a` to `cpu_b` and back, averaged over `rounds`. NaN if that
/// cannot be measured: both are the same CPU, a thread cannot be pinned, or the other CPU does not answer in
/// time.
pub fn round_trip_ns(cpu_a: usize, cpu_b: usize, rounds: u32) -> f64 {
    if cpu_a == cpu_b || rounds == 0 {
        return f64::NAN;
    }
    let (line, end) = (Line::<AtomicU32>::default(), Line::<AtomicBool>::default());
    thread::scope(|scope| {
        scope.spawn(|| answer(&line.0, &end.0, cpu_b));
        let asker = scope.spawn(|| ask(&line.0, cpu_a, rounds.min(1 << 30)));
        let result = asker.join();
        end.0.store(true, Relaxed);
        result.ok().flatten().unwrap_or(f64::NAN)
    })
}

/// Makes each odd value even until told to end. The end flag is a separate word, since an answer may be on
/// its way to the first one.
fn answer(line: &AtomicU32, end: &AtomicBool, cpu: usize) {
    let pinned = cores::pin(cpu).is_ok();
    while !end.load(Relaxed) {
        let value = line.load(Acquire);
        if pinned && value & 1 == 1 {
            line.store(value + 1, Release);
        }
    }
}

/// Stores odd values and waits for the even ones. Returns nanoseconds per round.
fn ask(line: &AtomicU32, cpu: usize, rounds: u32) -> Option<f64> {
    cores::pin(cpu).ok()?;
    let deadline = Instant::now() + PATIENCE;
    // The first answer only shows that the other thread runs on its CPU.
    exchange(line, 0, deadline)?;
    let start = Instant::now();
    for round in 1..=rounds {
        exchange(line, round, deadline)?;
    }
    Some(start.elapsed().as_nanos() as f64 / f64::from(rounds))
}

fn exchange(line: &AtomicU32, round: u32, deadline: Instant) -> Option<()> {
    line.store(2 * round + 1, Relaxed);
    loop {
        for _ in 0..READS {
            if line.load(Acquire) == 2 * round + 2 {
                return Some(());
            }
        }
        if Instant::now() > deadline {
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
