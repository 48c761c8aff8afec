//! `cargo xtask gate`: runs the commit tier again and again, and counts the runs of this code that were green.
//!
//! Each run leaves a line in `target/gate/runs`: when, commit, fingerprint of the code, kind, verdict, seconds. Runs add up as long
//! as nothing but text changes. A red run makes the count of its code begin again.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::number;
use crate::step::{output, root, target_dir};
use crate::test::{self, Wish};

/// Files that are text, or what was measured: a change of them changes no test.
const TEXT: [&str; 5] = [":!*.md", ":!docs", ":!results", ":!LICENSE", ":!*.svg"];

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    date: String,
    commit: String,
    code: String,
    stressed: bool,
    green: bool,
    seconds: u64,
    verdict: String,
}

/// How many runs of a kind are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    quiet: usize,
    stressed: usize,
}

/// Runs what is missing; true if as many runs as wanted were green, the last red one left behind.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let wanted = parse(arguments)?;
    let code = fingerprint()?;
    let mut runs = known()?;
    loop {
        let (quiet, stressed) = green(&runs, &code);
        let stressed_now = quiet >= wanted.quiet;
        if stressed_now && stressed >= wanted.stressed {
            break;
        }
        let run = one(&code, stressed_now)?;
        note(&run)?;
        let green = run.green;
        runs.push(run);
        if !green {
            break;
        }
    }
    println!();
    runs.iter().filter(|run| run.code == code).for_each(|run| println!("{}", line(run)));
    let (quiet, stressed) = green(&runs, &code);
    println!("code {code}: {quiet} quiet and {stressed} stressed runs green since the last red one");
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

/// Runs of this code that were green since its last red one: quiet and stressed.
fn green(runs: &[Run], code: &str) -> (usize, usize) {
    let own: Vec<&Run> = runs.iter().filter(|run| run.code == code).collect();
    let since = own.iter().rposition(|run| !run.green).map_or(0, |last| last + 1);
    let (stressed, quiet): (Vec<&Run>, Vec<&Run>) = own[since..].iter().partition(|run| run.stressed);
    (quiet.len(), stressed.len())
}

/// Runs the commit tier once.
fn one(code: &str, stressed: bool) -> Result<Run> {
    let start = Instant::now();
    let options: Vec<String> = stressed.then(|| "--stressed".to_owned()).into_iter().collect();
    let tally = test::tests(&Wish::parse(&options)?)?;
    Ok(Run {
        date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        commit: output("git", &["rev-parse", "--short", "HEAD"]),
        code: code.to_owned(),
        stressed,
        green: tally.failed == 0,
        seconds: start.elapsed().as_secs(),
        verdict: tally.to_string(),
    })
}

/// What the code is: a sum over all files of the tree that are not text, as they are now.
fn fingerprint() -> Result<String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]).args(TEXT);
    let listed = list.current_dir(root()).output().context("cannot start git")?;
    ensure!(listed.status.success(), "git does not list the files of this tree");
    let mut hash = Command::new("git");
    hash.args(["hash-object", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hash = hash.spawn().context("cannot start git")?;
    let mut sink = hash.stdin.take().context("an input")?;
    for name in listed.stdout.split(|octet| *octet == 0).filter(|name| !name.is_empty()) {
        sink.write_all(name)?;
        // A file that was deleted and not yet committed has no octets.
        let path = root().join(String::from_utf8_lossy(name).as_ref());
        sink.write_all(&fs::read(path).unwrap_or_default())?;
    }
    drop(sink);
    let sum = hash.wait_with_output()?;
    ensure!(sum.status.success(), "git does not sum up the files of this tree");
    Ok(String::from_utf8_lossy(&sum.stdout).chars().take(12).collect())
}

fn journal() -> PathBuf {
    target_dir().join("gate/runs")
}

fn known() -> Result<Vec<Run>> {
    let text = fs::read_to_string(journal()).unwrap_or_default();
    text.lines().map(|line| read(line).with_context(|| format!("{}: {line}", journal().display()))).collect()
}

fn note(run: &Run) -> Result<()> {
    let path = journal();
    fs::create_dir_all(path.parent().context("a folder")?)?;
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    writeln!(file, "{}", line(run))?;
    Ok(())
}

fn line(run: &Run) -> String {
    let Run { date, commit, code, stressed, green, seconds, verdict } = run;
    let kind = if *stressed { "stressed" } else { "quiet" };
    let color = if *green { "green" } else { "red" };
    format!("{date} {commit} {code} {kind} {color} {seconds} {verdict}")
}

fn read(line: &str) -> Option<Run> {
    let mut words = line.splitn(7, ' ').map(str::to_owned);
    let mut word = || words.next();
    Some(Run {
        date: word()?,
        commit: word()?,
        code: word()?,
        stressed: word()? == "stressed",
        green: word()? == "green",
        seconds: word()?.parse().ok()?,
        verdict: word()?,
    })
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
