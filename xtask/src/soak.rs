//! `cargo xtask soak`: a router that forwards beside one that does everything a guest must not do, for a long time.
//!
//! What goes in comes out or is dropped under a name; memory, descriptors and threads stay what they are; then SIGKILL
//! in more rounds than a test has time for.

mod run;
mod usage;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::step::{Step, target_dir};
use run::Soak;
use support::Need;

/// One round of SIGKILL takes less.
const ROUND: Duration = Duration::from_secs(5);

struct Options {
    minutes: u64,
    rounds: u64,
}

/// Runs it; true if everything held. The last line sums up.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = parse(arguments)?;
    let needs = [Need::Root, Need::Tun, Need::Program("ip"), Need::Program("busybox")];
    if let Some(why) = support::missing(&needs) {
        bail!("a soak is not possible here: {why}");
    }
    let build = Step::new("cargo").args(["build", "--release", "--package", "ringroad"]);
    ensure!(build.run()?, "the release build failed");
    let binary = target_dir().join("release/ringroad");
    let mut faults = Vec::new();
    let mut told = Vec::new();
    if options.minutes > 0 {
        let report =
            Soak::start(&binary.to_string_lossy())?.go_on(Duration::from_secs(options.minutes * 60))?;
        told.push(report.summary());
        faults.extend(report.faults());
    }
    if options.rounds > 0 {
        let well = killed(options.rounds)?;
        told.push(format!("{} times SIGKILL", options.rounds));
        faults.extend((!well).then(|| "t12_killed failed".to_owned()));
    }
    for fault in &faults {
        println!("FAULT {fault}");
    }
    let verdict = if faults.is_empty() { "holds" } else { "FAILS" };
    println!("soak {verdict}: {}; {} faults", told.join("; "), faults.len());
    Ok(faults.is_empty())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { minutes: 30, rounds: 300 };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u64> {
            let value = rest.next().with_context(|| format!("{word} needs a number"))?;
            value.parse().with_context(|| format!("{word} {value}: not a number"))
        };
        match word.as_str() {
            "--minutes" => options.minutes = number()?,
            "--rounds" => options.rounds = number()?,
            _ => bail!("unexpected argument `{word}`; there are --minutes N and --rounds N"),
        }
    }
    Ok(options)
}

/// The test of the same name, longer.
fn killed(rounds: u64) -> Result<bool> {
    let limit = Duration::from_secs(600) + ROUND * u32::try_from(rounds)?;
    let step =
        Step::new("cargo").args(["test", "--release", "--package", "ringroad", "--test", "t12_killed"]);
    step.args(["--", "--test-threads=1", "--nocapture"])
        .env("RINGROAD_ROUNDS", rounds.to_string())
        .limit(limit)
        .run()
}
