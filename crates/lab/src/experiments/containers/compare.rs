//! `compare`: the same file with each of the engines. The NICs are attached by `tap:`, which is a TAP for the engines `kvm`,
//! `process` and `linux`, and a veth pair for `kernel` and `lxc`. A Linux guest is told by its kernel's command line to set itself up in
//! the same way; its kernel and initramfs are named by options, without which its case is not run.
//!
//! A sample is the best rate of one router on a core. Further figures: median and 99th percentile of the latency at half of that
//! rate, CPU time per packet, the fraction of its load that a router still forwards beside an overloaded one (as in table 4 of seed
//! paper 003, without control), memory of a router, and time from `start` to the first forwarded frame.

use std::time::Duration;

use anyhow::{Context, Result};
use sched::account::Split;

use super::boot::Trials;
use super::{Stand, latency, memory};
use crate::experiment::{Experiment, ExtraFigures, Options, Sample};
use crate::experiments::Case;
use crate::experiments::control::capacity::best;
use crate::experiments::control::isolation::Overload;
use crate::metric::usage::{self, Reader};
use crate::rig::router_run::{RouterRun, with_files};
use crate::scenario::load::{SendMode, step};

/// Set-ups of the engines, each with the set-up whose starts are timed. A veth pair is deleted with its router, so containers
/// are attached by macvlans for the latter.
const STANDS: [(Stand, Stand); 5] = [
    (Stand::KVM_TAP, Stand::KVM_TAP),
    (Stand::PROCESS_TAP, Stand::PROCESS_TAP),
    (Stand::LINUX_TAP, Stand::LINUX_TAP),
    (Stand::KERNEL_TAP, Stand::KERNEL_MACVLAN),
    (Stand::LXC_TAP, Stand::LXC_MACVLAN),
];
/// Load for latency and CPU time, as a fraction of the best rate.
const HALF: f64 = 0.5;
/// Durations of that load: before the measurement begins, and the shortest measurement.
const LEAD: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_secs(1);
/// Number of routers that the memory of one is averaged over: fewer Linux guests, each of which needs much.
const ROUTERS: usize = 10;
const GUESTS: usize = 3;
/// Number of starts, of which the median is told.
const STARTS: usize = 10;
/// Two routers, the second one overloaded.
const OVERLOAD: Overload = Overload { routers: 2, overloaded: 1 };

/// Returns a case for each engine.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let one = |(stand, starting): (Stand, Stand)| {
        let name = format!("{}/{}", stand.link.name(), stand.by.name());
        let both = move |options: &Options, cpu: usize| measure((stand, starting), options, cpu);
        Experiment::pinned(("compare", "kpps"), name, options, both).map(Case::from)
    };
    STANDS.into_iter().map(one).collect()
}

fn measure((stand, starting): (Stand, Stand), options: &Options, cpu: usize) -> Result<Sample> {
    let is_linux = stand.by.is_linux_guest();
    let options = &if is_linux { with_files(options)? } else { options.clone() };
    let mut more = ExtraFigures::default();
    let rate = stand.with_routers(options, &[cpu], |room| {
        let rate = best(room)?;
        more.append(at_half(room, rate, options, cpu)?);
        Ok(rate)
    })?;
    let both = [cpu; 2];
    let isolated = stand.with_routers(options, &both, |room| OVERLOAD.measure(options, room, rate, cpu))?;
    let starts = starting.with_routers(options, &[cpu], |room| Trials::of(room, STARTS))?;
    more.extend([
        ("kept", isolated.value),
        ("memory_mib", memory::each(stand, options, cpu, if is_linux { GUESTS } else { ROUTERS })?),
        ("start_ms", starts.percentile(50)),
    ]);
    Ok(Sample { value: rate * 1e-3, packets: isolated.packets, more, ..Sample::default() })
}

/// Measures latency and CPU time per packet at half of the best rate.
fn at_half(room: &RouterRun, best: f64, options: &Options, cpu: usize) -> Result<ExtraFigures> {
    let (rate, length) = (HALF * best, options.step(STEP));
    let (told, _) = latency::under(room, rate, length)?;
    let mut reader = Reader::by_ticks()?;
    step(room, &[rate], (LEAD, Duration::ZERO), SendMode::PLAIN)?;
    let before = reader.look(&room.threads()?)?;
    let step = step(room, &[rate], (Duration::ZERO, length), SendMode::PLAIN)?;
    let split = Split::between(&before, &reader.look(&room.threads()?)?);
    let busy = usage::busy(&split, cpu).context("nothing is told of the CPU")?;
    let each = busy.total * step.seconds * 1e6 / step.packets().max(1) as f64;
    Ok([("median_us", told.median), ("p99_us", told.p99), ("cpu_us_a_packet", each)].into())
}

#[cfg(test)]
mod tests;
