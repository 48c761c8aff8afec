//! `container-latency`: latency of a router at a tenth of the line rate and at line rate (seed paper 003, figure 6), as a
//! histogram of probes in the load.
//!
//! A sample is the median at line rate, in microseconds. If no probe arrives, the sample is the time for which the experiment
//! waited, which is a lower bound.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Stand, line_rate};
use crate::experiment::{Experiment, ExtraFigures, Options, Sample};
use crate::experiments::Case;
use crate::metric::histogram::Histogram;
use crate::rig::router_run::{Probe, RouterRun};
use crate::scenario::for_about;
use crate::scenario::load::{SendMode, step, step_with};

/// Loads, as fractions of the line rate.
const LOADS: [f64; 2] = [0.1, 1.0];
/// Interval between two probes: they add at most a thousandth to the load.
const EVERY: Duration = Duration::from_millis(1);
/// Durations of a load: before the measurement begins, and the shortest measurement.
const LEAD: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_secs(1);
/// Time to wait for late probes after the load.
const WAIT: Duration = Duration::from_millis(300);

/// Returns a case for each set-up.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let one = |stand: Stand| {
        let name = format!("{}/{}", options.frame, stand.name);
        let measure = move |options: &Options, cpu: usize| {
            let line = line_rate(options, cpu)?;
            stand.with_routers(options, &[cpu], |room| all(room, line, options.step(STEP)))
        };
        Experiment::pinned(("container-latency", "us"), name, options, measure).map(Case::from)
    };
    Stand::ON_AN_INTERFACE.into_iter().map(one).collect()
}

/// Measures all loads, and returns the sample.
fn all(room: &RouterRun, line: f64, length: Duration) -> Result<Sample> {
    let mut sample = Sample::default();
    for load in LOADS {
        let (found, packets) = under(room, load * line, length)?;
        sample.packets += packets;
        sample.value = found.median;
        sample.more.append(found.told(&format!("_at_{load:?}")));
    }
    ensure!(sample.packets > 0, "nothing came through");
    Ok(sample)
}

/// Latency under a load.
pub(super) struct Told {
    /// Median in microseconds; the waiting time if no probe arrived.
    pub(super) median: f64,
    /// 99th percentile in microseconds; the waiting time if no probe arrived.
    pub(super) p99: f64,
    histogram: Histogram,
    /// Fraction of the probes that were lost.
    lost: f64,
    /// Measured rate of the load, in thousands of frames a second.
    offered: f64,
}

impl Told {
    /// Returns all figures, with the suffix `of` in their names.
    fn told(&self, of: &str) -> ExtraFigures {
        let mut further = self.histogram.told(of);
        let parts = [("median", self.median), ("p99", self.p99), ("lost_percent", self.lost * 100.0)];
        further.push(format!("offered_kpps{of}"), self.offered);
        // These are present even if no probe arrived, so that a figure can compare them.
        further.extend(parts.map(|(name, value)| (format!("latency_{name}{of}"), value)));
        further
    }
}

/// Measures the latency of a room's first router under a load of `rate` frames a second. Also returns the number of frames
/// that it forwarded.
///
/// # Errors
/// No probe could be sent.
pub(super) fn under(room: &RouterRun, rate: f64, length: Duration) -> Result<(Told, u64)> {
    step(room, &[rate], (LEAD, Duration::ZERO), SendMode::PLAIN)?;
    let mut probe = Probe::new(room, 0, EVERY)?;
    let step = step_with(room, &[rate], (Duration::ZERO, length), SendMode::SHORT, &mut || probe.turn())?;
    for_about(WAIT, 1, || probe.receive());
    let mut histogram = Histogram::default();
    probe.took.iter().for_each(|took| histogram.add(*took));
    ensure!(probe.sent > 0, "no probe was sent");
    let waited = (length + WAIT).as_secs_f64() * 1e6;
    let told = Told {
        median: histogram.percentile(0.5).unwrap_or(waited),
        p99: histogram.percentile(0.99).unwrap_or(waited),
        lost: 1.0 - histogram.count() as f64 / probe.sent as f64,
        offered: step.offered_kpps(0),
        histogram,
    };
    Ok((told, step.packets()))
}
