//! `cargo xtask fuzz`: builds fuzz targets, runs as many at a time as there are CPUs, and prints how to reproduce their
//! findings.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};

use crate::arguments::number;
use crate::step::{Step, root, succeeds, target_dir};
use crate::workers;

/// Time limit of a build: the first one of all targets takes minutes.
const BUILD: Duration = Duration::from_secs(3600);
/// Time that a target may take, in addition to its fuzzing time, to start and to report its findings.
const AROUND: Duration = Duration::from_secs(300);

/// Result of a target.
#[derive(Debug)]
pub(crate) struct Fuzzed {
    pub(crate) target: String,
    /// True if nothing was found.
    pub(crate) well: bool,
    /// Its output; after a finding, also how to reproduce it.
    pub(crate) printed: Vec<String>,
}

/// Runs the named targets, or all; returns true if none crashed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (seconds, chosen) = parse(arguments)?;
    let targets = chosen_targets(chosen)?;
    install()?;
    ensure!(build(&targets, &mut |line| println!("{line}"))?, "the fuzz targets do not build");
    let mut well = true;
    run_targets(&targets, seconds, |done| {
        well &= done.well;
        done.tell();
    });
    println!(
        "{} fuzz targets, {seconds} s each: {}",
        targets.len(),
        if well { "no crash" } else { "CRASHED" }
    );
    Ok(well)
}

fn parse(arguments: &[String]) -> Result<(u64, Vec<String>)> {
    let (mut seconds, mut chosen) = (60, Vec::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--seconds" => {
                seconds = number(word, &mut rest)?;
                ensure!(seconds > 0, "--seconds must be at least 1");
            }
            _ if word.starts_with('-') => bail!("unexpected argument `{word}`"),
            _ => chosen.push(word.clone()),
        }
    }
    Ok((seconds, chosen))
}

fn chosen_targets(chosen: Vec<String>) -> Result<Vec<String>> {
    let known = targets();
    ensure!(!known.is_empty(), "there is no fuzz target in fuzz/fuzz_targets");
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(if chosen.is_empty() { known } else { chosen })
}

/// Names of all targets: files in `fuzz/fuzz_targets`.
pub(crate) fn targets() -> Vec<String> {
    let files =
        std::fs::read_dir(root().join("fuzz/fuzz_targets")).into_iter().flatten().filter_map(Result::ok);
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns true if the nightly toolchain is installed.
pub(crate) fn has_nightly() -> bool {
    succeeds("cargo", &["+nightly", "--version"])
}

/// Returns a tool that fuzzing needs and that is not installed.
pub(crate) fn missing_tool() -> Option<&'static str> {
    if !has_nightly() {
        return Some("the nightly toolchain");
    }
    (!succeeds("cargo", &["fuzz", "--version"])).then_some("cargo-fuzz")
}

pub(crate) fn install() -> Result<()> {
    match missing_tool() {
        None => Ok(()),
        Some("cargo-fuzz") => {
            let step = Step::new("cargo").args(["install", "--locked", "cargo-fuzz"]);
            ensure!(step.run()?, "cannot install cargo-fuzz");
            Ok(())
        }
        Some(tool) => bail!("{tool} is not installed: rustup toolchain install nightly"),
    }
}

/// Builds these targets in advance, so that the time limit covers only fuzzing; returns false if they do not build.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn build(targets: &[String], line: &mut dyn FnMut(&str)) -> Result<bool> {
    let step = || Step::new("cargo").args(["+nightly", "fuzz", "build"]).limit(BUILD);
    if targets == self::targets() {
        return step().lines(line);
    }
    targets.iter().try_fold(true, |well, target| Ok(well && step().args([target]).lines(line)?))
}

/// Runs these targets, as many at a time as there are CPUs; passes each result to `take`.
pub(crate) fn run_targets(targets: &[String], seconds: u64, take: impl FnMut(Fuzzed)) {
    let targets = targets.iter().map(String::as_str).collect();
    workers::share(targets, workers::cpus(), |target| run_target(target, seconds), take);
}

fn run_target(target: &str, seconds: u64) -> Fuzzed {
    let (started, mut printed) = (SystemTime::now(), Vec::new());
    let outcome = step(target, seconds).and_then(|step| {
        printed.push(format!("$ {}", step.shown()));
        step.quietly(&mut |line| printed.push(line.to_owned()))
    });
    let well = outcome.unwrap_or_else(|error| {
        printed.push(format!("{error:#}"));
        false
    });
    if !well {
        printed.extend(how_to_reproduce(&root(), target, started));
    }
    Fuzzed { target: target.to_owned(), well, printed }
}

/// Builds the command that runs a target.
fn step(target: &str, seconds: u64) -> Result<Step> {
    // libFuzzer writes its finds to the first folder only: the seeds in the tree stay unchanged.
    let found = target_dir().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found)?;
    let seeds = root().join("fuzz/corpus").join(target);
    let folders = [Some(&found), seeds.is_dir().then_some(&seeds)].into_iter().flatten();
    let step = Step::new("cargo").args(["+nightly", "fuzz", "run", target]);
    let step = step.args(folders.map(|folder| folder.to_string_lossy()));
    let step = step.args(["--", &format!("-max_total_time={seconds}"), "-timeout=10", "-verbosity=0"]);
    Ok(step.limit(Duration::from_secs(seconds) + AROUND))
}

impl Fuzzed {
    /// Prints one line; after a finding, preceded by the target's whole output.
    pub(crate) fn tell(&self) {
        if !self.well {
            self.printed.iter().for_each(|line| println!("{line}"));
        }
        println!("{:6} fuzz target {}", if self.well { "ok" } else { "FAILED" }, self.target);
    }
}

/// Returns a line for each failing input that a target has written below this folder since `since`.
fn how_to_reproduce(root: &Path, target: &str, since: SystemTime) -> Vec<String> {
    let inputs = newer_files(&root.join("fuzz/artifacts").join(target), since);
    let line = |input: PathBuf| {
        let input = input.strip_prefix(root).unwrap_or(&input).to_owned();
        format!("reproduce: cargo +nightly fuzz run {target} {}", input.display())
    };
    inputs.into_iter().map(line).collect()
}

fn newer_files(folder: &Path, since: SystemTime) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let new = files.filter(|f| f.metadata().and_then(|m| m.modified()).is_ok_and(|time| time >= since));
    new.map(|f| f.path()).collect()
}

#[cfg(test)]
#[path = "fuzz_tests.rs"]
mod tests;
