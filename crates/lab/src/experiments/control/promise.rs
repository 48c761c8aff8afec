//! `guarantee`: a router that is promised two thirds of what one CPU carries, more than a fair scheduler leaves it, and is offered
//! just that, beside one whose load goes up in steps to all that the socket gives. A sample is the least part of the promise that
//! was delivered, over all steps after settling; beside it how long settling took. Where the thread that offers the load fell
//! short of the promise, what it did offer counts, and `offered_short` tells by how much.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host::cores;

use super::capacity;
use super::load::{Manner, Step, step};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Link;
use crate::experiments::room::{File, Memory, Room, program};
use crate::ledger_snapshot::Snapshot;

/// Part of the capacity that is promised: what `isolation` offers the router that it protects.
pub(super) const PROMISED: f64 = 0.64;
/// What the neighbour is offered, in capacities, and the names of what was delivered of the promise meanwhile, of the
/// neighbour's rate, and of the time to settle.
const STEPS: [(f64, &str, &str, &str); 5] = [
    (0.0, "delivered_alone", "beside_alone_kpps", "settled_alone_ms"),
    (0.3, "delivered_beside_0.3", "beside_0.3_kpps", "settled_beside_0.3_ms"),
    (0.6, "delivered_beside_0.6", "beside_0.6_kpps", "settled_beside_0.6_ms"),
    (1.0, "delivered_beside_1.0", "beside_1.0_kpps", "settled_beside_1.0_ms"),
    (f64::INFINITY, "delivered_beside_flood", "beside_flood_kpps", "settled_beside_flood_ms"),
];
/// Looks while it settles: how long, and how many.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 12;
/// Delivered so much of the promise in a look: it has settled.
const SETTLED: f64 = 0.95;
/// Shortest time measured in a step.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// See the head of this file.
pub struct Promise {
    options: Options,
    cpus: (usize, usize),
    /// Whether it is promised at all: without, for comparison.
    is_promised: bool,
}

impl Promise {
    /// With the promise, and without.
    ///
    /// # Errors
    /// There are not two CPUs.
    pub fn pair(options: &Options) -> Result<[Self; 2]> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        Ok([true, false].map(|is_promised| Self { options: options.clone(), cpus, is_promised }))
    }

    fn room(&self, promised: f64, memory: &Memory) -> Result<Room> {
        let here = capacity::on(self.cpus.1);
        let promise = if self.is_promised { promise(promised, self.options.frame) } else { String::new() };
        let routers = [format!("{here}{promise}"), here];
        let file = File {
            options: &self.options,
            link: Link::Tap,
            queue_len: None,
            routers: &routers,
            memory: Some(memory),
        };
        Room::open(&program()?, &file).with_context(|| format!("with {}", promise.trim()))
    }

    fn measure(&self, room: &Room, capacity: f64) -> Result<Sample> {
        let promised = PROMISED * capacity;
        let mut more = vec![("capacity_kpps", capacity * 1e-3), ("promised_kpps", promised * 1e-3)];
        let (mut least, mut packets, mut slowest, mut short) = (f64::INFINITY, 0, 0.0, 0.0);
        let length = self.options.step(STEP);
        for (beside, delivered_name, beside_name, settled_name) in STEPS {
            let rates = [promised, beside * capacity];
            let settled = settle(room, &rates, promised)?;
            let step = step(room, &rates, (Duration::ZERO, length), Manner::PLAIN)?;
            let delivered = delivered(&step, promised);
            least = f64::min(least, delivered);
            short = f64::max(short, step.short(0, promised));
            slowest = f64::max(slowest, settled);
            packets += step.forwarded.iter().sum::<u64>();
            more.extend([
                (delivered_name, delivered),
                (beside_name, step.forwarded_kpps(1)),
                (settled_name, settled),
            ]);
        }
        ensure!(packets > 0, "nothing came through");
        more.extend([("settled_ms", slowest), ("offered_short", short)]);
        Ok(Sample { value: least, packets, lost: 0, exits: None, more, ledger: Snapshot::new() })
    }
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

impl Experiment for Promise {
    fn id(&self) -> &'static str {
        "guarantee"
    }

    fn case(&self) -> String {
        let (device, frame) = (self.options.device(), self.options.frame);
        let which = if self.is_promised { "promised" } else { "not-promised" };
        format!("{device}/{frame}/tap/{which}")
    }

    fn unit(&self) -> &'static str {
        "delivered/promised"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        program().map(drop)
    }

    fn run_slice(&mut self, _: Duration) -> Result<Sample> {
        cores::pin(self.cpus.0)?;
        let memory = Memory::new()?;
        let capacity = capacity::measure(&self.options, Link::Tap, self.cpus.1, Some(&memory))?;
        let room = self.room(PROMISED * capacity, &memory)?;
        let sample = self.measure(&room, capacity);
        room.close()?;
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_ends_with_the_last_look_below_the_promise() {
        assert_eq!(settled_after(&[1.0, 0.99, 1.0]), 0);
        assert_eq!(settled_after(&[0.2, 0.9, 0.96, 1.0]), 2);
        assert_eq!(settled_after(&[1.0, 1.0, 0.5]), 3);
    }
}
