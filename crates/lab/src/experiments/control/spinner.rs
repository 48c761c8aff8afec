//! `guarantee`, beside a neighbour that never idles: a hostile guest that spins on the CPU of the guaranteed router, and is
//! restarted whenever it is stopped for that. (A router with `spin = "always"` is not such a guest: its threads sleep early beside
//! others.) It is offered no traffic, so that neither limits nor drops can slow it down. A sample is the delivered share of the
//! guarantee meanwhile; beside it stand the lateness of timers of a program on that CPU, the CPU share that the neighbour took, and
//! the share that was left.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sched::account::Split;

use super::contended::SharedCpuSetup;
use super::guarantee::{NAMES, PROMISED, STEP, delivered, promise, settle};
use crate::experiment::{Experiment, Sample};
use crate::metric::lateness::{Sleeper, TRIALS, TimerLateness};
use crate::metric::usage::{self, Reader};
use crate::rig::router_run::RouterRun;
use crate::scenario::Step;
use crate::scenario::load::{SendMode, step};

/// Configuration lines of the neighbour.
const NEVER_IDLES: &str = "role = \"hostile\"\nmisdeed = \"spin\"\nrestart = \"always\"\n";
/// Index of the neighbour among the routers.
const NEIGHBOUR: usize = 1;
/// Time by which the step is extended while timer trials are still missing, and the most that the step may last.
const MORE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(30);

/// Case with the guarantee beside the spinning neighbour.
pub(super) fn case(contended: &SharedCpuSetup) -> Experiment {
    let lines = |contended: &SharedCpuSetup, capacity: f64| {
        vec![promise(PROMISED * capacity, contended.options.frame), NEVER_IDLES.to_owned()]
    };
    contended.case(NAMES, "beside-spinner", lines, measure)
}

/// Offers the guaranteed rate for a step, and longer until enough timers have fired; returns the observations while the neighbour
/// spun.
fn watch(
    contended: &SharedCpuSetup,
    room: &RouterRun,
    rates: &[f64],
) -> Result<(Step, TimerLateness, Split)> {
    let mut reader = Reader::by_ticks()?;
    let mut look = || reader.look(&room.threads()?);
    let sleeper = Sleeper::start(contended.cpus.1)?;
    let (before, end) = (look()?, Instant::now() + PATIENCE);
    let length = contended.options.step(STEP);
    let mut all = step(room, rates, (Duration::ZERO, length), SendMode::PLAIN)?;
    while !sleeper.is_enough() {
        ensure!(Instant::now() < end, "fewer than {TRIALS} timers came within {PATIENCE:?}");
        all.add(&step(room, rates, (Duration::ZERO, MORE), SendMode::PLAIN)?);
    }
    let split = Split::between(&before, &look()?);
    Ok((all, sleeper.end()?, split))
}

fn measure(contended: &SharedCpuSetup, room: &RouterRun, capacity: f64) -> Result<Sample> {
    let promised = PROMISED * capacity;
    let rates = [promised, 0.0];
    let settled = settle(room, &rates, promised)?;
    let (step, late, split) = watch(contended, room, &rates)?;
    let packets = step.packets();
    ensure!(packets > 0, "nothing came through");
    let spun = usage::used(&split, Some(NEIGHBOUR));
    let [_, idle] = usage::of_cpu(&split, contended.cpus.1).context("nothing is told of the CPU")?;
    let more = [
        ("capacity_kpps", capacity * 1e-3),
        ("promised_kpps", promised * 1e-3),
        ("offered_short", step.short(0, promised)),
        ("settled_ms", settled),
        ("neighbour_cpu", spun.vcpu + spun.vhost),
        ("idle_cpu", idle),
        ("timer_median_ms", late.median_ms),
        ("timer_p99_ms", late.p99_ms),
        ("timer_trials", late.trials as f64),
        ("timer_stolen", late.stolen as f64),
    ];
    let value = delivered(&step, promised);
    Ok(Sample { value, packets, more: more.into(), ..Sample::default() })
}

#[cfg(test)]
mod tests;
