//! CPUs of the host, and pinning threads to them.

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to one CPU. Fails if the CPU does not exist or may not be used.
pub fn pin(cpu: usize) -> Result<()> {
    ensure!(cpu < CpuSet::MAX_CPU, "CPU {cpu} does not exist: the largest number is {}", CpuSet::MAX_CPU - 1);
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

/// Lets the calling thread, and those that it starts from now on, run on these CPUs. Fails if one of them does not exist, or none may be
/// used.
pub fn allow(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        ensure!(
            cpu < CpuSet::MAX_CPU,
            "CPU {cpu} does not exist: the largest number is {}",
            CpuSet::MAX_CPU - 1
        );
        set.set(cpu);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPUs {cpus:?}"))
}

/// CPUs that the calling thread may run on, in ascending order.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read the allowed CPUs")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Online CPUs, in ascending order.
pub fn online() -> Result<Vec<usize>> {
    let path = "/sys/devices/system/cpu/online";
    parse_list(&std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?)
}

/// Parses the kernel's notation of CPU lists: `0-3,8,10-11`.
pub fn parse_list(text: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number =
            |text: &str| text.trim().parse::<usize>().with_context(|| format!("'{text}' is not a CPU"));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= CpuSet::MAX_CPU {
            bail!("'{part}' is not a range of CPUs below {}", CpuSet::MAX_CPU);
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests;
