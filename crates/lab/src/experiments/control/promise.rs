//! `guarantee`: a router that is promised two thirds of what one CPU carries, more than a fair scheduler leaves it, and is offered
//! just that, beside one whose load goes up in steps to all that the socket gives. A sample is the least part of the promise that
//! was delivered, over all steps after settling; beside it how long settling took. Where the thread that offers the load fell
//! short of the promise, what it did offer counts, and `offered_short` tells by how much.

use std::time::Duration;

use anyhow::Result;

use super::contended::Contended;
use super::spinner;
use crate::experiment::{Options, Sample};
use crate::experiments::Case;
use crate::rig::room::Room;
use crate::scenario::load::{Manner, step};
use crate::scenario::{Climb, Step};

/// The experiment, and the unit of its samples.
pub(super) const NAMES: (&str, &str) = ("guarantee", "delivered/promised");
/// Part of the capacity that is promised: what `isolation` offers the router that it protects.
pub(super) const PROMISED: f64 = 0.64;
/// What the neighbour is offered, in capacities, and how the step is called by it.
const STEPS: [(f64, &str); 5] =
    [(0.0, "alone"), (0.3, "0.3"), (0.6, "0.6"), (1.0, "1.0"), (f64::INFINITY, "flood")];
/// Looks while it settles: how long, and how many.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 12;
/// Delivered so much of the promise in a look: it has settled.
const SETTLED: f64 = 0.95;
/// Shortest time measured in a step.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// With the promise, and without, for comparison; and with it beside a spinner.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let contended = Contended::new(options)?;
    let case = |end: &str, lines: fn(&Contended, f64) -> Vec<String>| {
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

fn measure(contended: &Contended, room: &Room, capacity: f64) -> Result<Sample> {
    let promised = PROMISED * capacity;
    let mut climb = Climb::of(capacity);
    climb.more.push("promised_kpps", promised * 1e-3);
    let (mut least, mut slowest) = (f64::INFINITY, 0.0);
    let length = contended.options.step(STEP);
    for (beside, called) in STEPS {
        let rates = [promised, beside * capacity];
        let settled = settle(room, &rates, promised)?;
        let step = step(room, &rates, (Duration::ZERO, length), Manner::PLAIN)?;
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

/// The line that promises a router so many frames a second.
pub(super) fn promise(rate: f64, frame: usize) -> String {
    format!("guarantee = {{ rate = \"{rate:.0}pps\", frame = {frame} }}\n")
}

/// Offers load in short looks; returns the milliseconds up to the end of the last look in which the first router was below its
/// promise.
pub(super) fn settle(room: &Room, rates: &[f64], promised: f64) -> Result<f64> {
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        let step = step(room, rates, (Duration::ZERO, LOOK), Manner::PLAIN)?;
        looks.push(delivered(&step, promised));
    }
    Ok(settled_after(&looks) as f64 * LOOK.as_secs_f64() * 1e3)
}

/// The part of a promise that the first router kept, or of what it was offered, if that is less.
pub(super) fn delivered(step: &Step, promised: f64) -> f64 {
    step.forwarded_kpps(0) / step.offered_kpps(0).min(promised * 1e-3)
}

/// How many looks there were up to the last one that was below.
fn settled_after(looks: &[f64]) -> usize {
    looks.iter().rposition(|delivered| *delivered < SETTLED).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests;
