//! CPU affinity and CPU time of threads.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Pins the calling thread to one CPU.
///
/// # Errors
/// There is no such CPU.
pub fn on_cpu(cpu: usize) -> Result<()> {
    sched_setaffinity(None, &only(cpu)).with_context(|| format!("cannot run on CPU {cpu}"))
}

/// Pins another thread to one CPU, unless it has ended.
pub fn put_on_cpu(thread: u32, cpu: usize) {
    if let Some(thread) = i32::try_from(thread).ok().and_then(Pid::from_raw) {
        // A thread that has ended needs none.
        let _ = sched_setaffinity(Some(thread), &only(cpu));
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Nanoseconds that a thread has run, and those that it was runnable but waited for a CPU; none if it has
/// ended.
pub fn ran_and_waited(process: u32, thread: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
