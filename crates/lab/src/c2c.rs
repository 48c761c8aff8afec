//! How far apart two CPUs are: the round trip of one cache line between them.
//!
//! Hosts move virtual CPUs about, and every rate between two cores halves or doubles with it. So the figure is taken
//! just before and after each sample.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};

use crate::cores;

/// Longest time that one measurement takes, however slow the other CPU answers.
const PATIENCE: Duration = Duration::from_millis(500);
/// Reads of the line between two looks at the clock.
const READS: u32 = 1 << 16;
/// Tells the peer to end.
const END: u32 = u32::MAX;

/// A word alone in its pair of cache lines (adjacent lines are fetched together).
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds that a cache line needs from `cpu_a` to `cpu_b` and back, averaged over `rounds`. Not a number where
/// it cannot be told: both are the same CPU, a thread cannot be pinned, or the other CPU does not answer in time.
pub fn round_trip_ns(cpu_a: usize, cpu_b: usize, rounds: u32) -> f64 {
    if cpu_a == cpu_b || rounds == 0 {
        return f64::NAN;
    }
    let line = Line(AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| answer(&line.0, cpu_b));
        let asker = scope.spawn(|| ask(&line.0, cpu_a, rounds.min(1 << 30)));
        let result = asker.join();
        line.0.store(END, Release);
        result.ok().flatten().unwrap_or(f64::NAN)
    })
}

/// Makes each odd value even until told to end.
fn answer(line: &AtomicU32, cpu: usize) {
    let pinned = cores::pin(cpu).is_ok();
    loop {
        let value = line.load(Acquire);
        if value == END {
            return;
        }
        if pinned && value & 1 == 1 {
            line.store(value + 1, Release);
        }
    }
}

/// Stores odd values and waits for the even ones; nanoseconds a round.
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
