//! `docs/papers.md`: the status of each item of the papers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::store::{BENCH, Run};
use crate::ratios;
use crate::results::parse;

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
    /// Cases of `cargo xtask bench` whose limits judge it: `group-killed`.
    #[serde(default)]
    bench: Vec<String>,
    /// Command that reproduces it, if it is not a figure.
    plays: Option<String>,
    /// Location of a mechanism in the code, and its test.
    built: Option<String>,
    /// Missing parts.
    lacks: Option<String>,
    /// Reason why it is not run.
    not_run: Option<String>,
}

/// Claims of each figure, by its name, as lines about them begin: `claim (column)`.
pub(super) type Claims = BTreeMap<String, Vec<String>>;

/// What is read of a figure's file.
#[derive(Deserialize)]
struct Figure {
    id: String,
    #[serde(default)]
    shape: Vec<Claim>,
    #[serde(default)]
    line: Vec<Claim>,
}

#[derive(Deserialize)]
struct Claim {
    claim: String,
    column: String,
}

/// Reads the claims of all figures in a folder.
///
/// # Errors
/// A file cannot be read, or is no figure.
pub(super) fn claims(folder: &Path) -> Result<Claims> {
    let mut claims = Claims::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let figure: Figure = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let all = figure.shape.iter().chain(&figure.line);
        let shown = all.map(|claim| format!("{} ({})", claim.claim, claim.column)).collect();
        claims.insert(figure.id, shown);
    }
    Ok(claims)
}

/// Parsed line about a claim: `SHAPE 000/fig2 holds: claim (column): why`.
struct VerdictLine<'a> {
    verdict: &'a str,
    claim: &'a str,
}

impl VerdictLine<'_> {
    /// Returns true if the line is about this claim.
    fn is_of(&self, claim: &str) -> bool {
        self.claim.strip_prefix(claim).is_some_and(|why| why.starts_with(": "))
    }

    /// Returns true if the figure's file still has the claim.
    fn is_current(&self, figure: &str, claims: &Claims) -> bool {
        claims.get(figure).is_none_or(|known| known.iter().any(|claim| self.is_of(claim)))
    }
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
pub(super) fn page(items: &str, runs: &[Run], claims: &Claims) -> Result<String> {
    let items: Items = toml::from_str(items).context("docs/papers.toml")?;
    let mut text = "# The papers, item by item\n\nWritten by `cargo xtask measured` from `docs/papers.toml` and the files in `results/`. Verdicts are \
                    counts of claims over all machines that a figure was run on: what holds, contradicts the paper for a reason that the figure \
                    states, fails, or is open (not run, or the interval is too wide). In brackets are the commits of the runs. A claim that its figure \
                    no longer has is counted apart, and so is one that no run has judged yet. Limits of \
                    cases of the bench count like claims, once for each placement of the CPUs. The runs themselves: \
                    [measured.md](measured.md).\n\n\
                    | | paper | what | where | verdict |\n|---:|---|---|---|---|\n"
        .to_owned();
    for (at, item) in (1..).zip(&items.item) {
        ensure!(item.number == at, "docs/papers.toml: item {at} is missing");
        let known = item.built.is_some()
            || item.not_run.is_some()
            || !item.figures.is_empty()
            || !item.bench.is_empty()
            || item.plays.is_some();
        ensure!(known, "docs/papers.toml: item {at} says nothing");
        for case in &item.bench {
            ensure!(ratios::is_limited(case), "docs/papers.toml: item {at}: no case {case:?} has a limit");
        }
        let _ = writeln!(
            text,
            "| {at} | {} | {} | {} | {} |",
            item.paper,
            item.what,
            place(item),
            verdict(item, runs, claims)
        );
    }
    text.push_str(&contradictions(runs, claims));
    Ok(text)
}

