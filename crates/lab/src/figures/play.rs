//! Runs the cells of a figure.

use std::io::Write;

use anyhow::{Context, Result, bail};
use host::cores;

use super::cell::{ratio_of, scaled};
use super::file::Run;
use super::table::mbps;
use super::together::AlternatingRuns;
use super::{Cell, CellResult, Column, Figure, Row};
use crate::experiment::{Experiment, Options, Outcome, run};
use crate::experiments::{Case, find};
use crate::stats::Summary;

/// Reason given for most empty cells.
const UNPUBLISHED: &str = "nothing was published, and nothing is asked";

/// Results of a figure: its cells by row and column.
#[derive(Clone, Debug, Default)]
pub struct FigureResults {
    /// Rows of cells.
    pub cells: Vec<Vec<Cell>>,
}

impl FigureResults {
    /// Returns the cell with these names.
    pub fn cell(&self, figure: &Figure, row: &str, column: &str) -> Option<&Cell> {
        self.cells.get(figure.row(row)?)?.get(figure.column(column)?)
    }
}

/// Measures every cell that can be measured, and prints the RESULT line of each to `out`. A cell that cannot be measured
/// records the reason; only an error of `out` aborts.
///
/// # Errors
/// `out` cannot be written.
pub fn play(figure: &Figure, options: &Options, out: &mut dyn Write) -> Result<FigureResults> {
    let mut played = FigureResults::default();
    // Alternate all cases, or measure each cell by itself.
    let together = (figure.rounds > 0).then(|| AlternatingRuns::run(figure, options));
    for row in &figure.rows {
        let mut cells = Vec::new();
        for (column, published) in figure.columns.iter().zip(&row.published) {
            let number = published.number();
            let wanted = number.is_some() || row.run_unpublished;
            let (found, rounds) = if column.of.is_some() {
                (CellResult::NotRun("not worked out yet".to_owned()), Vec::new())
            } else {
                measure((figure, row, column), options, wanted, together.as_ref())
            };
            // A case that ran once is printed once in its row, and so is the reason why it did not run.
            let is_known = cells.iter().any(|cell: &Cell| is_same(&cell.found, &found));
            if together.is_none() || !is_known {
                tell(figure, row, column, &found, out)?;
            }
            cells.push(Cell { published: published.shown(), number, found, rounds });
        }
        work_out(figure, row, &mut cells);
        played.cells.push(cells);
    }
    Ok(played)
}

/// Returns true if two cells have the same case, or are empty for the same reason.
fn is_same(one: &CellResult, other: &CellResult) -> bool {
    match (one, other) {
        (CellResult::NotRun(why), CellResult::NotRun(other)) => why == other,
        (CellResult::Played(_, one), CellResult::Played(_, other)) => {
            (one.id, &one.case) == (other.id, &other.case)
        }
        _ => false,
    }
}

fn tell(figure: &Figure, row: &Row, column: &Column, found: &CellResult, out: &mut dyn Write) -> Result<()> {
    match found {
        CellResult::Played(_, outcome) => {
            writeln!(out, "{}", outcome.result_line()).context("cannot print a result")
        }
        CellResult::NotRun(why) if column.of.is_none() && why != UNPUBLISHED => {
            writeln!(out, "NOT-RUN {} {} | {}: {why}", figure.id, row.name, column.name)
                .context("cannot print a result")
        }
        _ => Ok(()),
    }
}

/// Measures one cell, unless all cases ran together. Errors become the cell's result.
fn measure(
    (figure, row, column): (&Figure, &Row, &Column),
    options: &Options,
    wanted: bool,
    together: Option<&AlternatingRuns>,
) -> (CellResult, Vec<f64>) {
    let empty = |why: String| (CellResult::NotRun(why), Vec::new());
    if let Some(why) = &row.not_run {
        return empty(why.clone());
    }
    let Some(how) = column.run(row.plays.as_ref()).filter(|_| wanted) else {
        return empty(UNPUBLISHED.to_owned());
    };
    let outcome = chosen(figure, row, how, options).and_then(|options| played(how, &options, together));
    let rounds = |values| if together.is_some() { values } else { Vec::new() };
    match outcome.and_then(|outcome| taken(how, column, outcome)) {
        Ok((found, values)) => (found, rounds(values)),
        Err(error) => empty(format!("{error:#}")),
    }
}

/// Returns the options that a cell is measured with.
pub(super) fn chosen(figure: &Figure, row: &Row, how: &Run, options: &Options) -> Result<Options> {
    let setting = [&figure.setting, &how.with, &row.setting];
    let chosen = setting.iter().try_fold(options.clone(), |options, setting| setting.change(&options))?;
    chosen.check()?;
    Ok(chosen)
}

