//! `cargo xtask fuzz`: runs fuzz targets, and says how to reproduce what they find.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};

use crate::arguments::number;
use crate::step::{Step, root, succeeds, target_dir};

/// Runs the named targets, or all; true if none crashed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (seconds, chosen) = parse(arguments)?;
    let targets = chosen_targets(chosen)?;
    install()?;
    let mut well = true;
    for target in &targets {
        well &= run_target(target, seconds, &mut |line| println!("{line}"))?;
    }
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

/// The names of all targets: files in `fuzz/fuzz_targets`.
pub(crate) fn targets() -> Vec<String> {
    let files =
        std::fs::read_dir(root().join("fuzz/fuzz_targets")).into_iter().flatten().filter_map(Result::ok);
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whether the nightly toolchain is installed.
pub(crate) fn has_nightly() -> bool {
    succeeds("cargo", &["+nightly", "--version"])
}

/// A tool that fuzzing needs and that is not there.
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

/// Runs one target, whose lines go to `line`; true if it found nothing.
pub(crate) fn run_target(target: &str, seconds: u64, line: &mut dyn FnMut(&str)) -> Result<bool> {
    // libFuzzer writes what it finds to the first folder only: the seeds in the tree stay as they are.
    let found = target_dir().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found)?;
    let seeds = root().join("fuzz/corpus").join(target);
    let started = SystemTime::now();
    let mut step = Step::new("cargo").args(["+nightly", "fuzz", "run", target]);
    step = step.args([found.to_string_lossy()]);
    if seeds.is_dir() {
        step = step.args([seeds.to_string_lossy()]);
    }
    step = step.args(["--", &format!("-max_total_time={seconds}"), "-timeout=10", "-verbosity=0"]);
    // The first build of a target takes minutes.
    let well = step.limit(Duration::from_secs(seconds + 900)).lines(line)?;
    if !well {
        tell_how_to_reproduce(target, started);
    }
    Ok(well)
}

fn tell_how_to_reproduce(target: &str, since: SystemTime) {
    println!("fuzz target {target} failed");
    for input in newer_files(&root().join("fuzz/artifacts").join(target), since) {
        let input = input.strip_prefix(root()).unwrap_or(&input).to_owned();
        println!("reproduce: cargo +nightly fuzz run {target} {}", input.display());
    }
}

fn newer_files(folder: &Path, since: SystemTime) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let new = files.filter(|f| f.metadata().and_then(|m| m.modified()).is_ok_and(|time| time >= since));
    new.map(|f| f.path()).collect()
}
