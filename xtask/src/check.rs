//! `cargo xtask check`: checks that a change must pass in addition to its tests.

use anyhow::Result;

use crate::step::{Step, installed, root, succeeds};
use crate::{deny, forbidden_deps, measured, sources};

/// Result of one check.
enum Outcome {
    Passed,
    Failed,
    Skipped(&'static str),
}

impl From<bool> for Outcome {
    fn from(well: bool) -> Self {
        if well { Self::Passed } else { Self::Failed }
    }
}

type Check = (&'static str, fn() -> Result<Outcome>);

const CHECKS: [Check; 7] = [
    ("house rules", house_rules),
    ("format", format),
    ("lints", lints),
    ("lints of the firmware", firmware_lints),
    ("lints of the fuzz targets", fuzz_lints),
    ("documentation", documentation),
    ("licences and sources", licences),
];

/// Runs all checks, even after one has failed; returns true if none failed.
pub(crate) fn run() -> Result<bool> {
    let mut report = Vec::new();
    let mut well = true;
    for (name, check) in CHECKS {
        println!("\n== {name}");
        let outcome = check()?;
        well &= !matches!(outcome, Outcome::Failed);
        report.push((name, outcome));
    }
    println!();
    for (name, outcome) in report {
        match outcome {
            Outcome::Passed => println!("ok       {name}"),
            Outcome::Failed => println!("FAILED   {name}"),
            Outcome::Skipped(why) => println!("skipped  {name}: {why}"),
        }
    }
    Ok(well)
}

/// Lists the checks that are skipped on this host, with the reasons, to be reported at the end of the tests.
pub(crate) fn lacking() -> Vec<String> {
    let tools = [
        ("cargo", ["fmt", "--version"], "format"),
        ("cargo", ["clippy", "--version"], "lints"),
        ("cargo", ["deny", "--version"], "licences and sources"),
    ];
    let missing = tools.iter().filter(|(program, arguments, _)| !succeeds(program, arguments));
    let missing = missing.map(|(_, [tool, _], check)| {
        format!("check of {check}: cargo {tool} is not installed: cargo xtask setup")
    });
    missing.chain(no_fuzz_lints(installed)).collect()
}

/// Message for the lints of the fuzz targets if those cannot be built.
fn no_fuzz_lints(installed: impl Fn(&str) -> bool) -> Option<String> {
    (!installed("c++")).then(|| format!("check of lints of the fuzz targets: {NO_LINKER}"))
}

/// Reason why the lints of the fuzz targets are skipped.
const NO_LINKER: &str = "libFuzzer needs a C++ compiler: apt-get install g++";

fn house_rules() -> Result<Outcome> {
    let faults = sources::faults(&root())?;
    let lines =
        faults.iter().map(ToString::to_string).chain(measured::stale()?).chain(forbidden_deps::faults()?);
    let lines: Vec<String> = lines.collect();
    for line in &lines {
        println!("{line}");
    }
    Ok(lines.is_empty().into())
}

fn format() -> Result<Outcome> {
    if !succeeds("cargo", &["fmt", "--version"]) {
        return Ok(Outcome::Skipped("rustfmt is not installed: rustup component add rustfmt"));
    }
    let mut well = Step::new("cargo").args(["fmt", "--all", "--check"]).run()?;
    for manifest in outside_the_workspace() {
        well &= Step::new("cargo").args(["fmt", "--check", "--manifest-path", manifest]).run()?;
    }
    Ok(well.into())
}

fn outside_the_workspace() -> impl Iterator<Item = &'static str> {
    ["guest/Cargo.toml", "fuzz/Cargo.toml"].into_iter().filter(|manifest| root().join(manifest).is_file())
}

fn clippy() -> Option<Step> {
    succeeds("cargo", &["clippy", "--version"]).then(|| Step::new("cargo").args(["clippy", "--quiet"]))
}

const NO_CLIPPY: Outcome = Outcome::Skipped("clippy is not installed: rustup component add clippy");

fn lints() -> Result<Outcome> {
    let Some(step) = clippy() else { return Ok(NO_CLIPPY) };
    Ok(step.args(["--workspace", "--all-targets", "--", "--deny", "warnings"]).run()?.into())
}

/// The firmware has no standard library, hence no test harness, and aborts on panic: lint its release profile
/// only.
fn firmware_lints() -> Result<Outcome> {
    let manifest = "guest/Cargo.toml";
    if !root().join(manifest).is_file() {
        return Ok(Outcome::Skipped("there is no guest/Cargo.toml"));
    }
    let Some(step) = clippy() else { return Ok(NO_CLIPPY) };
    let step = step.args(["--release", "--manifest-path", manifest, "--", "--deny", "warnings"]);
    Ok(step.run()?.into())
}

fn fuzz_lints() -> Result<Outcome> {
    let manifest = "fuzz/Cargo.toml";
    if !root().join(manifest).is_file() {
        return Ok(Outcome::Skipped("there is no fuzz/Cargo.toml"));
    }
    if !installed("c++") {
        return Ok(Outcome::Skipped(NO_LINKER));
    }
    let Some(step) = clippy() else { return Ok(NO_CLIPPY) };
    Ok(step.args(["--manifest-path", manifest, "--", "--deny", "warnings"]).run()?.into())
}

fn documentation() -> Result<Outcome> {
    let step = Step::new("cargo").args(["doc", "--quiet", "--workspace", "--no-deps"]);
    Ok(step.env("RUSTDOCFLAGS", "--deny warnings").run()?.into())
}

fn licences() -> Result<Outcome> {
    let outcome = deny::check()?;
    Ok(outcome.map_or(Outcome::Skipped("cargo-deny is not installed: cargo xtask setup"), Outcome::from))
}

#[cfg(test)]
mod tests {
    use super::no_fuzz_lints;

    #[test]
    fn lints_of_the_fuzz_targets_that_are_skipped_are_told_at_the_end_of_the_tests() {
        assert_eq!(no_fuzz_lints(|_| true), None);
        let told = no_fuzz_lints(|program| program != "c++").expect("a line");
        assert!(told.contains("lints of the fuzz targets") && told.contains("g++"), "{told}");
    }
}
