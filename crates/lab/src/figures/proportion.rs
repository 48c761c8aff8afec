//! Judges whether rows lie on a line through the origin, such as a rate proportional to the reserved share.

use super::cell::{Cell, scaled};
use super::file::ProportionalityClaim;
use super::{Figure, FigureResults};
use crate::report::Verdict;
use crate::stats::Summary;
use crate::stats::line::{Proportion, below_knee};

/// Row that was measured.
struct Point<'a> {
    /// Value of the row's parameter (`at`).
    x: f64,
    cell: &'a Cell,
    found: Summary,
}

/// Judges whether rows lie on a line through the origin: the verdict is failure if the line explains too little of the variance, or
/// if the whole 95 % interval of a cell lies off it, and success if all intervals lie on it. Where all rows alternated, each cell
/// is compared with the line of its own round.
pub(super) fn judge_line(
    figure: &Figure,
    line: &ProportionalityClaim,
    played: &FigureResults,
) -> (Verdict, String) {
    let Some(plateau) = played.cell(figure, &line.plateau, &line.column).and_then(Cell::summary) else {
        return (Verdict::NotRun, format!("{} was not run", line.plateau));
    };
    let mut points = points(figure, line, played);
    let medians: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.found.median)).collect();
    let below = below_knee(&medians, plateau.median, line.within);
    let Some(fit) = Proportion::of(&below) else {
        let (few, all) = (below.len(), points.len());
        return (Verdict::NotRun, format!("{few} of {all} points that were run lie below the plateau"));
    };
    points.retain(|point| below.iter().any(|(x, _)| *x == point.x));
    weigh(line, fit.r2, &beside(&points, fit.slope))
}

fn points<'a>(figure: &Figure, line: &ProportionalityClaim, played: &'a FigureResults) -> Vec<Point<'a>> {
    let point = |row: &String| {
        let x = figure.rows.get(figure.row(row)?)?.at?;
        let cell = played.cell(figure, row, &line.column)?;
        Some(Point { x, cell, found: cell.summary()? })
    };
    line.rows.iter().filter_map(point).collect()
}

/// Cells relative to the line's prediction.
fn beside(points: &[Point<'_>], slope: f64) -> Vec<Option<Summary>> {
    let slopes = slopes(points);
    let part = |point: &Point<'_>| match &slopes {
        Some(slopes) => {
            let rounds = point.cell.rounds.iter().zip(slopes);
            Summary::of(&rounds.map(|(rate, slope)| rate / (point.x * slope)).collect::<Vec<_>>())
        }
        None => Some(scaled(point.found, 1.0 / (point.x * slope))),
    };
    points.iter().map(part).collect()
}

/// Slope of each round's own line, if all rows alternated.
fn slopes(points: &[Point<'_>]) -> Option<Vec<f64>> {
    let rounds = points.first()?.cell.rounds.len();
    if rounds == 0 || points.iter().any(|point| point.cell.rounds.len() != rounds) {
        return None;
    }
    let slope = |round: usize| {
        let cells: Vec<_> = points.iter().map(|point| (point.x, point.cell.rounds[round])).collect();
        Some(Proportion::of(&cells)?.slope)
    };
    (0..rounds).map(slope).collect()
}

/// Verdict on cells given relative to the line's prediction.
fn weigh(line: &ProportionalityClaim, r2: f64, cells: &[Option<Summary>]) -> (Verdict, String) {
    let part = |cell: &Option<Summary>| {
        let (median, interval) = cell.and_then(|cell| Some((cell.median, cell.ci95?)))?;
        Some(((median - 1.0).abs(), Verdict::of(interval, (1.0 - line.within, 1.0 + line.within))))
    };
    let Some(told) = cells.iter().map(part).collect::<Option<Vec<_>>>() else {
        return (Verdict::NotRun, "fewer than 6 samples have no interval".to_owned());
    };
    let widest = told.iter().map(|(off, _)| *off).fold(0.0, f64::max);
    let any = |wanted| told.iter().any(|(_, verdict)| *verdict == wanted);
    let (off, unsure) = (any(Verdict::Fails), any(Verdict::NotRun));
    let found = format!(
        "{} points below the plateau, R2 {r2:.4}, at most {:.1} % off, asked {} and {} %",
        cells.len(),
        widest * 100.0,
        line.r2,
        line.within * 100.0
    );
    match (off || r2 < line.r2, unsure) {
        (true, _) => (Verdict::Fails, found),
        (false, true) => (Verdict::NotRun, format!("{found}: the intervals are too wide")),
        (false, false) => (Verdict::Holds, found),
    }
}
