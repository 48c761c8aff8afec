//! On which CPU a thread runs, and how much it has run.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the thread that asks on one CPU.
///
/// # Errors
/// There is no such CPU.
pub fn on_cpu(cpu: usize) -> Result<()> {
    sched_setaffinity(None, &only(cpu)).with_context(|| format!("cannot run on CPU {cpu}"))
}

/// Keeps another thread on one CPU, if it has not ended.
pub fn put_on_cpu(thread: u32, cpu: usize) {
    if let Some(thread) = i32::try_from(thread).ok().and_then(Pid::from_raw) {
        // One that has ended needs none.
        let _ = sched_setaffinity(Some(thread), &only(cpu));
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Nanoseconds that a thread has run, and those that it was ready and waited for a CPU; none: it has ended.
pub fn ran_and_waited(process: u32, thread: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