/// Creates the experiment of a cell.
pub(super) fn experiment(how: &Run, options: &Options) -> Result<Experiment> {
    let listed = find(&how.run).with_context(|| format!("there is no experiment `{}`", how.run))?;
    cores::pin(options.cpu(0)?)?;
    let mut cases = (listed.cases)(options)?;
    cases.retain(|case| match (case, &how.case) {
        (Case::Alone(experiment), Some(end)) => experiment.case.ends_with(end.as_str()),
        _ => true,
    });
    let several = cases.len();
    let Some(Case::Alone(experiment)) = cases.pop().filter(|_| several == 1) else {
        bail!("{} has {several} cases to choose from here", how.run);
    };
    Ok(experiment)
}

/// Runs the case of an experiment, or returns its outcome if all ran together.
fn played(how: &Run, options: &Options, together: Option<&AlternatingRuns>) -> Result<Outcome> {
    let mut experiment = experiment(how, options)?;
    match together {
        None => run(&mut experiment, options),
        Some(together) => together.outcome(&experiment),
    }
}

/// Extracts the samples of a cell in its column's unit.
fn taken(how: &Run, column: &Column, outcome: Outcome) -> Result<(CellResult, Vec<f64>)> {
    let values = match &how.take {
        None => {
            let factor = factor(outcome.unit, &column.unit)?;
            outcome.values().iter().map(|value| value * factor).collect()
        }
        Some(name) => match name.strip_prefix("best:") {
            Some(prefix) => best(&outcome, prefix),
            None => outcome.series(name),
        },
    };
    let values: Vec<f64> = values;
    let summary = Summary::of(&values);
    let nothing = || format!("{} tells no {}", how.run, how.take.as_deref().unwrap_or("figure"));
    let summary = summary.with_context(nothing)?;
    Ok((CellResult::Played(summary, Box::new(outcome)), values))
}

/// Returns the series, among the additional figures whose names begin with `prefix`, with the highest median. Taking the
/// best of each sample would be biased upwards by chance.
fn best(outcome: &Outcome, prefix: &str) -> Vec<f64> {
    let medians = outcome.more().into_iter().filter(|(name, _)| name.starts_with(prefix));
    let best = medians.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(Vec::new, |(name, _)| outcome.series(name))
}

/// Factor from an experiment's unit to a column's.
///
/// # Errors
/// Nothing is known of these two.
pub(super) fn factor(from: &str, to: &str) -> Result<f64> {
    match (from, to) {
        ("mpps", "Kpps") => Ok(1e3),
        _ if from.eq_ignore_ascii_case(to) => Ok(1.0),
        _ => bail!("a column in {to} cannot show {from}"),
    }
}

/// Computes the cells that depend on others of their row, round by round if the cases alternated.
fn work_out(figure: &Figure, row: &Row, cells: &mut [Cell]) {
    for (at, column) in figure.columns.iter().enumerate() {
        let Some(of) = column.of.as_ref().and_then(|of| figure.column(of)).and_then(|of| cells.get(of))
        else {
            continue;
        };
        let over = column.over.as_ref().and_then(|over| cells.get(figure.column(over)?));
        let found = match (&column.over, over) {
            (None, _) => column.payload.or(row.payload).and_then(|payload| multiplied(of, mbps(payload))),
            (Some(_), over) => over.and_then(|over| divided(of, over)),
        };
        let empty = || (CellResult::NotRun(of.why().to_owned()), Vec::new());
        let (found, rounds) =
            found.map_or_else(empty, |(summary, rounds)| (CellResult::WorkedOut(summary), rounds));
        if let Some(cell) = cells.get_mut(at) {
            (cell.found, cell.rounds) = (found, rounds);
        }
    }
}

/// Multiplies all samples of a cell.
fn multiplied(cell: &Cell, factor: f64) -> Option<(Summary, Vec<f64>)> {
    let rounds = cell.rounds.iter().map(|value| value * factor).collect();
    Some((scaled(cell.summary()?, factor), rounds))
}

/// Computes the ratio of two cells.
fn divided(cell: &Cell, by: &Cell) -> Option<(Summary, Vec<f64>)> {
    let pairs = cell.rounds.iter().zip(&by.rounds);
    let rounds =
        if cell.rounds.len() == by.rounds.len() { pairs.map(|(a, b)| a / b).collect() } else { Vec::new() };
    Some((ratio_of(cell, by)?, rounds))
}
