//! `cargo xtask soak`: runs a router that forwards beside one that commits every misdeed of a guest, for a long time.
//!
//! All input must come out or be dropped under a counter's name; memory, descriptors and threads must not grow; then
//! SIGKILL follows in more rounds than a test has time for.
//!
//! With `--group` it runs a group of routers on a stressed host instead, which must not suspect any of its members; with `--multistage`
//! one that has balancers, which it must not suspect either.

mod alarms;
mod run;
mod usage;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::arguments::number;
use crate::step::{Step, release_build};
use alarms::Kind;
use run::Soak;
use support::Need;

/// Time limit of one round of SIGKILL.
const ROUND: Duration = Duration::from_secs(5);

/// Seconds of a group on a stressed host, unless the caller says how many.
const GROUP_SECONDS: u64 = 3600;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    minutes: u64,
    rounds: u64,
    /// Seconds of a group on a stressed host, in the place of everything else.
    group: Option<u64>,
    kind: Kind,
}

/// Returns the reason why a soak is not possible here.
pub(crate) fn missing() -> Option<String> {
    support::missing(&[Need::Root, Need::Tun, Need::Program("ip"), Need::Program("busybox")])
}

/// Runs it; returns true if all requirements were met. The last line is a summary.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = parse(arguments)?;
    if let Some(why) = missing() {
        bail!("a soak is not possible here: {why}");
    }
    let mut faults = Vec::new();
    if let Some(seconds) = options.group {
        faults.extend(alarms::watch(&release_build()?, options.kind, Duration::from_secs(seconds))?);
    } else {
        if options.minutes > 0 {
            faults.extend(traffic(Duration::from_secs(options.minutes * 60))?);
        }
        if options.rounds > 0 && !killed(options.rounds)? {
            faults.push("the rounds of SIGKILL failed".to_owned());
        }
    }
    for fault in &faults {
        println!("FAULT {fault}");
    }
    let verdict = if faults.is_empty() { "holds" } else { "FAILS" };
    println!("soak {verdict}: {} faults", faults.len());
    Ok(faults.is_empty())
}

/// Runs traffic beside a hostile router for `time`; returns the faults.
pub(crate) fn traffic(time: Duration) -> Result<Vec<String>> {
    let report = Soak::start(&release_build()?)?.go_on(time)?;
    println!("{}", report.summary());
    Ok(report.faults().into_iter().collect())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { minutes: 30, rounds: 300, group: None, kind: Kind::Parallel };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--minutes" => options.minutes = number(word, &mut rest)?,
            "--rounds" => options.rounds = number(word, &mut rest)?,
            "--group" => options.group = options.group.or(Some(GROUP_SECONDS)),
            "--multistage" => {
                options.kind = Kind::Multistage;
                options.group = options.group.or(Some(GROUP_SECONDS));
            }
            "--seconds" => options.group = Some(number(word, &mut rest)?),
            _ => bail!(
                "unexpected argument `{word}`; there are --minutes N, --rounds N, --group, --multistage and --seconds N"
            ),
        }
    }
    Ok(options)
}

/// Runs the kill loops of the long tier with more rounds.
fn killed(rounds: u64) -> Result<bool> {
    let limit = Duration::from_secs(600) + ROUND * u32::try_from(rounds)?;
    let step =
        Step::new("cargo").args(["test", "--profile", "quick", "--package", "ringroad", "--test", "e2e"]);
    step.args(["t12_killed::long::", "--", "--test-threads=1", "--nocapture"])
        .env("RINGROAD_ROUNDS", rounds.to_string())
        .limit(limit)
        .run()
}

#[cfg(test)]
#[path = "soak_tests.rs"]
mod tests;
