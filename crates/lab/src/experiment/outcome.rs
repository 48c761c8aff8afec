//! Evaluation of all slices of an experiment together.

use std::io::Write;

use anyhow::{Context, Result};

use super::{Experiment, Options, Sample};
use crate::host::Host;
use crate::ledger_snapshot::Snapshot;
use crate::report::{Record, ResultLine, Verdict, append, quadruple};
use crate::stats::{self, Summary};

/// Cache-line round trips below this are near (ns).
const NEAR: f64 = 220.0;
/// Cache-line round trips in this range are far (ns).
const FAR: std::ops::RangeInclusive<f64> = 350.0..=700.0;
/// Largest relative difference (in terms of the smaller) of two round trips that count as alike.
const ALIKE: f64 = 0.2;

/// Cache-line distance of the CPUs during a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Less than 220 ns before and after.
    Near,
    /// 350 to 700 ns before and after.
    Far,
    /// Neither near nor far, or changed during the sample, or unknown.
    Between,
}

/// Sample together with the CPUs' distance before and after it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The sample.
    pub sample: Sample,
    /// Cache-line round trip before and after the sample, in ns; NaN where it could not be measured.
    pub c2c_ns: [f64; 2],
}

impl Measured {
    /// Classifies the CPUs' distance.
    pub fn placement(&self) -> Placement {
        let [before, after] = self.c2c_ns;
        if before < NEAR && after < NEAR {
            Placement::Near
        } else if FAR.contains(&before) && FAR.contains(&after) {
            Placement::Far
        } else {
            Placement::Between
        }
    }

    /// Returns true if the CPUs' distance changed by more than 20 % during the sample.
    pub fn moved(&self) -> bool {
        !alike(self.c2c_ns[0], self.c2c_ns[1])
    }

    /// Mean distance of the CPUs, in ns.
    fn c2c(&self) -> f64 {
        f64::midpoint(self.c2c_ns[0], self.c2c_ns[1])
    }
}

/// Returns true if two distances are alike; two unknown ones (a single CPU) are.
fn alike(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= ALIKE * a.min(b)
}

/// All samples of one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Experiment.
    pub id: &'static str,
    /// Parameters of the case, without spaces.
    pub case: String,
    /// Unit of the samples.
    pub unit: &'static str,
    /// The samples in order.
    pub measured: Vec<Measured>,
}

impl Outcome {
    /// Collects the samples of `experiment`.
    pub fn new(experiment: &Experiment, measured: Vec<Measured>) -> Self {
        Self { id: experiment.id, case: experiment.case.clone(), unit: experiment.unit, measured }
    }

    /// Returns the values of all samples, in order.
    pub fn values(&self) -> Vec<f64> {
        self.measured.iter().map(|measured| measured.sample.value).collect()
    }

    /// Summarises all samples.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.values())
    }

    /// Summarises the samples taken at one placement.
    pub fn at(&self, placement: Placement) -> Option<Summary> {
        let there = self.measured.iter().filter(|measured| measured.placement() == placement);
        Summary::of(&there.map(|measured| measured.sample.value).collect::<Vec<_>>())
    }

    /// Median of all measured CPU distances, in ns.
    pub fn c2c_ns(&self) -> Option<f64> {
        stats::median(&self.measured.iter().flat_map(|measured| measured.c2c_ns).collect::<Vec<_>>())
    }

    /// Packets lost in all samples.
    pub fn lost(&self) -> u64 {
        self.measured.iter().map(|measured| measured.sample.lost).sum()
    }

    /// VM exits per packet over all samples, if there is a guest and packets arrived.
    pub fn exits_per_packet(&self) -> Option<f64> {
        let exits: Option<u64> = self.measured.iter().map(|measured| measured.sample.exits).sum();
        let packets: u64 = self.measured.iter().map(|measured| measured.sample.packets).sum();
        (packets > 0).then_some(exits? as f64 / packets as f64)
    }

    /// Medians of the additional figures, by name, in order of first appearance.
    pub fn more(&self) -> Vec<(&str, f64)> {
        let mut columns: Vec<(&str, Vec<f64>)> = Vec::new();
        for (name, value) in self.measured.iter().flat_map(|measured| measured.sample.more.iter()) {
            match columns.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => columns.push((name, vec![value])),
            }
        }
        columns.into_iter().filter_map(|(name, values)| Some((name, stats::median(&values)?))).collect()
    }

    /// Values of one additional figure in each sample that has it, in order.
    pub fn series(&self, name: &str) -> Vec<f64> {
        self.measured.iter().filter_map(|measured| measured.sample.more.get(name)).collect()
    }

    /// Sum of the counters' increases over all samples.
    pub fn ledger(&self) -> Snapshot {
        let mut sum = Snapshot::new();
        self.measured.iter().for_each(|measured| sum.add(&measured.sample.ledger));
        sum
    }

    /// Formats the RESULT line.
    pub fn result_line(&self) -> ResultLine {
        let mut line = ResultLine::new(&format!("{}/{}", self.id, self.case), self.unit, self.summary())
            .with("lost", self.lost())
            .with_number("exits_per_packet", self.exits_per_packet())
            .with_number("c2c_ns", self.c2c_ns());
        for (name, placement) in [("near", Placement::Near), ("far", Placement::Far)] {
            if let Some(summary) = self.at(placement) {
                line = line
                    .with_number(&format!("{name}_median"), Some(summary.median))
                    .with(&format!("{name}_n"), summary.n);
            }
        }
        let moved = self.measured.iter().filter(|measured| measured.moved()).count();
        if moved > 0 {
            line = line.with("moved", moved);
        }
        self.more().into_iter().fold(line, |line, (name, value)| line.with_number(name, Some(value)))
    }

    /// Builds the JSON record.
    pub fn record(&self, host: &Host, verdict: Verdict, why: &str) -> Record {
        let summary = self.summary();
        let named = |(name, value): (&str, f64)| (name.to_owned(), value);
        Record {
            samples: self.values(),
            median: summary.map(|summary| summary.median),
            ci95: summary.and_then(|summary| summary.ci95),
            c2c_ns: self.measured.iter().map(|measured| measured.c2c_ns).collect(),
            near: self.at(Placement::Near).map(quadruple),
            far: self.at(Placement::Far).map(quadruple),
            more: self.more().into_iter().map(named).collect(),
            ledger: self.ledger(),
            verdict,
            why: why.to_owned(),
            ..Record::blank(self.id, self.case.clone(), self.unit, host)
        }
    }
}

/// Writes the RESULT line to `out`, and appends the record to the JSON file of `options`, if one is named.
pub fn report(outcome: &Outcome, options: &Options, host: &Host, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", outcome.result_line()).context("cannot print a result")?;
    match &options.json {
        Some(path) => append(path, &outcome.record(host, Verdict::NotRun, "nothing is asked of this case")),
        None => Ok(()),
    }
}

/// Outcomes of two variants measured alternately.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// First variant of each pair.
    pub a: Outcome,
    /// Second variant of each pair.
    pub b: Outcome,
}

impl Comparison {
    /// Ratio a / b, with its 95 % confidence interval, over the pairs in which both variants had the CPUs at
    /// the same distance (near, far or in between).
    pub fn ratio(&self) -> Option<Summary> {
        let pairs = self.a.measured.iter().zip(&self.b.measured);
        let alike = pairs.filter(|(a, b)| alike(a.c2c(), b.c2c()) && !a.moved() && !b.moved());
        stats::ratio(&alike.map(|(a, b)| (a.sample.value, b.sample.value)).collect::<Vec<_>>())
    }
}
