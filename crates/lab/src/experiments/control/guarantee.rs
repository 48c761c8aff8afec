//! `guarantee`: a router with a guarantee of two thirds of what one CPU carries, more than a fair scheduler leaves it, is offered
//! exactly that rate, beside a neighbour whose load rises in steps to the highest that the socket can offer. A sample is the
//! smallest share of the guarantee that was delivered in any step after settling; the settling time stands beside it. Where the
//! load generator fell short of the guaranteed rate, the offered rate counts instead, and `offered_short` reports the shortfall.

use std::time::Duration;

use anyhow::Result;

use super::contended::SharedCpuSetup;
use super::spinner;
use crate::experiment::{Options, Sample};
use crate::experiments::Case;
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};
use crate::scenario::{LoadSweep, Step};

/// Name of the experiment, and unit of its samples.
pub(super) const NAMES: (&str, &str) = ("guarantee", "delivered/promised");
/// Guaranteed share of the capacity: what `isolation` offers its protected router.
pub(super) const PROMISED: f64 = 0.64;
/// Load of the neighbour in each step, as a multiple of the capacity, and the name of the step.
const STEPS: [(f64, &str); 5] =
    [(0.0, "alone"), (0.3, "0.3"), (0.6, "0.6"), (1.0, "1.0"), (f64::INFINITY, "flood")];
/// Length and number of the looks during settling.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 12;
/// Delivered share of the guarantee in a look from which on the router counts as settled.
const SETTLED: f64 = 0.95;
/// Least measured time of a step.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// Cases with the guarantee, without it for comparison, and with it beside a spinning neighbour.
///
/// # Errors
/// There are fewer than two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let contended = SharedCpuSetup::new(options)?;
    let case = |end: &str, lines: fn(&SharedCpuSetup, f64) -> Vec<String>| {
        Case::from(contended.case(NAMES, end, lines, measure))
    };
    Ok(vec![
        case("promised", |contended, capacity| {
            vec![promise(PROMISED * capacity, contended.options.frame), String::new()]
        }),
        case("not-promised", |_, _| vec![String::new(), String::new()]),
        spinner::case(&contended).into(),
    ])
}

fn measure(contended: &SharedCpuSetup, room: &RouterRun, capacity: f64) -> Result<Sample> {
    let promised = PROMISED * capacity;
    let mut climb = LoadSweep::of(capacity);
    climb.more.push("promised_kpps", promised * 1e-3);
    let (mut least, mut slowest) = (f64::INFINITY, 0.0);
    let length = contended.options.step(STEP);
    for (beside, called) in STEPS {
        let rates = [promised, beside * capacity];
        let settled = settle(room, &rates, promised)?;
        let step = step(room, &rates, (Duration::ZERO, length), SendMode::PLAIN)?;
        let delivered = delivered(&step, promised);
        least = f64::min(least, delivered);
        slowest = f64::max(slowest, settled);
        climb.count(&step, promised);
        let place = if beside == 0.0 { called.to_owned() } else { format!("beside_{called}") };
        climb.more.extend([
            (format!("delivered_{place}"), delivered),
            (format!("beside_{called}_kpps"), step.forwarded_kpps(1)),
            (format!("settled_{place}_ms"), settled),
        ]);
    }
    climb.more.extend([("settled_ms", slowest), ("offered_short", climb.short)]);
    climb.sample(least)
}

/// Configuration line that guarantees a router this many frames a second.
pub(super) fn promise(rate: f64, frame: usize) -> String {
    format!("guarantee = {{ rate = \"{rate:.0}pps\", frame = {frame} }}\n")
}

/// Offers load in short looks; returns the milliseconds until the end of the last look in which the first router was below its
/// guarantee.
pub(super) fn settle(room: &RouterRun, rates: &[f64], promised: f64) -> Result<f64> {
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        let step = step(room, rates, (Duration::ZERO, LOOK), SendMode::PLAIN)?;
        looks.push(delivered(&step, promised));
    }
    Ok(settled_after(&looks) as f64 * LOOK.as_secs_f64() * 1e3)
}

/// Share of the guarantee that the first router delivered, or of its offered load, if that is less.
pub(super) fn delivered(step: &Step, promised: f64) -> f64 {
    step.forwarded_kpps(0) / step.offered_kpps(0).min(promised * 1e-3)
}

/// Number of looks up to and including the last one below [`SETTLED`].
fn settled_after(looks: &[f64]) -> usize {
    looks.iter().rposition(|delivered| *delivered < SETTLED).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests;
