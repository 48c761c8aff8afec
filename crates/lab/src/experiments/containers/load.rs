//! `container-load`: throughput and CPU time of one router on one core, as functions of the load (seed paper 003, figures 4 and 5).
//!
//! A sample is the best rate of all loads. Further figures for each load: the offered and the forwarded rate, and the core's busy
//! time in the kernel, in user space, and in total.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use sched::account::Split;

use super::{Stand, line_rate};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::metric::usage::{self, Reader};
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};
use crate::scenario::{LoadSweep, Step};

/// Loads, as fractions of the line rate; 0.19 stands for 280 of the paper's 1488 kpps.
const LOADS: [f64; 7] = [0.05, 0.1, 0.19, 0.4, 0.6, 0.8, 1.0];
/// Durations of a load: before the measurement begins, the shortest measurement, and the pause after it.
const LEAD: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_millis(600);
const REST: Duration = Duration::from_millis(20);

/// Returns a case for each set-up.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let one = |stand: Stand| {
        let name = format!("{}/{}", options.frame, stand.name);
        let measure = move |options: &Options, cpu: usize| {
            let line = line_rate(options, cpu)?;
            stand.with_routers(options, &[cpu], |room| climb(room, options, cpu, line))
        };
        Experiment::pinned(("container-load", "kpps"), name, options, measure).map(Case::from)
    };
    Stand::ON_AN_INTERFACE.into_iter().map(one).collect()
}

fn climb(room: &RouterRun, options: &Options, cpu: usize, line: f64) -> Result<Sample> {
    let mut reader = Reader::by_ticks()?;
    let mut look = || reader.look(&room.threads()?);
    let mut climb = LoadSweep::of(line);
    for load in LOADS {
        let rate = load * line;
        let before = look()?;
        let step = step(room, &[rate], (LEAD, options.step(STEP)), SendMode::PLAIN)?;
        let split = Split::between(&before, &look()?);
        climb.count(&step, rate);
        climb.more.extend(told(load, &step, &split, cpu));
        sleep(REST);
    }
    let (best, last) = climb.best_and_last()?;
    let more = [("overload_kpps", last), ("kept", last / best), ("offered_short", climb.short)];
    climb.more.extend(more);
    climb.sample(best)
}

/// Returns the figures of a load.
fn told(load: f64, step: &Step, split: &Split, cpu: usize) -> Vec<(String, f64)> {
    let mut told = vec![
        (format!("offered_at_{load:?}"), step.offered_kpps(0)),
        (format!("forwarded_at_{load:?}"), step.forwarded_kpps(0)),
    ];
    if let Some(busy) = usage::busy(split, cpu) {
        told.extend([
            (format!("kernel_at_{load:?}"), busy.kernel * 100.0),
            (format!("user_at_{load:?}"), busy.user * 100.0),
            (format!("total_at_{load:?}"), busy.total * 100.0),
        ]);
    }
    told
}
