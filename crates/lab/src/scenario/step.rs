//! Load steps: a fixed load is offered for a while, and its results are counted.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::experiment::{ExtraFigures, Sample};

/// Result of a step: frames offered to each router, and frames forwarded by each.
pub(crate) struct Step {
    pub(crate) seconds: f64,
    pub(crate) offered: Vec<u64>,
    pub(crate) forwarded: Vec<u64>,
}

impl Step {
    /// Adds the step that followed immediately.
    pub(crate) fn add(&mut self, later: &Self) {
        self.seconds += later.seconds;
        for (all, more) in [(&mut self.offered, &later.offered), (&mut self.forwarded, &later.forwarded)] {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
    }

    /// Frames forwarded by all routers.
    pub(crate) fn packets(&self) -> u64 {
        self.forwarded.iter().sum()
    }

    /// Load offered to a router, in thousands of frames a second.
    pub(crate) fn offered_kpps(&self, router: usize) -> f64 {
        kpps(&self.offered, router, self.seconds)
    }

    /// Fraction of this rate (frames a second) that a router was not offered, because the sending thread fell behind.
    pub(crate) fn short(&self, router: usize, rate: f64) -> f64 {
        1.0 - self.offered_kpps(router) * 1e3 / rate
    }

    /// Rate forwarded by a router, in thousands of frames a second.
    pub(crate) fn forwarded_kpps(&self, router: usize) -> f64 {
        kpps(&self.forwarded, router, self.seconds)
    }
}

fn kpps(frames: &[u64], router: usize, seconds: f64) -> f64 {
    frames.get(router).map_or(0.0, |&frames| frames as f64 / seconds * 1e-3)
}

/// Offers load for `lead`, and then for `length`, which is counted. `offer` returns the frames that it has offered to each
/// router, `forwarded` those that each has forwarded so far.
pub(crate) fn step(
    (lead, length): (Duration, Duration),
    mut offer: impl FnMut(Duration) -> Vec<u64>,
    forwarded: impl Fn() -> Result<Vec<u64>>,
) -> Result<Step> {
    offer(lead);
    let (before, start) = (forwarded()?, Instant::now());
    let offered = offer(length);
    let (seconds, after) = (start.elapsed().as_secs_f64(), forwarded()?);
    let forwarded = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok(Step { seconds, offered, forwarded })
}

/// Results of successive steps with increasing load.
#[derive(Default)]
pub(crate) struct LoadSweep {
    /// Figures of the steps.
    pub(crate) more: ExtraFigures,
    /// Frames forwarded.
    packets: u64,
    /// Rate forwarded by the first router in each step, in thousands of frames a second.
    rates: Vec<f64>,
    /// Largest fraction of a step's rate that the first router was not offered.
    pub(crate) short: f64,
}

impl LoadSweep {
    /// Starts with no step, for routers of this capacity (frames a second).
    pub(crate) fn of(capacity: f64) -> Self {
        Self { more: [("capacity_kpps", capacity * 1e-3)].into(), ..Self::default() }
    }

    /// Adds a step in which the first router was to be offered this many frames a second.
    pub(crate) fn count(&mut self, step: &Step, rate: f64) {
        self.packets += step.packets();
        self.rates.push(step.forwarded_kpps(0));
        self.short = f64::max(self.short, step.short(0, rate));
    }

    /// Best rate of the first router, and its rate in the last step.
    ///
    /// # Errors
    /// No frame was forwarded.
    pub(crate) fn best_and_last(&self) -> Result<(f64, f64)> {
        let best = self.rates.iter().copied().fold(0.0, f64::max);
        ensure!(best > 0.0, "nothing came through");
        Ok((best, self.rates.last().copied().unwrap_or(0.0)))
    }

    /// Creates the sample with this value.
    ///
    /// # Errors
    /// No frame was forwarded.
    pub(crate) fn sample(self, value: f64) -> Result<Sample> {
        ensure!(self.packets > 0, "nothing came through");
        Ok(Sample { value, packets: self.packets, more: self.more, ..Sample::default() })
    }
}

#[cfg(test)]
mod tests;
