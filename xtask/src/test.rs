//! `cargo xtask test`: every test there is, and one line that sums up.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::step::{Step, root, target_dir};
use crate::tally::Tally;
use crate::{fuzz, inbox, packages};

/// Seconds that each fuzz target runs here.
const SMOKE_SECONDS: u64 = 5;

/// End-to-end tests that run once more: where more of them fail, it is not the host.
const MOST_AGAIN: usize = 3;

/// Runs everything; true if nothing failed.
pub(crate) fn run() -> Result<bool> {
    packages::install()?;
    let mut tally = Tally::default();
    crates(&mut tally)?;
    loom_models(&mut tally)?;
    end_to_end(&mut tally)?;
    inbox::all(&mut tally)?;
    fuzz_smoke(&mut tally)?;

    tally.tell();
    Ok(tally.failed == 0)
}

/// Unit, property and conformance tests of all crates, with debug assertions.
fn crates(tally: &mut Tally) -> Result<()> {
    let step = cargo_test().args(["--workspace", "--exclude", "ringroad", "--exclude", "ringroad-inbox"]);
    stage(tally, "crates", &step.args(SHOW_OUTPUT))
}

/// The tests of the command itself, numbered in `tests/`, with the command as it is released but for the last step of its
/// optimisation. One at a time: they look for what others leave behind on the host.
///
/// They work with clocks and threads of a host that may stop for seconds: a few that fail run once more, and what failed is
/// told even if it held then.
fn end_to_end(tally: &mut Tally) -> Result<()> {
    let step = || {
        let step = cargo_test().args(["--release", "--package", "ringroad"]).quickly_linked();
        step.args(SHOW_OUTPUT).args(["--test-threads=1"])
    };
    let mut first = Tally::default();
    stage(&mut first, "end to end", &step())?;
    let failed = first.failed_tests();
    if (1..=MOST_AGAIN).contains(&failed.len()) {
        let mut second = Tally::default();
        stage(&mut second, "end to end, once more", &step().args(["--exact"]).args(&failed))?;
        first.mend(&second);
    }
    tally.take(first);
    Ok(())
}

/// Model checks: `crates/*/tests/*_loom.rs`, compiled with `--cfg loom` into a target folder of their own.
fn loom_models(tally: &mut Tally) -> Result<()> {
    for (krate, models) in loom_files()? {
        let step = cargo_test()
            .args(["--release", "--manifest-path", &format!("crates/{krate}/Cargo.toml")])
            .args(models.iter().flat_map(|model| ["--test", model]))
            .args(SHOW_OUTPUT)
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target_dir().join("loom"))
            .quickly_linked();
        stage(tally, &format!("models of {krate}"), &step)?;
    }
    Ok(())
}

/// Crate folders that have models, with the names of the models.
fn loom_files() -> Result<Vec<(String, Vec<String>)>> {
    let mut found = Vec::new();
    for krate in std::fs::read_dir(root().join("crates"))? {
        let krate = krate?;
        let Ok(tests) = std::fs::read_dir(krate.path().join("tests")) else { continue };
        let paths = tests.filter_map(Result::ok).map(|test| test.path());
        let mut models: Vec<String> = paths.filter_map(model_name).collect();
        models.sort();
        if !models.is_empty() {
            found.push((krate.file_name().to_string_lossy().into_owned(), models));
        }
    }
    found.sort();
    Ok(found)
}

fn model_name(path: PathBuf) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".rs")?;
    name.ends_with("_loom").then(|| name.to_owned())
}

/// Each fuzz target for a moment, where the tools are there.
fn fuzz_smoke(tally: &mut Tally) -> Result<()> {
    println!("\n== fuzz targets, {SMOKE_SECONDS} s each");
    for target in fuzz::targets() {
        if let Some(missing) = fuzz::missing_tool() {
            tally.skipped.push(format!("fuzz target {target}: {missing} is not installed"));
            continue;
        }
        let mut printed = Vec::new();
        if fuzz::run_target(&target, SMOKE_SECONDS, &mut |line| printed.push(line.to_owned()))? {
            tally.passed += 1;
        } else {
            printed.iter().for_each(|line| println!("{line}"));
            tally.fail(&format!("fuzz target {target}"), printed.iter().map(String::as_str));
        }
    }
    Ok(())
}

const SHOW_OUTPUT: [&str; 2] = ["--", "--show-output"];

fn cargo_test() -> Step {
    let step = Step::new("cargo").args(["test", "--no-fail-fast"]);
    step.env("CARGO_TERM_COLOR", "never").limit(Duration::from_secs(3000))
}

fn stage(tally: &mut Tally, name: &str, step: &Step) -> Result<()> {
    println!("\n== {name}");
    let failed_before = tally.failed;
    let well = step.lines(&mut |line| {
        if tally.line(line) {
            println!("{line}");
        }
    })?;
    tally.end_stage(name, well, failed_before);
    Ok(())
}
