//! `cargo xtask measured`: generates the documentation pages of the measurements, and of the coverage of the papers' items.
//!
//! With names, it first runs these figures (`000/fig13`), the `bench` or the `attacks`, and keeps their output below `results/`, in a folder for each
//! kind of machine: the newest run of each is the current one, and records those before it. Then, and without names, it writes `docs/measured.md`,
//! `docs/papers.md`, the six headline figures of the README and the table of attacks of SECURITY.md from these files. Figures there are never edited by
//! hand: `cargo xtask check` compares them.

mod papers;
mod store;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use measure::headlines::{Headline, SIX};

use crate::arguments::number;
use crate::results::{parse, table};
use crate::step::root;
use crate::{attacks, ratios};
use store::{Run, runs};

/// Marks in the README that enclose the generated figures.
const MARKS: (&str, &str) = ("<!-- measured -->\n", "<!-- /measured -->\n");
/// Marks in SECURITY.md that enclose what the attacks cost.
const ATTACK_MARKS: (&str, &str) = ("<!-- attacks -->\n", "<!-- /attacks -->\n");

/// Runs what is named, then writes the pages; returns true if everything that is named was measured.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (rounds, names) = wishes(arguments)?;
    let mut well = true;
    for name in names {
        let played = store::play(name, rounds)?;
        println!("{name}: {}", told(played.as_ref()));
        well &= played.is_some_and(|(_, run)| run.missing().is_none());
    }
    for (path, text) in pages()? {
        fs::write(root().join(path), text).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(well)
}

/// Message about a run that was requested.
fn told(played: Option<&(PathBuf, Run)>) -> String {
    let Some((path, run)) = played else { return "not played".to_owned() };
    let missing = run.missing().map(|missing| format!("; not measured, or not in every round: {missing}"));
    format!("{}{}", path.display(), missing.unwrap_or_default())
}

/// Parses the number of rounds, if given, and the names to be run.
fn wishes(arguments: &[String]) -> Result<(Option<usize>, Vec<&String>)> {
    let (mut rounds, mut names, mut rest) = (None, Vec::new(), arguments.iter());
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--rounds" => rounds = Some(number(word, &mut rest)?),
            _ if word.starts_with('-') => bail!("unexpected argument `{word}`"),
            _ => names.push(word),
        }
    }
    ensure!(rounds != Some(0), "--rounds must be at least 1");
    Ok((rounds, names))
}

/// Lists pages that differ from the result files.
pub(crate) fn stale() -> Result<Vec<String>> {
    let differs = |(path, text): &(&'static str, String)| {
        fs::read_to_string(root().join(path)).map_or(true, |written| written != *text)
    };
    let stale = pages()?.into_iter().filter(differs);
    Ok(stale
        .map(|(path, _)| format!("{path}: not what the result files say: cargo xtask measured"))
        .collect())
}

/// Generates the pages from the result files.
fn pages() -> Result<Vec<(&'static str, String)>> {
    let runs = runs(&root().join("results"))?;
    let readme = fs::read_to_string(root().join("README.md")).context("cannot read README.md")?;
    let items =
        fs::read_to_string(root().join("docs/papers.toml")).context("cannot read docs/papers.toml")?;
    let security = fs::read_to_string(root().join("SECURITY.md")).context("cannot read SECURITY.md")?;
    let claims = papers::claims(&root().join("figures"))?;
    Ok(vec![
        ("docs/measured.md", measured(&runs)),
        ("docs/papers.md", papers::page(&items, &runs, &claims)?),
        ("README.md", with_figures(&readme, &runs)?),
        ("SECURITY.md", with_attacks(&security, &runs)?),
    ])
}

