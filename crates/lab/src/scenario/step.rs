//! Steps of a load: for a while so much is offered, and what comes of it is counted.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::experiment::{Further, Sample};

/// What came of a step: for each router frames offered, and forwarded.
pub(crate) struct Step {
    pub(crate) seconds: f64,
    pub(crate) offered: Vec<u64>,
    pub(crate) forwarded: Vec<u64>,
}

impl Step {
    /// Goes on with what came right after it.
    pub(crate) fn add(&mut self, later: &Self) {
        self.seconds += later.seconds;
        for (all, more) in [(&mut self.offered, &later.offered), (&mut self.forwarded, &later.forwarded)] {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
    }

    /// Frames that all routers forwarded.
    pub(crate) fn packets(&self) -> u64 {
        self.forwarded.iter().sum()
    }

    /// Thousands of frames a second that a router was offered.
    pub(crate) fn offered_kpps(&self, router: usize) -> f64 {
        kpps(&self.offered, router, self.seconds)
    }

    /// The part of this rate, frames a second, that a router was not offered: the thread that offers it fell behind.
    pub(crate) fn short(&self, router: usize, rate: f64) -> f64 {
        1.0 - self.offered_kpps(router) * 1e3 / rate
    }

    /// Thousands of frames a second that it forwarded.
    pub(crate) fn forwarded_kpps(&self, router: usize) -> f64 {
        kpps(&self.forwarded, router, self.seconds)
    }
}

fn kpps(frames: &[u64], router: usize, seconds: f64) -> f64 {
    frames.get(router).map_or(0.0, |&frames| frames as f64 / seconds * 1e-3)
}

/// Offers load for `lead`, then for `length` again, in which it is counted. `offer` tells the frames that it has offered to each
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

/// What came of steps, one after the other, in each of which more is offered.
#[derive(Default)]
pub(crate) struct Climb {
    /// Figures of the steps.
    pub(crate) more: Further,
    /// Frames that were forwarded.
    packets: u64,
    /// Thousands of frames a second that the first router forwarded in each step.
    rates: Vec<f64>,
    /// The greatest part of a step's rate that the first router was not offered.
    pub(crate) short: f64,
}

impl Climb {
    /// None yet, for routers of this capacity (frames a second).
    pub(crate) fn of(capacity: f64) -> Self {
        Self { more: [("capacity_kpps", capacity * 1e-3)].into(), ..Self::default() }
    }

    /// Counts a step in which the first router was to be offered so many frames a second.
    pub(crate) fn count(&mut self, step: &Step, rate: f64) {
        self.packets += step.packets();
        self.rates.push(step.forwarded_kpps(0));
        self.short = f64::max(self.short, step.short(0, rate));
    }

    /// The first router's best rate, and that in the last step.
    ///
    /// # Errors
    /// Nothing came through.
    pub(crate) fn best_and_last(&self) -> Result<(f64, f64)> {
        let best = self.rates.iter().copied().fold(0.0, f64::max);
        ensure!(best > 0.0, "nothing came through");
        Ok((best, self.rates.last().copied().unwrap_or(0.0)))
    }

    /// The sample that this value stands for.
    ///
    /// # Errors
    /// Nothing came through.
    pub(crate) fn sample(self, value: f64) -> Result<Sample> {
        ensure!(self.packets > 0, "nothing came through");
        Ok(Sample { value, packets: self.packets, more: self.more, ..Sample::default() })
    }
}

#[cfg(test)]
mod tests;
