//! `docs/papers.md`: the status of each item of the papers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::store::Run;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items {
    item: Vec<Item>,
}

/// One item of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    number: u32,
    paper: String,
    what: String,
    /// Figures that reproduce it with `ringroad lab run`.
    #[serde(default)]
    figures: Vec<String>,
    /// Command that reproduces it, if it is not a figure.
    plays: Option<String>,
    /// Location of a mechanism in the code, and its test.
    built: Option<String>,
    /// Missing parts.
    lacks: Option<String>,
    /// Reason why it is not run.
    not_run: Option<String>,
}

/// Parsed line about a claim: `SHAPE 000/fig2 holds: claim (column): why`.
struct VerdictLine<'a> {
    verdict: &'a str,
    claim: &'a str,
}

fn told(line: &str) -> Option<VerdictLine<'_>> {
    let (head, claim) = line.strip_prefix("SHAPE ")?.split_once(": ")?;
    let (_, verdict) = head.split_once(' ')?;
    Some(VerdictLine { verdict, claim })
}

/// Generates the page.
///
/// # Errors
/// The list of items is invalid.
pub(super) fn page(items: &str, runs: &[Run]) -> Result<String> {
    let items: Items = toml::from_str(items).context("docs/papers.toml")?;
    let mut text = "# The papers, item by item\n\nWritten by `cargo xtask measured` from `docs/papers.toml` and the files in `results/`. Verdicts are \
                    counts of claims over all machines that a figure was run on: what holds, contradicts the paper for a reason that the figure \
                    states, fails, or is open (not run, or the interval is too wide). The runs themselves: [measured.md](measured.md).\n\n\
                    | | paper | what | where | verdict |\n|---:|---|---|---|---|\n"
        .to_owned();
    for (at, item) in (1..).zip(&items.item) {
        ensure!(item.number == at, "docs/papers.toml: item {at} is missing");
        let known = item.built.is_some()
            || item.not_run.is_some()
            || !item.figures.is_empty()
            || item.plays.is_some();
        ensure!(known, "docs/papers.toml: item {at} says nothing");
        let _ = writeln!(
            text,
            "| {at} | {} | {} | {} | {} |",
            item.paper,
            item.what,
            place(item),
            verdict(item, runs)
        );
    }
    text.push_str(&contradictions(runs));
    Ok(text)
}

fn place(item: &Item) -> String {
    let figures = item.figures.iter().map(|id| format!("`lab run {id}`"));
    let plays = item.plays.iter().map(|command| format!("`{command}`"));
    let built = item.built.iter().cloned();
    built.chain(figures).chain(plays).collect::<Vec<_>>().join("; ")
}

fn verdict(item: &Item, runs: &[Run]) -> String {
    // A figure that is not run has no result file, and its reason is given.
    let is_kept = |id: &&String| item.not_run.is_none() || runs.iter().any(|run| run.name == **id);
    let mut parts: Vec<String> = item.figures.iter().filter(is_kept).map(|id| of_figure(id, runs)).collect();
    parts.extend(item.not_run.iter().map(|why| format!("not-run: {why}")));
    parts.extend(item.lacks.iter().map(|what| format!("lacks {what}")));
    if parts.is_empty() {
        parts.push("built".to_owned());
    }
    parts.join("; ")
}

/// Counts of the verdicts on a figure's claims, over all runs.
fn of_figure(id: &str, runs: &[Run]) -> String {
    let of: Vec<&Run> = runs.iter().filter(|run| run.name == id).collect();
    match (of.is_empty(), counted(of)) {
        (true, _) => format!("{id} not-run yet: no result file"),
        (false, None) => format!("{id} printed, nothing claimed"),
        (false, Some(counts)) => format!("{id}: {counts}"),
    }
}

/// Counts of the verdicts on one run's claims; none if it has no claims.
pub(super) fn verdicts(run: &Run) -> Option<String> {
    counted([run])
}

fn counted<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for told in runs.into_iter().flat_map(|run| &run.lines).filter_map(|line| told(line)) {
        *counts.entry(told.verdict).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

/// Lists where our results contradict a paper, with the reason, and which claims failed.
fn contradictions(runs: &[Run]) -> String {
    let mut text = String::new();
    for (verdict, head) in [("contradicts", "## Where we contradict a paper"), ("fails", "## What fails")] {
        let mut lines = Vec::new();
        for run in runs {
            let such = run.lines.iter().filter_map(|line| told(line)).filter(|told| told.verdict == verdict);
            lines.extend(
                such.map(|told| {
                    format!("* {} ({}, {}): {}\n", run.name, run.machine, run.commit, told.claim)
                }),
            );
        }
        if !lines.is_empty() {
            let _ = write!(text, "\n{head}\n\n{}", lines.concat());
        }
    }
    text
}
