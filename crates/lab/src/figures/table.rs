//! Tables of our results beside the published ones.

use std::fmt::Write;

use super::cell::ratio_of;
use super::headline::headline;
use super::{Cell, CellResult, Figure, FigureResults};
use crate::stats::{self, Summary};

/// Relative deviation above which a published value that follows from another one counts as a slip: the papers round to two or three digits, and
/// their values are consistent within 4 %.
const SLIP: f64 = 0.06;

/// Formats a Markdown table: in each cell our value, then the paper's in brackets. Below it stand the players' roles, the reasons for empty
/// cells, notes and slips.
pub fn table(figure: &Figure, played: &FigureResults) -> String {
    let mut text = format!("\n{}: {}\n\n", figure.id, figure.title);
    if let Some(missing) = &figure.missing {
        text.push_str(missing);
        text.push('\n');
        return text;
    }
    if figure.draws.is_some() {
        for line in figure.players.iter().chain(&figure.notes) {
            let _ = writeln!(text, "* {line}");
        }
        return text;
    }
    text.push_str("Ours (the paper's).\n\n|");
    for column in &figure.columns {
        let unit = if column.unit == column.name { "" } else { &column.unit };
        let _ = write!(text, " | {}", format!("{} {unit}", column.name).trim_end());
    }
    text.push_str(" |\n|---");
    text.push_str(&"|---:".repeat(figure.columns.len()));
    text.push_str("|\n");
    for (row, cells) in figure.rows.iter().zip(&played.cells) {
        let _ = write!(text, "| {}", row.name);
        for cell in cells {
            let ours = cell.summary().map_or_else(|| "-".to_owned(), |summary| three_digits(summary.median));
            let _ = write!(text, " | {ours} ({})", cell.published);
        }
        text.push_str(" |\n");
    }
    text.push('\n');
    if figure.rounds > 0 {
        text.push_str(&super::chart(figure, played));
        text.push_str(&details(figure, played));
    }
    let more = slips(figure).into_iter().chain(headline(figure, played)).chain(reasons(played));
    for line in figure.players.iter().chain(&figure.notes).cloned().chain(more) {
        let _ = writeln!(text, "* {line}");
    }
    text
}

/// Details where cases alternated: each cell's median with its 95 % interval, least and greatest sample, number of samples, mean with its 99 %
/// interval, distance of the CPUs, and, if there is a row that others are compared with, the ratio to that, round by round.
fn details(figure: &Figure, played: &FigureResults) -> String {
    let beside =
        figure.baseline_row.as_ref().and_then(|name| Some((name, played.cells.get(figure.row(name)?)?)));
    let beside = beside.filter(|(_, cells)| cells.iter().any(|cell| cell.summary().is_some()));
    let mut text = "| in turn | median [95 %] | min..max, n | mean ± 99 % | c2c ns |".to_owned();
    if let Some((name, _)) = beside {
        let _ = write!(text, " ratio to {name} [95 %] |");
    }
    text.push_str("\n|---|---:|---:|---:|---:|");
    text.push_str(if beside.is_some() { "---:|\n" } else { "\n" });
    for (row, cells) in figure.rows.iter().zip(&played.cells) {
        for (at, (cell, column)) in cells.iter().zip(&figure.columns).enumerate() {
            let CellResult::Played(found, outcome) = &cell.found else { continue };
            let _ = write!(
                text,
                "| {}, {} | {} | {}..{}, {} | {} | {} |",
                row.name,
                column.name,
                with_interval(found),
                three_digits(found.min),
                three_digits(found.max),
                found.n,
                mean(cell),
                three_digits(outcome.c2c_ns().unwrap_or(0.0)),
            );
            if let Some((_, cells)) = beside {
                let _ = write!(text, " {} |", cells.get(at).map_or_else(String::new, |of| times(cell, of)));
            }
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

/// Formats a median with its 95 % interval, if it has one.
fn with_interval(found: &Summary) -> String {
    let interval = found.ci95.map(|(low, high)| format!(" [{}, {}]", three_digits(low), three_digits(high)));
    format!("{}{}", three_digits(found.median), interval.unwrap_or_default())
}

/// Formats the mean of a cell's rounds and half of its 99 % interval.
fn mean(cell: &Cell) -> String {
    let found = stats::mean99(&cell.rounds);
    found.map_or_else(
        || "-".to_owned(),
        |(mean, half)| format!("{} ± {}", three_digits(mean), three_digits(half)),
    )
}

/// Formats the ratio of two cells with its interval.
fn times(cell: &Cell, of: &Cell) -> String {
    match ratio_of(cell, of).map(|ratio| (ratio.median, ratio.ci95)) {
        Some((median, Some((low, high)))) => format!("{median:.2} [{low:.2}, {high:.2}]"),
        Some((median, None)) => format!("{median:.2}"),
        None => "-".to_owned(),
    }
}

/// Lists the published figures that are not consistent with each other.
pub fn slips(figure: &Figure) -> Vec<String> {
    let mut slips = Vec::new();
    for (at, column) in figure.columns.iter().enumerate() {
        let Some(of) = column.of.as_ref().and_then(|of| figure.column(of)) else { continue };
        for row in &figure.rows {
            let published = |at: usize| row.published.get(at)?.number();
            let divisor = column.over.as_ref().and_then(|over| figure.column(over)).map(published);
            let factor = match divisor {
                Some(divisor) => divisor.map(|divisor| 1.0 / divisor),
                None => column.payload.or(row.payload).map(mbps),
            };
            let (Some(source), Some(factor), Some(printed)) = (published(of), factor, published(at)) else {
                continue;
            };
            let right = source * factor;
            if (printed / right - 1.0).abs() > SLIP {
                slips.push(format!(
                    "a slip in the paper: {} | {} says {}, but {} {} make {}",
                    row.name,
                    column.name,
                    row.published[at].shown(),
                    source,
                    figure.columns[of].unit,
                    three_digits(right)
                ));
            }
        }
    }
    slips
}

/// Megabits a second of a thousand packets a second with this many octets of payload each.
pub(super) fn mbps(payload: u32) -> f64 {
    f64::from(payload) * 8.0 / 1000.0
}

/// Reasons why cells are empty, each reason once.
fn reasons(played: &FigureResults) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for cell in played.cells.iter().flatten() {
        if let CellResult::NotRun(why) = &cell.found
            && cell.number.is_some()
            && !reasons.iter().any(|known| known.ends_with(why))
        {
            reasons.push(format!("not run: {why}"));
        }
    }
    reasons
}

/// Formats a figure with three significant digits, as the papers print them.
pub(super) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}
