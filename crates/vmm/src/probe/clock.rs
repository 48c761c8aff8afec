//! Frequency of the time-stamp counter.

use std::arch::x86_64::_rdtsc;
use std::thread;
use std::time::{Duration, Instant};

/// Measures the frequency of the time-stamp counter in kHz against `CLOCK_MONOTONIC` over this time; longer
/// measurements are more exact. CPUID tells it on some processors only.
pub fn tsc_khz(over: Duration) -> u64 {
    let (start, first) = (Instant::now(), ticks());
    thread::sleep(over);
    let (last, elapsed) = (ticks(), start.elapsed());
    let ticks = u128::from(last.wrapping_sub(first));
    u64::try_from(ticks * 1_000_000 / elapsed.as_nanos().max(1)).unwrap_or(0)
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { _rdtsc() }
}
