//! What the slices of an experiment say together.

use std::io::Write;

use anyhow::{Context, Result};

use super::{Experiment, Options, Sample};
use crate::host::Host;
use crate::ledger_snapshot::Snapshot;
use crate::report::{Record, ResultLine, Verdict, append, quadruple};
use crate::stats::{self, Summary};

/// Round trips below this are near (ns).
const NEAR: f64 = 220.0;
/// Round trips in this range are far (ns).
const FAR: std::ops::RangeInclusive<f64> = 350.0..=700.0;
/// Two round trips are alike when they differ by at most this part of the smaller.
const ALIKE: f64 = 0.2;

/// How far apart the CPUs were during a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Before and after under 220 ns.
    Near,
    /// Before and after 350 to 700 ns.
    Far,
    /// Neither, or it changed in between, or nobody knows.
    Between,
}

/// A sample and the CPUs' distance around it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The sample.
    pub sample: Sample,
    /// Cache-line round trip before and after it, ns; not a number where it could not be told.
    pub c2c_ns: [f64; 2],
}

impl Measured {
    /// Where the CPUs were.
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

    /// Whether the CPUs' distance changed by more than 20 % during the sample.
    pub fn moved(&self) -> bool {
        !alike(self.c2c_ns[0], self.c2c_ns[1])
    }

    /// The CPUs' mean distance, ns.
    fn c2c(&self) -> f64 {
        f64::midpoint(self.c2c_ns[0], self.c2c_ns[1])
    }
}

/// Whether two distances are alike. Where both are unknown (there is only one CPU), they are.
fn alike(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= ALIKE * a.min(b)
}

/// All samples of one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Experiment.
    pub id: &'static str,
    /// What was varied.
    pub case: String,
    /// Unit of the samples.
    pub unit: &'static str,
    /// The samples in order.
    pub measured: Vec<Measured>,
}

impl Outcome {
    /// What `experiment` gave.
    pub fn new(experiment: &Experiment, measured: Vec<Measured>) -> Self {
        Self { id: experiment.id, case: experiment.case.clone(), unit: experiment.unit, measured }
    }

    /// The samples in order.
    pub fn values(&self) -> Vec<f64> {
        self.measured.iter().map(|measured| measured.sample.value).collect()
    }

    /// All samples.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.values())
    }

    /// The samples taken at one placement.
    pub fn at(&self, placement: Placement) -> Option<Summary> {
        let there = self.measured.iter().filter(|measured| measured.placement() == placement);
        Summary::of(&there.map(|measured| measured.sample.value).collect::<Vec<_>>())
    }

    /// Median of the CPUs' distances, ns.
    pub fn c2c_ns(&self) -> Option<f64> {
        stats::median(&self.measured.iter().flat_map(|measured| measured.c2c_ns).collect::<Vec<_>>())
    }

    /// Packets lost in all samples.
    pub fn lost(&self) -> u64 {
        self.measured.iter().map(|measured| measured.sample.lost).sum()
    }

    /// Exits for each packet over all samples, where there is a guest and packets came through.
    pub fn exits_per_packet(&self) -> Option<f64> {
        let exits: Option<u64> = self.measured.iter().map(|measured| measured.sample.exits).sum();
        let packets: u64 = self.measured.iter().map(|measured| measured.sample.packets).sum();
        (packets > 0).then_some(exits? as f64 / packets as f64)
    }

    /// Medians of the further figures, by name, in the order in which they first came.
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

    /// One further figure of each sample that has it, in order.
    pub fn series(&self, name: &str) -> Vec<f64> {
        self.measured.iter().filter_map(|measured| measured.sample.more.get(name)).collect()
    }

    /// What the counters of all samples grew by.
    pub fn ledger(&self) -> Snapshot {
        let mut sum = Snapshot::new();
        self.measured.iter().for_each(|measured| sum.add(&measured.sample.ledger));
        sum
    }

    /// The RESULT line.
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

    /// The JSON record.
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

/// Writes the RESULT line to `out`, and the record to the file that `options` name.
pub fn tell(outcome: &Outcome, options: &Options, host: &Host, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", outcome.result_line()).context("cannot print a result")?;
    match &options.json {
        Some(path) => append(path, &outcome.record(host, Verdict::NotRun, "nothing is asked of this case")),
        None => Ok(()),
    }
}

/// Two variants that ran in turn.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first of each pair.
    pub a: Outcome,
    /// The second.
    pub b: Outcome,
}

impl Comparison {
    /// The ratio a / b over the pairs whose CPUs were alike, near or far or in between, with its 95 % interval.
    pub fn ratio(&self) -> Option<Summary> {
        let pairs = self.a.measured.iter().zip(&self.b.measured);
        let alike = pairs.filter(|(a, b)| alike(a.c2c(), b.c2c()) && !a.moved() && !b.moved());
        stats::ratio(&alike.map(|(a, b)| (a.sample.value, b.sample.value)).collect::<Vec<_>>())
    }
}
