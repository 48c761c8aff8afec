//! Runs experiments in slices, repetitions and alternating variants.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host::c2c;

use super::{Comparison, Experiment, Measured, Options, Outcome};

/// Longest slice: hypervisors tend to migrate a busy pair of virtual CPUs within a second.
const SLICE: Duration = Duration::from_millis(200);
/// Pause between repetitions: a virtual machine that has been idle often gets its CPUs back close to each other.
const PAUSE: Duration = Duration::from_millis(100);
/// Round trips of one measurement of the CPUs' distance.
const ROUNDS: u32 = 4000;
/// Fewest pairs in a comparison.
pub(super) const FEWEST_PAIRS: usize = 10;

/// Runs an experiment with the repetitions and the duration that `options` give.
pub fn run(experiment: &mut Experiment, options: &Options) -> Result<Outcome> {
    let (slice, slices) = cut(options)?;
    let slices = if experiment.is_whole { 1 } else { slices };
    prepared(experiment, |experiment| {
        let mut measured = Vec::new();
        for repetition in 0..options.repeat {
            if repetition > 0 {
                thread::sleep(PAUSE);
            }
            for _ in 0..slices {
                measured.push(measure(experiment, slice)?);
            }
        }
        Ok(Outcome::new(experiment, measured))
    })
}

/// Runs two experiments alternately, one slice of each at a time, for at least ten pairs.
pub fn compare(a: &mut Experiment, b: &mut Experiment, options: &Options) -> Result<Comparison> {
    let (slice, slices) = cut(options)?;
    let slices = if a.is_whole && b.is_whole { 1 } else { slices };
    let pairs = (slices * options.repeat as usize).max(FEWEST_PAIRS);
    prepared(a, |a| {
        prepared(b, |b| {
            let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
            for _ in 0..pairs {
                of_a.push(measure(a, slice)?);
                of_b.push(measure(b, slice)?);
            }
            Ok(Comparison { a: Outcome::new(a, of_a), b: Outcome::new(b, of_b) })
        })
    })
}

/// Runs experiments in rounds, one slice of each per round, for at least `fewest` rounds; if every slice is a whole
/// repetition, for exactly `fewest` rounds or the number that the options give. A rig that is built for each turn does not
/// exist during the turns of others. An experiment that fails returns its error and does not affect the others.
pub fn in_turn(experiments: &mut [Experiment], fewest: usize, options: &Options) -> Vec<Result<Outcome>> {
    let (slice, slices) = match cut(options) {
        Ok(cut) => cut,
        Err(error) => return experiments.iter().map(|_| Err(anyhow::anyhow!("{error:#}"))).collect(),
    };
    let mut all: Vec<Result<Vec<Measured>>> =
        experiments.iter_mut().map(|experiment| begin(experiment).map(|()| Vec::new())).collect();
    let whole = experiments.iter().all(|experiment| experiment.is_whole);
    let rounds = match options.rounds {
        _ if !whole => (slices * options.repeat as usize).max(fewest),
        Some(rounds) => rounds as usize,
        None => fewest,
    };
    for _ in 0..rounds {
        for (experiment, so_far) in experiments.iter_mut().zip(&mut all) {
            let Ok(measured) = so_far else { continue };
            match turn(experiment, slice) {
                Ok(one) => measured.push(one),
                Err(error) => *so_far = Err(error),
            }
        }
    }
    let ends = experiments.iter_mut().zip(all);
    ends.map(|(experiment, measured)| {
        let finished = experiment.finish();
        let outcome = Outcome::new(experiment, measured?);
        finished.map(|()| outcome)
    })
    .collect()
}

/// Builds the rig before the first round, unless it is built for each turn.
fn begin(experiment: &mut Experiment) -> Result<()> {
    if experiment.rebuilt_per_slice { Ok(()) } else { ready(experiment) }
}

/// Runs one slice, with the standing rig or with one built for this slice.
fn turn(experiment: &mut Experiment, slice: Duration) -> Result<Measured> {
    if experiment.rebuilt_per_slice {
        return prepared(experiment, |experiment| measure(experiment, slice));
    }
    measure(experiment, slice)
}

/// Returns length and number of the slices of one repetition.
fn cut(options: &Options) -> Result<(Duration, usize)> {
    let seconds = options.seconds;
    ensure!((0.001..=86_400.0).contains(&seconds), "seconds must be 0.001 to 86400, not {seconds}");
    ensure!((1..=10_000).contains(&options.repeat), "repeat must be 1 to 10000, not {}", options.repeat);
    let slices = (seconds / SLICE.as_secs_f64()).ceil().max(1.0);
    Ok((Duration::from_secs_f64(seconds / slices), slices as usize))
}

/// Prepares an experiment, runs `body`, and tears the rig down even if `body` failed.
fn prepared<T>(experiment: &mut Experiment, body: impl FnOnce(&mut Experiment) -> Result<T>) -> Result<T> {
    ready(experiment)?;
    let result = body(experiment);
    let finished = experiment.finish();
    let value = result?;
    finished?;
    Ok(value)
}

fn ready(experiment: &mut Experiment) -> Result<()> {
    experiment.prepare().with_context(|| format!("cannot prepare {}/{}", experiment.id, experiment.case))
}

fn measure(experiment: &mut Experiment, slice: Duration) -> Result<Measured> {
    let before = distance(experiment);
    let sample = experiment.run_slice(slice)?;
    Ok(Measured { sample, c2c_ns: [before, distance(experiment)] })
}

fn distance(experiment: &Experiment) -> f64 {
    experiment.cpus.map_or(f64::NAN, |(a, b)| c2c::round_trip_ns(a, b, ROUNDS))
}
