//! `container-memory`: memory of a container router: the decrease of `MemAvailable` for 101 routers in one file, minus that for
//! one router (mostly the command itself), divided by 100.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Stand;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;

/// Number of routers beyond the first one.
const ROUTERS: usize = 100;
/// Time in which the kernel frees the memory of a former room, or allocates all memory of a new one.
const SETTLE: Duration = Duration::from_millis(1500);
/// KiB of a MiB.
const MIB: f64 = 1024.0;

/// Returns a case with veth pairs.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let measure = |options: &Options, cpu: usize| {
        let each = each(Stand::KERNEL_VETH, options, cpu, ROUTERS)?;
        let more = [("routers", ROUTERS as f64)].into();
        anyhow::Ok(Sample { value: each, more, ..Sample::default() })
    };
    let name = format!("{}/{ROUTERS}-routers", Stand::KERNEL_VETH.name);
    Ok(vec![Experiment::pinned(("container-memory", "mib"), name, options, measure)?.into()])
}

/// Returns the memory of one router, averaged over `routers` of them, in MiB.
///
/// # Errors
/// The routers do not run.
pub(super) fn each(stand: Stand, options: &Options, cpu: usize, routers: usize) -> Result<f64> {
    let one = fall(stand, options, cpu, 1)?;
    let all = fall(stand, options, cpu, routers + 1)?;
    Ok((all - one) / routers as f64)
}

/// Returns the decrease of the available memory by `routers` routers, in MiB.
fn fall(stand: Stand, options: &Options, cpu: usize, routers: usize) -> Result<f64> {
    sleep(SETTLE);
    let before = available()?;
    let room = stand.open_idle(options, &vec![cpu; routers])?;
    sleep(SETTLE);
    let after = available()?;
    room.close()?;
    Ok(before - after)
}

/// Returns the available memory of the host, in MiB.
pub(in crate::experiments) fn available() -> Result<f64> {
    read(&fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?)
}

fn read(meminfo: &str) -> Result<f64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kib.context("/proc/meminfo tells no MemAvailable")? / MIB)
}

#[cfg(test)]
mod tests;