fn place(item: &Item) -> String {
    let figures = item.figures.iter().map(|id| format!("`lab run {id}`"));
    let bench = (!item.bench.is_empty()).then(|| format!("`cargo xtask bench {}`", item.bench.join(" ")));
    let plays = item.plays.iter().map(|command| format!("`{command}`"));
    let built = item.built.iter().cloned();
    built.chain(figures).chain(bench).chain(plays).collect::<Vec<_>>().join("; ")
}

fn verdict(item: &Item, runs: &[Run], claims: &Claims) -> String {
    // A figure that is not run has no result file, and its reason is given.
    let is_kept = |id: &&String| item.not_run.is_none() || runs.iter().any(|run| run.name == **id);
    let kept = item.figures.iter().filter(is_kept);
    let mut parts: Vec<String> = kept.map(|id| of_figure(id, runs, claims)).collect();
    parts.extend(item.bench.iter().map(|case| of_bench(case, runs)));
    parts.extend(item.not_run.iter().map(|why| format!("not-run: {why}")));
    parts.extend(item.lacks.iter().map(|what| format!("lacks {what}")));
    if parts.is_empty() {
        parts.push("built".to_owned());
    }
    parts.join("; ")
}

/// Counts of the verdicts on a figure's claims, over all runs, with their commits.
fn of_figure(id: &str, runs: &[Run], claims: &Claims) -> String {
    let of: Vec<&Run> = runs.iter().filter(|run| run.name == id).collect();
    if of.is_empty() {
        return format!("{id} not-run yet: no result file");
    }
    let commits: Vec<&str> = of.iter().map(|run| run.commit.as_str()).collect();
    let told = of.iter().flat_map(|run| &run.lines).filter_map(|line| told(line));
    let (current, former): (Vec<_>, Vec<_>) = told.partition(|told| told.is_current(id, claims));
    let is_open = |claim: &&String| !current.iter().any(|told| told.is_of(claim));
    let open = claims.get(id).into_iter().flatten().filter(is_open).count();
    let apart = [(former.len(), "of claims it no longer has"), (open, "not judged yet")];
    let mut parts: Vec<String> = counted(&current).into_iter().collect();
    parts.extend(apart.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    let commits = commits.join(", ");
    if parts.is_empty() {
        return format!("{id} printed, nothing claimed ({commits})");
    }
    format!("{id}: {} ({commits})", parts.join(", "))
}

/// Counts of the verdicts on the limits of a case of the bench, over the newest runs of all machines, with their commits.
fn of_bench(case: &str, runs: &[Run]) -> String {
    let (mut commits, mut verdicts) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(|run| run.name == BENCH) {
        let samples: Vec<_> = run.lines.iter().filter_map(|line| parse(line)).collect();
        let own = ratios::verdicts(case, &samples);
        commits.extend((!own.is_empty()).then_some(run.commit.as_str()));
        verdicts.extend(own);
    }
    match summed(verdicts) {
        Some(counts) => format!("{case}: {counts} ({})", commits.join(", ")),
        None => format!("{case} not-run yet: in no result file of a bench"),
    }
}

/// Counts of the verdicts on one run's claims; none if it has no claims.
pub(super) fn verdicts(run: &Run) -> Option<String> {
    counted(&run.lines.iter().filter_map(|line| told(line)).collect::<Vec<_>>())
}

fn counted(told: &[VerdictLine<'_>]) -> Option<String> {
    summed(told.iter().map(|told| told.verdict))
}

/// Each verdict with how often it was given; none if there are no verdicts.
fn summed<'v>(verdicts: impl IntoIterator<Item = &'v str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in verdicts {
        *counts.entry(verdict).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

/// Lists where our results contradict a paper, with the reason, and which claims failed, of those that their figures still have.
fn contradictions(runs: &[Run], claims: &Claims) -> String {
    let mut text = String::new();
    for (verdict, head) in [("contradicts", "## Where we contradict a paper"), ("fails", "## What fails")] {
        let mut lines = Vec::new();
        for run in runs {
            let current = run.lines.iter().filter_map(|line| told(line));
            let current = current.filter(|told| told.is_current(&run.name, claims));
            let such = current.filter(|told| told.verdict == verdict);
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
