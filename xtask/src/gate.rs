//! `cargo xtask gate`: runs the commit tier repeatedly, and counts the green runs of this code.
//!
//! Each run writes two lines to `target/gate/runs`, at its beginning and at its end: start time, commit, fingerprint of the code, kind,
//! verdict, seconds. Runs accumulate as long as only text changes. A red run resets the count of its code, and so does a run without an
//! end: it was killed, or aborted by an error.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::number;
use crate::step::{output, root, target_dir};
use crate::tally::Tally;
use crate::test::{self, TestOptions};

/// Prefixes and suffixes of files that are text, or measurement results: changing them affects no test.
const TEXT: ([&str; 3], [&str; 2]) = (["docs/", "results/", "LICENSE"], [".md", ".svg"]);
/// Text files that tests read.
const TESTED_TEXT: [&str; 7] = [
    "SECURITY.md",
    "docs/control.md",
    "docs/file.md",
    "docs/forwarding.md",
    "docs/json.md",
    "docs/papers.toml",
    "examples/README.md",
];

/// Result of a run, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Not finished, or never finished.
    None,
    Green,
    Red,
}

/// One run, at its beginning or at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// Start time.
    date: String,
    commit: String,
    code: String,
    stressed: bool,
    end: End,
    seconds: u64,
    verdict: String,
}

/// Wanted number of runs of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    quiet: usize,
    stressed: usize,
}

/// Performs the missing runs; returns true once there are as many green runs as wanted since the last red one.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let wanted = parse(arguments)?;
    let code = fingerprint()?;
    let mut runs = known(&journal())?;
    loop {
        let (quiet, stressed) = green(&runs, &code);
        let stressed_now = quiet >= wanted.quiet;
        if stressed_now && stressed >= wanted.stressed {
            break;
        }
        let begun = begun(&code, stressed_now);
        let run = noted(&journal(), begun, || one(stressed_now))?;
        let red = run.end != End::Green;
        runs.push(run);
        if red {
            break;
        }
    }
    println!();
    runs.iter().filter(|run| run.code == code).for_each(|run| println!("{}", line(run)));
    let (quiet, stressed) = green(&runs, &code);
    println!("code {code}: {quiet} quiet and {stressed} stressed runs green since the last one that was not");
    Ok(quiet >= wanted.quiet && stressed >= wanted.stressed)
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted { quiet: 10, stressed: 5 };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--quiet" => wanted.quiet = number(word, &mut rest)?,
            "--stressed" => wanted.stressed = number(word, &mut rest)?,
            _ => bail!("unexpected argument `{word}`; there are --quiet N and --stressed N"),
        }
    }
    Ok(wanted)
}

/// Counts the green runs of this code, quiet and stressed, since its last run that was not green.
fn green(runs: &[Run], code: &str) -> (usize, usize) {
    let own: Vec<&Run> = runs.iter().filter(|run| run.code == code).collect();
    let since = own.iter().rposition(|run| run.end != End::Green).map_or(0, |last| last + 1);
    let (stressed, quiet): (Vec<&Run>, Vec<&Run>) = own[since..].iter().partition(|run| run.stressed);
    (quiet.len(), stressed.len())
}

/// Creates the record of a run that starts now.
fn begun(code: &str, stressed: bool) -> Run {
    Run {
        date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        commit: output("git", &["rev-parse", "--short", "HEAD"]),
        code: code.to_owned(),
        stressed,
        end: End::None,
        seconds: 0,
        verdict: "no end".to_owned(),
    }
}

/// Runs the commit tier once.
fn one(stressed: bool) -> Result<Tally> {
    let options: Vec<String> = stressed.then(|| "--stressed".to_owned()).into_iter().collect();
    test::tests(&TestOptions::parse(&options)?)
}

/// Records the beginning of a run, performs it, and records its end, if it gets there.
fn noted(path: &Path, begun: Run, tests: impl FnOnce() -> Result<Tally>) -> Result<Run> {
    let start = Instant::now();
    note(path, &begun)?;
    let tally = tests()?;
    let end = if tally.failed == 0 { End::Green } else { End::Red };
    let run = Run { end, seconds: start.elapsed().as_secs(), verdict: tally.to_string(), ..begun };
    note(path, &run)?;
    Ok(run)
}

/// Returns true if changing this file affects no test.
fn is_text(name: &str) -> bool {
    let (begins, ends) = TEXT;
    let text =
        begins.iter().any(|word| name.starts_with(word)) || ends.iter().any(|word| name.ends_with(word));
    text && !TESTED_TEXT.contains(&name)
}

/// Fingerprint of the code: a hash of all files of the tree that are not text, in their present state.
fn fingerprint() -> Result<String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]);
    let listed = list.current_dir(root()).output().context("cannot start git")?;
    ensure!(listed.status.success(), "git does not list the files of this tree");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut hash = Command::new("git");
    hash.args(["hash-object", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hash = hash.spawn().context("cannot start git")?;
    let mut sink = hash.stdin.take().context("an input")?;
    for name in listed.split('\0').filter(|name| !name.is_empty() && !is_text(name)) {
        sink.write_all(name.as_bytes())?;
        // A file that is deleted in the working tree hashes as empty.
        sink.write_all(&fs::read(root().join(name)).unwrap_or_default())?;
    }
    drop(sink);
    let sum = hash.wait_with_output()?;
    ensure!(sum.status.success(), "git does not sum up the files of this tree");
    Ok(String::from_utf8_lossy(&sum.stdout).chars().take(12).collect())
}

fn journal() -> PathBuf {
    target_dir().join("gate/runs")
}

fn known(path: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        add(&mut runs, read(line).with_context(|| format!("{}: {line}", path.display()))?);
    }
    Ok(runs)
}

/// Adds a line of the journal; an end replaces its beginning.
fn add(runs: &mut Vec<Run>, run: Run) {
    let is_begin = |known: &Run| {
        let key = |run: &Run| (run.date.clone(), run.commit.clone(), run.code.clone(), run.stressed);
        known.end == End::None && key(known) == key(&run)
    };
    match runs.iter().rposition(is_begin).filter(|_| run.end != End::None) {
        Some(at) => runs[at] = run,
        None => runs.push(run),
    }
}

fn note(path: &Path, run: &Run) -> Result<()> {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", line(run))?;
    Ok(())
}

fn line(run: &Run) -> String {
    let Run { date, commit, code, stressed, end, seconds, verdict } = run;
    let kind = if *stressed { "stressed" } else { "quiet" };
    let end = match end {
        End::None => "begun",
        End::Green => "green",
        End::Red => "red",
    };
    format!("{date} {commit} {code} {kind} {end} {seconds} {verdict}")
}

fn read(line: &str) -> Option<Run> {
    let mut words = line.splitn(7, ' ').map(str::to_owned);
    let mut word = || words.next();
    Some(Run {
        date: word()?,
        commit: word()?,
        code: word()?,
        stressed: word()? == "stressed",
        end: match word()?.as_str() {
            "begun" => End::None,
            "green" => End::Green,
            _ => End::Red,
        },
        seconds: word()?.parse().ok()?,
        verdict: word()?,
    })
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
