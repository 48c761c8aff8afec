//! `cargo xtask bench`: runs our experiments and the peers' alternately, and prints a Markdown table.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use measure::experiments::{EXPERIMENTS, Experiment};
use measure::processor;

use crate::arguments;
use crate::ratios;
use crate::results::{ROUND, Sample, parse, table};
use crate::step::{Step, output, release_lab, root, target_dir};

/// Time limit of a whole figure.
pub(crate) const WHOLE: Duration = Duration::from_secs(4 * 3600);
/// Time limit of a single measurement.
const LIMIT: Duration = Duration::from_secs(3600);

/// Prefix of the lab's lines about cases that the host refuses.
const NOT_RUN: &str = "NOT-RUN ";

struct Options {
    rounds: usize,
    seconds: Option<u64>,
    peers: bool,
    chosen: Vec<String>,
}

/// Measurement that runs in each round.
struct Case {
    name: String,
    step: Step,
    failed: bool,
}

/// Measures, writes the RESULT lines to a file and prints the table; returns true if every case gave a result.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    Ok(measure_all(&parse_options(arguments)?, &mut Vec::new())?.is_empty())
}

/// Measures everything in this many rounds and appends the RESULT lines to `lines`; returns the cases that gave
/// no result in some round.
pub(crate) fn run_and_keep(rounds: usize, lines: &mut Vec<String>) -> Result<Vec<String>> {
    measure_all(&Options { rounds, seconds: None, peers: true, chosen: Vec::new() }, lines)
}

fn measure_all(options: &Options, lines: &mut Vec<String>) -> Result<Vec<String>> {
    let lab = release_lab()?;
    let mut cases = cases(options, &lab)?;

    let folder = target_dir().join("bench");
    create_dir_all(&folder)?;
    let path = folder.join(format!("{}.txt", output("date", &["-u", "+%Y%m%dT%H%M%SZ"])));
    let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let header = circumstances();
    writeln!(file, "# {header}")?;

    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        // Alternate the cases, so that changes of the host affect all of them.
        for case in &mut cases {
            println!("\n== round {round}: {}", case.name);
            for (line, sample) in measure(case, round)? {
                writeln!(file, "{line}").context("cannot write the RESULT lines")?;
                lines.push(line);
                samples.push(sample);
            }
        }
    }
    println!("\n{header}\n\n{}\n{}", table(&samples), ratios::table(&samples));
    println!("RESULT lines: {}", path.display());
    let failed: Vec<String> = cases.into_iter().filter(|case| case.failed).map(|case| case.name).collect();
    if !failed.is_empty() {
        println!("not measured in every round: {}", failed.join(", "));
    }
    Ok(failed)
}

fn parse_options(arguments: &[String]) -> Result<Options> {
    let mut options = Options { rounds: 3, seconds: None, peers: true, chosen: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u64> {
            let number = arguments::number(word, &mut rest)?;
            ensure!(number > 0, "{word} must be at least 1");
            Ok(number)
        };
        match word.as_str() {
            "--rounds" => options.rounds = usize::try_from(number()?)?,
            "--seconds" => options.seconds = Some(number()?),
            "--no-peers" => options.peers = false,
            _ if word.starts_with('-') => bail!("unexpected argument `{word}`"),
            _ => options.chosen.push(word.clone()),
        }
    }
    Ok(options)
}

fn cases(options: &Options, lab: &str) -> Result<Vec<Case>> {
    let mut all = experiments(lab, options.seconds);
    if options.peers {
        all.extend(peers());
    }
    let known: Vec<String> = all.iter().map(|case| case.name.clone()).collect();
    if let Some(unknown) = options.chosen.iter().find(|name| !known.contains(name)) {
        bail!("nothing to measure named `{unknown}`; there are: {}", known.join(", "));
    }
    if !options.chosen.is_empty() {
        all.retain(|case| options.chosen.contains(&case.name));
    }
    Ok(all)
}

fn experiments(lab: &str, seconds: Option<u64>) -> Vec<Case> {
    let case = |experiment: &Experiment| {
        let mut step = Step::new(lab).args(["run"]).args(experiment.words);
        if let Some(seconds) = seconds.filter(|_| experiment.timed) {
            step = step.args(["--seconds", &seconds.to_string()]);
        }
        Case { name: experiment.name.to_owned(), step: step.limit(LIMIT), failed: false }
    };
    EXPERIMENTS.iter().map(case).collect()
}

/// Lists the executable files of `bench/peers`.
fn peers() -> Vec<Case> {
    let files = std::fs::read_dir(root().join("bench/peers")).into_iter().flatten().filter_map(Result::ok);
    let executable =
        |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).filter(executable).collect();
    paths.sort();
    let case = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // One short repetition per call: the rounds repeat it, alternating with our experiments.
        let step = Step::new(&path.to_string_lossy()).env("REPS", "1").env("SECS", "1").limit(LIMIT);
        Case { name, step, failed: false }
    };
    paths.into_iter().map(case).collect()
}

/// Runs a case and returns its RESULT lines, each with the number of the round appended, by which results are paired. A case that gives
/// no result, or says of a part of it that it was not run, has failed.
fn measure(case: &mut Case, round: usize) -> Result<Vec<(String, Sample)>> {
    let (mut results, mut refused) = (Vec::new(), false);
    let well = case.step.lines(&mut |line| {
        println!("{line}");
        refused |= line.starts_with(NOT_RUN);
        let line = format!("{line} {ROUND}={round}");
        results.extend(parse(&line).map(|sample| (line, sample)));
    })?;
    case.failed |= !well || refused || results.is_empty();
    Ok(results)
}

/// Describes machine, kernel, commit and date in one line.
fn circumstances() -> String {
    let commit = output("git", &["rev-parse", "--short", "HEAD"]);
    let changed = if output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty() {
        ""
    } else {
        " (changed)"
    };
    let date = output("date", &["-u", "+%F"]);
    format!("{}; commit {commit}{changed}; {date}", machine())
}

/// Describes the machine: name of its CPUs, their number, and the kernel.
pub(crate) fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = output("uname", &["-r"]);
    format!("{}, {cores} CPUs, Linux {kernel}", processor::name(&cpuinfo))
}

#[cfg(test)]
#[path = "bench_tests.rs"]
mod tests;
