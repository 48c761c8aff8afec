//! `ringroad lab run 001/fig1`: figures of the papers, with our results beside the published ones.

use std::{fs, io};

use anyhow::{Context, Result};
use command_line::print;
use lab::diagram::{self, Diagram};
use lab::experiment::Options;
use lab::figures::{Cell, CellResult, ClaimResult, Figure, FigureResults, judge_all, play, table};
use lab::host::Host;
use lab::report::{Record, Verdict, append};

/// Measures a figure, prints its table and the verdict on each shape, and appends the records to the JSON file of
/// `options`, if one is named.
pub(super) fn run(figure: &Figure, options: &Options, host: &Host) -> Result<()> {
    if let Some(name) = &figure.draws {
        print(&table(figure, &FigureResults::default()))?;
        return draw(figure, name, options, host);
    }
    let played = play(figure, options, &mut io::stdout())?;
    print(&table(figure, &played))?;
    for ClaimResult { claim, column, verdict, why } in judge_all(figure, &played) {
        let word = match verdict {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Contradicts => "contradicts",
            Verdict::NotRun => "not-run",
        };
        print(&format!("SHAPE {} {word}: {claim} ({column}): {why}\n", figure.id))?;
        if let Some(path) = &options.json {
            let case = format!("shape/{}/{}", slug(column), slug(claim));
            append(path, &Record { verdict, why, ..Record::blank(&figure.id, case, "ratio", host) })?;
        }
    }
    let Some(path) = &options.json else { return Ok(()) };
    cells(figure, &played, host).iter().try_for_each(|record| append(path, record))
}

/// Runs the routers of a diagram and draws them: prints a line for each router, and writes the drawing to the directory in `options`.
/// Prints the reason if the routers do not run on this host.
fn draw(figure: &Figure, name: &str, options: &Options, host: &Host) -> Result<()> {
    let drawn = diagram::draw(name, &figure.title, options);
    let (lines, not_run, why) = match &drawn {
        Ok(Diagram { lines, not_run, .. }) => (lines.as_slice(), not_run.as_slice(), String::new()),
        Err(error) => (&[][..], &[][..], format!("{error:#}")),
    };
    if !why.is_empty() {
        print(&format!("NOT-RUN {}: {why}\n", figure.id))?;
    }
    lines.iter().try_for_each(|line| print(&format!("* {line}\n")))?;
    for (path, why) in not_run {
        print(&format!("NOT-RUN {} {path} | drawing: {why}\n", figure.id))?;
    }
    if let (Some(folder), Ok(Diagram { svg, .. })) = (&options.svg, &drawn) {
        let file = format!("{}.svg", slug(&figure.id));
        let path = folder.join(&file);
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        // Relative path as in the pages of the documentation, which are beside the directory.
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        print(&format!("![{}]({folder}/{file})\n", figure.title))?;
    }
    let Some(path) = &options.json else { return Ok(()) };
    append(path, &drawing(figure, "drawing".to_owned(), why, host))?;
    let not_drawn = |(path, why): &(String, String)| (format!("drawing/{}", slug(path)), why.clone());
    let mut not_drawn = not_run.iter().map(not_drawn);
    not_drawn.try_for_each(|(case, why)| append(path, &drawing(figure, case, why, host)))
}

/// Record of a drawing, or of a part that is missing in it for this reason.
fn drawing(figure: &Figure, case: String, why: String, host: &Host) -> Record {
    Record { why, ..Record::blank(&figure.id, case, "stations", host) }
}

/// Creates one record for each cell.
fn cells(figure: &Figure, played: &FigureResults, host: &Host) -> Vec<Record> {
    let mut records = Vec::new();
    for (row, cells) in figure.rows.iter().zip(&played.cells) {
        for (column, cell) in figure.columns.iter().zip(cells) {
            let case = format!("{}/{}", slug(&row.name), slug(&column.name));
            records.push(record(cell, Record::blank(&figure.id, case, &column.unit, host)));
        }
    }
    records
}

/// Record of a cell: the result in the column's unit, with the published value beside it.
fn record(cell: &Cell, mut record: Record) -> Record {
    if let CellResult::Played(_, outcome) = &cell.found {
        let measured = outcome.record(&record.host, Verdict::NotRun, "");
        record = Record {
            c2c_ns: measured.c2c_ns,
            samples: measured.samples,
            more: measured.more,
            ledger: measured.ledger,
            ..record
        };
        record.more.insert(format!("samples_{}", outcome.unit), outcome.measured.len() as f64);
    }
    if let Some(published) = cell.number {
        record.more.insert("published".to_owned(), published);
    }
    let summary = cell.summary();
    record.median = summary.map(|summary| summary.median);
    record.ci95 = summary.and_then(|summary| summary.ci95);
    record.why = match summary {
        Some(_) => "the shapes are judged, not the cells; samples are in the experiment's unit".to_owned(),
        None => cell.why().to_owned(),
    };
    record
}

/// Replaces spaces and slashes in a name.
fn slug(name: &str) -> String {
    name.replace([' ', '/'], "-")
}

#[cfg(test)]
mod tests;
