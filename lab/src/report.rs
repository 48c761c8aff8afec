//! `ringroad lab report FILE`: JSON lines as a Markdown table.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use lab::report::number;
use serde::Deserialize;

/// Fields of a record that the table uses.
#[derive(Deserialize)]
struct Row {
    id: String,
    case: String,
    unit: String,
    samples: Vec<Option<f64>>,
    median: Option<f64>,
    ci95: Option<(f64, f64)>,
    near: Option<[f64; 4]>,
    far: Option<[f64; 4]>,
    verdict: String,
    commit: String,
    date: String,
    host: Machine,
}

/// Description of the machine in the table.
#[derive(Deserialize, PartialEq)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

/// Formats the table, followed by the machines.
pub(super) fn table(file: &Path) -> Result<String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let rows = rows(&text).with_context(|| name.to_string())?;
    ensure!(!rows.is_empty(), "{name} holds no result");
    Ok(markdown(&rows))
}

fn rows(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(n, line)| serde_json::from_str(line).with_context(|| format!("line {} is no result", n + 1)))
        .collect()
}

fn markdown(rows: &[Row]) -> String {
    let mut text = "| case | unit | median | 95 % | near | far | n | verdict | commit | date |\n".to_owned();
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let interval = row.ci95.map_or_else(dash, |(low, high)| format!("{}..{}", number(low), number(high)));
        let median = row.median.map_or_else(dash, number);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {}/{} | {} | {median} | {interval} | {} | {} | {} | {} | {} | {} |",
            row.id,
            row.case,
            row.unit,
            placed(row.near),
            placed(row.far),
            row.samples.len(),
            row.verdict,
            row.commit,
            row.date.get(..10).unwrap_or(&row.date),
        );
    }
    let mut machines: Vec<&Machine> = Vec::new();
    for row in rows {
        if !machines.contains(&&row.host) {
            machines.push(&row.host);
        }
    }
    for Machine { cpu, cores, kernel } in machines {
        let _ = write!(text, "\n{cpu}, {cores} CPUs, Linux {kernel}\n");
    }
    text
}

/// Formats `[median, min, max, n]` as `median (min..max) n=…`.
fn placed(quadruple: Option<[f64; 4]>) -> String {
    quadruple.map_or_else(dash, |[median, min, max, n]| {
        format!("{} ({}..{}) n={n}", number(median), number(min), number(max))
    })
}

fn dash() -> String {
    "-".to_owned()
}
