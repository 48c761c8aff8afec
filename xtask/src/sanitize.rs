//! `cargo xtask sanitize`: the tests of the crates that touch memory of others, those of the commit tier, under
//! AddressSanitizer.

use anyhow::{Result, bail};

use crate::fuzz::has_nightly;
use crate::step::Step;

/// What is run if nothing else is asked for.
const CRATES: [&str; 3] = ["ring", "nic", "vhost-user"];
/// Sanitizers instrument programs for a named target only, and not the programs that build them.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests of the named crates, or of all; true if they were well, or cannot be run here.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if let Some(unknown) = arguments.iter().find(|name| !CRATES.contains(&name.as_str())) {
        bail!("no crate `{unknown}` to run under AddressSanitizer; there are: {}", CRATES.join(", "));
    }
    if !has_nightly() {
        println!("SKIPPED: the nightly toolchain is not installed: rustup toolchain install nightly");
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

/// All but the examples in the documentation, each of which would be built on its own.
fn tests_of(name: &str) -> Step {
    let package = format!("ringroad-{name}");
    Step::new("cargo")
        .args(["+nightly", "test", "--package", &package, "--lib", "--tests", "--target", TARGET])
        .args(["--", "--skip", "::all::", "--skip", "::long::"])
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // What plays a guest is given away for good: that is no fault.
        .env("ASAN_OPTIONS", "detect_leaks=0")
}
