//! One cell of a figure: published value and measured result.

use crate::experiment::Outcome;
use crate::stats::{self, Summary};

/// Result of a cell.
#[derive(Clone, Debug)]
pub enum CellResult {
    /// The cell was measured: samples in the column's unit, and the full outcome.
    Played(Summary, Box<Outcome>),
    /// The cell was computed from others.
    WorkedOut(Summary),
    /// The cell was not measured, for this reason.
    NotRun(String),
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// As printed in the paper.
    pub published: String,
    /// Numeric value of that; none if nothing was published.
    pub number: Option<f64>,
    /// Our result.
    pub found: CellResult,
    /// Samples in the column's unit, round by round, where cases ran in turn.
    pub rounds: Vec<f64>,
}

impl Cell {
    /// Our samples, if there are any.
    pub fn summary(&self) -> Option<Summary> {
        match &self.found {
            CellResult::Played(summary, _) | CellResult::WorkedOut(summary) => Some(*summary),
            CellResult::NotRun(_) => None,
        }
    }

    /// Reason why there are none.
    pub fn why(&self) -> &str {
        match &self.found {
            CellResult::NotRun(why) => why,
            CellResult::Played(..) | CellResult::WorkedOut(_) => "",
        }
    }
}

/// Ratio of two cells, round by round if their cases alternated.
pub(super) fn ratio_of(first: &Cell, second: &Cell) -> Option<Summary> {
    if first.rounds.is_empty() || first.rounds.len() != second.rounds.len() {
        return ratio(first.summary()?, second.summary()?);
    }
    let pairs: Vec<_> = first.rounds.iter().copied().zip(second.rounds.iter().copied()).collect();
    stats::ratio(&pairs)
}

/// A summary with all its values multiplied.
pub(super) fn scaled(summary: Summary, factor: f64) -> Summary {
    Summary {
        n: summary.n,
        median: summary.median * factor,
        min: summary.min * factor,
        max: summary.max * factor,
        mean: summary.mean * factor,
        ci95: summary.ci95.map(|(low, high)| (low * factor, high * factor)),
    }
}

/// Ratio of two cells whose cases did not alternate: the widest interval that both intervals allow.
fn ratio(first: Summary, second: Summary) -> Option<Summary> {
    let over = |a: f64, b: f64| (a >= 0.0 && b > 0.0).then(|| a / b);
    let at_most = |a: f64, b: f64| over(a, b).unwrap_or(f64::INFINITY);
    let interval = || {
        let ((low_a, high_a), (low_b, high_b)) = (first.ci95?, second.ci95?);
        Some((over(low_a, high_b)?, at_most(high_a, low_b)))
    };
    Some(Summary {
        n: first.n.min(second.n),
        median: over(first.median, second.median)?,
        min: over(first.min, second.max)?,
        max: at_most(first.max, second.min),
        mean: over(first.mean, second.mean)?,
        ci95: interval(),
    })
}
