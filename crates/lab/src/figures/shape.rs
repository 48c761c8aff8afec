//! Judges the shapes that a figure claims.

use super::cell::{Cell, ratio_of};
use super::file::{Contradiction, Hosts};
use super::proportion::judge_line;
use super::{Figure, FigureResults, Shape};
use crate::report::Verdict;
use crate::stats::{Summary, spread_ratio};

/// Largest relative distance of the lower bound of the second cell's interval from its median; a wider one proves nothing about being
/// below.
const WIDEST: f64 = 0.15;

/// Result of judging one claim.
#[derive(Clone, Debug)]
pub struct ClaimResult<'a> {
    /// Text of the claim.
    pub claim: &'a str,
    /// Column of the claim.
    pub column: &'a str,
    /// Verdict.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub why: String,
}

/// Judges all claims of a figure.
pub fn judge_all<'a>(figure: &'a Figure, played: &FigureResults) -> Vec<ClaimResult<'a>> {
    let shapes = figure
        .shapes
        .iter()
        .map(|shape| (&shape.claim, &shape.column, &shape.contradicts, judge(figure, shape, played)));
    let lines = figure
        .lines
        .iter()
        .map(|line| (&line.claim, &line.column, &line.contradicts, judge_line(figure, line, played)));
    shapes
        .chain(lines)
        .map(|(claim, column, contradicts, found)| {
            let (verdict, why) = beside_the_paper(figure, contradicts.as_ref(), played, found);
            ClaimResult { claim, column, verdict, why }
        })
        .collect()
}

/// Adjusts a verdict for claims that the figure's file declares contradicted: such a claim contradicts the paper as long as it fails.
/// If it holds after all, the declaration is wrong, which is a failure.
fn beside_the_paper(
    figure: &Figure,
    contradicts: Option<&Contradiction>,
    played: &FigureResults,
    (verdict, why): (Verdict, String),
) -> (Verdict, String) {
    let Some(Contradiction { because, only }) = contradicts else { return (verdict, why) };
    let median = |hosts: &Hosts| Some(played.cell(figure, &hosts.row, &hosts.column)?.summary()?.median);
    let is_here = match only {
        None => Some(true),
        Some(hosts) => median(hosts).map(|median| median <= hosts.at_most),
    };
    match (is_here, verdict) {
        (Some(true), Verdict::Fails) => (Verdict::Contradicts, format!("{why}: {because}")),
        (Some(true), Verdict::Holds) => {
            (Verdict::Fails, format!("{why}: it holds, where the figure states a contradiction to the paper"))
        }
        (None, _) => {
            (Verdict::NotRun, format!("{why}: nothing tells whether this is a host on which it holds"))
        }
        (_, verdict) => (verdict, why),
    }
}

/// Judges one shape by the 95 % intervals of its two cells: it holds if every ratio that they allow is within the bounds, fails if
/// none is, and is undecided otherwise. If the cells' cases did not alternate, the interval is the widest that both allow. A shape of
/// the other kind (`not_below`) holds or fails, unless the intervals are too wide.
pub fn judge(figure: &Figure, shape: &Shape, played: &FigureResults) -> (Verdict, String) {
    let second_column = shape.second_column.as_ref().unwrap_or(&shape.column);
    let cells = [(&shape.first, &shape.column), (&shape.second, second_column)];
    let mut found = Vec::new();
    for (row, column) in cells {
        let Some(cell) = played.cell(figure, row, column) else {
            return (Verdict::NotRun, format!("there is no cell {row} | {column}"));
        };
        match cell.summary() {
            Some(summary) => found.push((cell, summary)),
            None => return (Verdict::NotRun, format!("{row} | {column}: {}", cell.why())),
        }
    }
    let [(first, of_first), (second, of_second)] = found[..] else {
        return (Verdict::NotRun, "a cell is missing".to_owned());
    };
    match (shape.not_below, shape.spread_at_most) {
        (Some(part), _) => compare(of_first, of_second, part),
        (None, Some(most)) => steadier(first, second, most),
        (None, None) => bounded(shape, first, second),
    }
}

/// Judges whether the rounds of the first cell spread less than those of the second.
fn steadier(first: &Cell, second: &Cell, most: f64) -> (Verdict, String) {
    let Some((ratio, interval)) = spread_ratio(&first.rounds, &second.rounds) else {
        return (
            Verdict::NotRun,
            "fewer than 6 rounds, or rounds that are all alike, tell no spread".to_owned(),
        );
    };
    weigh(ratio, interval, (None, Some(most)))
}

fn bounded(shape: &Shape, first: &Cell, second: &Cell) -> (Verdict, String) {
    let Some(ratio) = ratio_of(first, second) else {
        return (Verdict::NotRun, format!("{} gave nothing to divide by", shape.second));
    };
    let Some(interval) = ratio.ci95 else {
        let few = format!("ratio {:.2}, but fewer than 6 samples have no interval", ratio.median);
        return (Verdict::NotRun, few);
    };
    weigh(ratio.median, interval, (shape.at_least, shape.at_most))
}

/// Judges whether the first is not below the second, by the medians and the second's interval; where that is too wide, by both
/// intervals.
fn compare(first: Summary, second: Summary, part: f64) -> (Verdict, String) {
    let Some((low, high)) = second.ci95 else {
        return (Verdict::NotRun, "fewer than 6 samples have no interval".to_owned());
    };
    let (a, b) = (first.median, second.median);
    let found = format!("{a:.1} beside {b:.1} [{low:.1}, {high:.1}], asked not below that or {part} less");
    // Even beside a wide interval a cell is below if its own ends before that begins.
    let is_disjoint = first.ci95.is_some_and(|(_, highest)| highest < low);
    if a >= b * (1.0 - part) {
        (Verdict::Holds, found)
    } else if low < b * (1.0 - WIDEST) && !is_disjoint {
        (Verdict::NotRun, format!("{found}: the interval is too wide"))
    } else if a >= low {
        (Verdict::Holds, found)
    } else {
        (Verdict::Fails, found)
    }
}

fn weigh(
    median: f64,
    (low, high): (f64, f64),
    (at_least, at_most): (Option<f64>, Option<f64>),
) -> (Verdict, String) {
    let asked = match (at_least, at_most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => "anything".to_owned(),
    };
    let found = format!("ratio {median:.2} [{low:.2}, {high:.2}], asked {asked}");
    match Verdict::of((low, high), (at_least.unwrap_or(0.0), at_most.unwrap_or(f64::INFINITY))) {
        Verdict::NotRun => (Verdict::NotRun, format!("{found}: the interval neither keeps nor misses it")),
        told => (told, found),
    }
}
