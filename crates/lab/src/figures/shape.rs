//! Whether a shape holds.

use super::cell::ratio;
use super::{Figure, Played, Shape};
use crate::report::Verdict;

/// Judges one shape by the 95 % intervals of its two cells: it holds if every ratio that they allow keeps the bounds, fails
/// if none does, else nobody knows. The cells did not run in turn, so the interval is a wide one.
pub fn judge(figure: &Figure, shape: &Shape, played: &Played) -> (Verdict, String) {
    let second_column = shape.second_column.as_ref().unwrap_or(&shape.column);
    let cells = [(&shape.first, &shape.column), (&shape.second, second_column)];
    let mut found = Vec::new();
    for (row, column) in cells {
        let Some(cell) = played.cell(figure, row, column) else {
            return (Verdict::NotRun, format!("there is no cell {row} | {column}"));
        };
        match cell.summary() {
            Some(summary) => found.push(summary),
            None => return (Verdict::NotRun, format!("{row} | {column}: {}", cell.why())),
        }
    }
    let [first, second] = found[..] else { return (Verdict::NotRun, "a cell is missing".to_owned()) };
    let Some(ratio) = ratio(first, second) else {
        return (Verdict::NotRun, format!("{} gave nothing to divide by", shape.second));
    };
    let Some(interval) = ratio.ci95 else {
        let few = format!("ratio {:.2}, but fewer than 6 samples have no interval", ratio.median);
        return (Verdict::NotRun, few);
    };
    weigh(ratio.median, interval, (shape.at_least, shape.at_most))
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
    let (least, most) = (at_least.unwrap_or(0.0), at_most.unwrap_or(f64::INFINITY));
    if low >= least && high <= most {
        (Verdict::Holds, found)
    } else if high < least || low > most {
        (Verdict::Fails, found)
    } else {
        (Verdict::NotRun, format!("{found}: the interval neither keeps nor misses it"))
    }
}
