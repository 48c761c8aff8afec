//! RESULT lines: parsing, and tables.

use std::fmt::Write as _;

use measure::result_line::ResultLine;
use measure::stats::{self, Summary};

/// Result of a measurement.
pub(crate) type Sample = ResultLine;

/// Key of the round of a bench in which a result was measured.
pub(crate) const ROUND: &str = "round";

/// Placement of the two cores while a sample was taken, by the round trip of a cache line between them.
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

/// Parses a line; `None` if it is no RESULT line, lacks one of the six keys, or has a value that is no
/// number.
pub(crate) fn parse(line: &str) -> Option<Sample> {
    ResultLine::parse(line).filter(|told| [told.median, told.min, told.max].into_iter().all(f64::is_finite))
}

/// Formats a Markdown table with a row for each name, unit and placement, in the order in which the names
/// first appeared.
///
/// The median is the median of the rounds' medians, with its interval from six rounds on; the range is over everything measured. The
/// round trip of a cache line between the cores is the median of the rounds.
pub(crate) fn table(samples: &[Sample]) -> String {
    let mut rows: Vec<(&str, &str, Placement, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        let place = Placement::of(sample.figure("c2c_ns"));
        match rows
            .iter_mut()
            .find(|(name, unit, at, _)| (*name, *unit, *at) == (&sample.name, &sample.unit, place))
        {
            Some((.., group)) => group.push(sample),
            None => rows.push((&sample.name, &sample.unit, place, vec![sample])),
        }
    }
    let mut text = String::from("| what | cores | c2c ns | median | 95 % interval | range | unit | n |\n");
    text.push_str("|---|---|---:|---:|---|---|---|---:|\n");
    for (name, unit, place, group) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {} | {} |", place.shown(), figures(unit, &group));
    }
    text
}

/// Formats the figures of a row: those of all rounds of one case at one placement.
fn figures(unit: &str, rounds: &[&Sample]) -> String {
    let nothing = || "-".to_owned();
    let range = |(low, high): (f64, f64)| format!("{}..{}", shown(low), shown(high));
    let c2c: Vec<f64> = rounds.iter().filter_map(|round| round.figure("c2c_ns")).collect();
    let c2c = stats::median(&c2c).map_or_else(nothing, shown);
    let medians = Summary::of(&rounds.iter().map(|round| round.median).collect::<Vec<_>>());
    let median = medians.map_or_else(nothing, |medians| shown(medians.median));
    let interval = medians.and_then(|medians| medians.ci95).map_or_else(nothing, range);
    let min = rounds.iter().map(|round| round.min).fold(f64::INFINITY, f64::min);
    let max = rounds.iter().map(|round| round.max).fold(f64::NEG_INFINITY, f64::max);
    let n: usize = rounds.iter().map(|round| round.n).sum();
    format!("{c2c} | {median} | {interval} | {} | {unit} | {n}", range((min, max)))
}

/// Formats a value with about three significant digits.
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
