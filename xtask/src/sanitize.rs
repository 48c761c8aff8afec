//! `cargo xtask sanitize`: runs the commit-tier tests of the crates that access shared memory under
//! AddressSanitizer. Part of the tier `all`.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::fuzz::has_nightly;
use crate::step::Step;
use crate::tally::Tally;

/// Crates that are tested by default.
const CRATES: [&str; 4] = ["ring", "nic", "nic-port", "vhost-user"];
/// Sanitizers instrument programs only for an explicit target, and not the build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Time limit of a crate: everything is built once more.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the tests of the named crates, or of all; returns true if they passed, or cannot be run here.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if let Some(unknown) = arguments.iter().find(|name| !CRATES.contains(&name.as_str())) {
        bail!("no crate `{unknown}` to run under AddressSanitizer; there are: {}", CRATES.join(", "));
    }
    if let Some(why) = missing(has_nightly()) {
        println!("SKIPPED: {why}");
        return Ok(true);
    }
    let mut well = true;
    for name in CRATES {
        if arguments.is_empty() || arguments.iter().any(|argument| argument == name) {
            well &= tests_of(name).run()?;
        }
    }
    Ok(well)
}

/// Runs the tests of all crates, and counts them.
pub(crate) fn all(tally: &mut Tally) -> Result<()> {
    println!("\n== tests under AddressSanitizer");
    let tests = CRATES.map(|name| (name, tests_of(name)));
    run_all(&tests, missing(has_nightly()), tally, &mut |line| println!("{line}"))
}

fn run_all(
    tests: &[(&str, Step)],
    missing: Option<&str>,
    tally: &mut Tally,
    tell: &mut dyn FnMut(&str),
) -> Result<()> {
    let Some(why) = missing else {
        return tests.iter().try_for_each(|(name, tests)| count(name, tests, tally, tell));
    };
    tally.skipped.extend(tests.iter().map(|(name, _)| format!("{name} under AddressSanitizer: {why}")));
    Ok(())
}

/// Returns the reason why no tests can be run here.
fn missing(has_nightly: bool) -> Option<&'static str> {
    (!has_nightly).then_some("the nightly toolchain is not installed: rustup toolchain install nightly")
}

/// Runs tests and counts them, together with findings of the sanitizer, which abort the test program.
fn count(name: &str, tests: &Step, tally: &mut Tally, tell: &mut dyn FnMut(&str)) -> Result<()> {
    let (before, mut found) = (tally.failed, None);
    let well = tests.lines(&mut |line| {
        if tally.line(line) {
            tell(line);
        }
        if let Some(what) = line.strip_prefix("SUMMARY: AddressSanitizer: ") {
            found = Some(what.to_owned());
        }
    })?;
    let name = format!("{name} under AddressSanitizer");
    tally.end_stage(&name, well, before);
    if let Some(what) = found {
        tally.fail(&format!("{name}: {what}"), []);
    }
    Ok(())
}

/// Command for all tests but the documentation examples, each of which would be built on its own.
fn tests_of(name: &str) -> Step {
    let package = format!("ringroad-{name}");
    Step::new("cargo")
        .args(["+nightly", "test", "--package", &package, "--lib", "--tests", "--target", TARGET])
        .args(["--", "--show-output", "--skip", "::all::", "--skip", "::long::"])
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // Memory that plays a guest's is leaked on purpose.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .limit(LIMIT)
}

#[cfg(test)]
#[path = "sanitize_tests.rs"]
mod tests;
