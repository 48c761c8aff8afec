//! RESULT lines: parsing, and tables.

use std::fmt::Write as _;

use measure::result_line::ResultLine;
use measure::stats;

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
/// The median is the median of the rounds' medians; the range is over everything measured.
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
    let mut text =
        String::from("| what | cores | median | range | unit | n |\n|---|---|---:|---|---|---:|\n");
    for (name, unit, place, group) in rows {
        let min = group.iter().map(|s| s.min).fold(f64::INFINITY, f64::min);
        let max = group.iter().map(|s| s.max).fold(f64::NEG_INFINITY, f64::max);
        let n: usize = group.iter().map(|s| s.n).sum();
        let median = stats::median(&group.iter().map(|s| s.median).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let (mid, min, max) = (shown(median), shown(min), shown(max));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {} | {mid} | {min}..{max} | {unit} | {n} |", place.shown());
    }
    text
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
