//! RESULT lines: reading them, and the table they make.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One line `RESULT name=… unit=… median=… min=… max=… n=…`; other keys may follow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    name: String,
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    n: u64,
    c2c_ns: Option<f64>,
    /// All that the line tells in numbers, by key.
    figures: BTreeMap<String, f64>,
}

impl Sample {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    pub(crate) fn median(&self) -> f64 {
        self.median
    }

    /// What the line tells under this key.
    pub(crate) fn figure(&self, key: &str) -> Option<f64> {
        self.figures.get(key).copied()
    }

    pub(crate) fn c2c_ns(&self) -> Option<f64> {
        self.c2c_ns
    }
}

/// Where the two cores were while a sample was taken, by the round trip of a cache line between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Placement {
    Near,
    Between,
    Far,
    Unknown,
}

impl Placement {
    pub(crate) fn of(c2c_ns: Option<f64>) -> Self {
        match c2c_ns {
            Some(ns) if ns < 220.0 => Self::Near,
            Some(ns) if ns < 350.0 => Self::Between,
            Some(_) => Self::Far,
            None => Self::Unknown,
        }
    }

    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Between => "between",
            Self::Far => "far",
            Self::Unknown => "not told",
        }
    }
}

/// Reads a line; `None` if it is no RESULT line or lacks one of the six keys.
pub(crate) fn parse(line: &str) -> Option<Sample> {
    let words = line.trim().strip_prefix("RESULT ")?.split_whitespace();
    let pairs: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let number = |key: &str| pairs.get(key)?.parse::<f64>().ok().filter(|n| n.is_finite());
    Some(Sample {
        name: (*pairs.get("name")?).to_owned(),
        unit: (*pairs.get("unit")?).to_owned(),
        median: number("median")?,
        min: number("min")?,
        max: number("max")?,
        n: pairs.get("n")?.parse().ok()?,
        c2c_ns: number("c2c_ns"),
        figures: pairs.keys().filter_map(|key| Some(((*key).to_owned(), number(key)?))).collect(),
    })
}

/// A Markdown table, a row for each name, unit and placement, in the order in which the names first came.
///
/// The median is the median of the rounds' medians; the range is over everything measured.
pub(crate) fn table(samples: &[Sample]) -> String {
    let mut rows: Vec<(&str, &str, Placement, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        let place = Placement::of(sample.c2c_ns);
        match rows
            .iter_mut()
            .find(|(name, unit, at, _)| (*name, *unit, *at) == (&sample.name, &sample.unit, place))
        {
            Some((.., group)) => group.push(sample),
            None => rows.push((&sample.name, &sample.unit, place, vec![sample])),
        }
    }
    let mut text =
        String::from("| what | cores | median | range | unit | n |\n|---|---|---:|---|---|---:|\n");
    for (name, unit, place, group) in rows {
        let min = group.iter().map(|s| s.min).fold(f64::INFINITY, f64::min);
        let max = group.iter().map(|s| s.max).fold(f64::NEG_INFINITY, f64::max);
        let n: u64 = group.iter().map(|s| s.n).sum();
        let (mid, min, max) = (shown(median(&group)), shown(min), shown(max));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {} | {mid} | {min}..{max} | {unit} | {n} |", place.shown());
    }
    text
}

fn median(group: &[&Sample]) -> f64 {
    let mut medians: Vec<f64> = group.iter().map(|s| s.median).collect();
    medians.sort_by(f64::total_cmp);
    let upper = medians.len() / 2;
    let lower = (medians.len() - 1) / 2;
    f64::midpoint(medians[lower], medians[upper])
}

/// About three digits that mean something.
fn shown(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