/// `docs/measured.md`: all runs but those of attacks.
fn measured(runs: &[Run]) -> String {
    let mut text = "# Measured\n\nWritten by `cargo xtask measured` from the files in `results/`, and by nobody else. Each run names its commit and \
                    day; machines are never compared with each other, and figures of one run only with those of its peers, which ran in turn with \
                    them. Medians, with the 95 % interval of the median where there is one; c2c is the round trip of a cache line between the two \
                    CPUs while it was measured.\n"
        .to_owned();
    let mut machine = "";
    for run in runs.iter().filter(|run| run.name != store::ATTACKS) {
        if run.machine != machine {
            machine = &run.machine;
            text.push_str(&format!("\n## {machine}\n"));
        }
        text.push_str(&format!("\n### {}\n\nCommit {}, {}.\n\n", run.name, run.commit, run.date));
        text.push_str(&body(run));
        text.push_str(&earlier(run));
    }
    text
}

/// Summarises the earlier runs that a run has replaced.
fn earlier(run: &Run) -> String {
    let mut text = String::new();
    for run in &run.earlier {
        let verdicts = papers::verdicts(run).unwrap_or_else(|| "no verdicts".to_owned());
        text.push_str(&format!("\nEarlier: commit {}, {}: {verdicts}.\n", run.commit, run.date));
    }
    text
}

/// Text below the heading of a run.
fn body(run: &Run) -> String {
    if run.name == store::BENCH {
        let samples: Vec<_> = run.lines.iter().filter_map(|line| parse(line)).collect();
        let missing = run.missing().map(|missing| format!("\nNot measured in every round: {missing}.\n"));
        return format!("{}\n{}{}", table(&samples), ratios::table(&samples), missing.unwrap_or_default());
    }
    let kept = run.lines.iter().map(|line| match line.strip_prefix("SHAPE ") {
        Some(shape) => format!("* {shape}\n"),
        None => format!("{line}\n"),
    });
    kept.collect()
}

/// Inserts the newest figures between the marks of the README.
fn with_figures(readme: &str, runs: &[Run]) -> Result<String> {
    let figures = newest(store::BENCH, runs).map_or_else(nothing, six);
    between(("README.md", readme), MARKS, &figures)
}

/// Inserts the newest run of the attacks between the marks of SECURITY.md.
fn with_attacks(page: &str, runs: &[Run]) -> Result<String> {
    let section = |run: &Run| attacks::section((&run.machine, &run.commit, &run.date), &run.lines);
    let figures = newest(store::ATTACKS, runs).map_or_else(nothing, section);
    between(("SECURITY.md", page), ATTACK_MARKS, &figures)
}

/// The newest run of this name, on whatever machine.
fn newest<'r>(name: &str, runs: &'r [Run]) -> Option<&'r Run> {
    runs.iter().filter(|run| run.name == name).max_by_key(|run| &run.date)
}

fn nothing() -> String {
    "Nothing was measured yet.\n".to_owned()
}

/// Replaces what stands between the marks of a page; a page without marks stays as it is.
fn between((path, page): (&str, &str), marks: (&str, &str), text: &str) -> Result<String> {
    let Some((before, rest)) = page.split_once(marks.0) else { return Ok(page.to_owned()) };
    let (_, after) =
        rest.split_once(marks.1).with_context(|| format!("{path}: the second mark is missing"))?;
    Ok(format!("{before}{}{text}{}{after}", marks.0, marks.1))
}

/// Formats the six headline figures of a bench.
fn six(run: &Run) -> String {
    let samples: Vec<_> = run.lines.iter().filter_map(|line| parse(line)).collect();
    let mut text = format!(
        "{}; commit {}, {}.\n\n| what | ours | peer | ours / peer |\n|---|---:|---|---:|\n",
        run.machine, run.commit, run.date
    );
    for Headline { what, ours, peer } in SIX {
        let found = ratios::median_of(ours, &samples).unwrap_or_else(|| "not measured".to_owned());
        let (name, ratio) = match peer {
            Some((name, theirs)) => {
                (name, ratios::of(ours, theirs, &samples).unwrap_or_else(|| "not measured".to_owned()))
            }
            None => ("", String::new()),
        };
        text.push_str(&format!("| {what} | {found} | {name} | {ratio} |\n"));
    }
    text
}

#[cfg(test)]
#[path = "measured/tests.rs"]
mod tests;
