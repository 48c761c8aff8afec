//! `cargo xtask test`: runs the tests of a tier, prints where the time went, and one summary line.
//!
//! The path of a test classifies it: the modules `all` and `long` select its [`tier`], and `alone` requests that nothing else runs
//! at the same time. Each end-to-end test is a process of its own, each other test program one process; as root they run side by
//! side, in namespaces of their own ([`private`]), those that take longest first ([`durations`]). No test is repeated: a test that
//! fails has failed.

mod durations;
mod grace;
mod job;
mod models;
mod pool;
mod private;
mod programs;
mod stress;
mod tier;
mod times;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::fuzz::Fuzzed;
use crate::tally::Tally;
use crate::{attacks, check, deb, fuzz, inbox, sanitize, setup, soak};
use durations::Durations;
use grace::GraceWatch;
use job::Job;
use pool::Pool;
pub(crate) use programs::{Program, built};
use tier::Tier;
use times::Times;

pub(crate) use stress::{Spinners, spin};

/// Seconds that each fuzz target runs in the tiers `all` and `long`.
const FUZZ_SECONDS: (u64, u64) = (5, 120);
/// Cases of each property test in the tier `all`; for a commit, `.cargo/config.toml` sets the number.
const ALL_CASES: u32 = 256;
/// Time limit of a test program in the tier `long`.
const LONG_LIMIT: Duration = Duration::from_secs(7200);
/// Minutes of the soak in the tier `long`.
const SOAK_MINUTES: u64 = 30;
/// Seconds of each attack in the tier `long`, in addition to a third of that at rest.
const ATTACK_SECONDS: u64 = 60;

/// Options of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Tiers to run.
    tiers: Vec<Tier>,
    /// True if spinners take the CPUs away meanwhile.
    pub(crate) stressed: bool,
    /// Run tests whose names contain one of these; all if there are none.
    names: Vec<String>,
}

impl TestOptions {
    /// Parses the arguments of `cargo xtask test`.
    ///
    /// # Errors
    /// An option is unknown.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut wish = Self { tiers: vec![Tier::Commit], stressed: false, names: Vec::new() };
        for argument in arguments {
            match argument.as_str() {
                "--all" => wish.tiers = vec![Tier::Commit, Tier::All],
                "--long" => wish.tiers = vec![Tier::Long],
                "--stressed" => wish.stressed = true,
                other if other.starts_with('-') => {
                    bail!("unknown option `{other}`; there are --all, --long and --stressed")
                }
                name => wish.names.push(name.to_owned()),
            }
        }
        Ok(wish)
    }

    fn wants(&self, tier: Tier) -> bool {
        self.tiers.contains(&tier)
    }

    /// Returns true if a test belongs to a tier that runs, and has a requested name.
    fn takes(&self, test: &str) -> bool {
        let named = self.names.is_empty() || self.names.iter().any(|name| test.contains(name.as_str()));
        named && self.wants(Tier::of(test))
    }
}

/// Runs the tests of a tier; returns true if none failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let tally = tests(&TestOptions::parse(arguments)?)?;
    Ok(tally.failed == 0)
}

/// Runs the requested tests, prints the results, and returns the tally.
pub(crate) fn tests(wish: &TestOptions) -> Result<Tally> {
    let (mut tally, mut times) = (Tally::default(), Times::default());
    times.stage("packages", setup::packages)?;
    let programs = times.stage("build", || programs::build(&mut tally))?;
    if wish.wants(Tier::All) {
        times.stage("kernel of emulated machines", inbox::kernel)?;
    }
    let mut jobs = jobs(&programs, wish)?;
    let common = tempfile::tempdir().context("no folder for what tests have in common")?;
    jobs.iter_mut().for_each(|job| job.common = Some(common.path().to_owned()));
    let durations = Durations::of_the_build_folder();
    durations.longest_first(&mut jobs);
    let spinners = wish.stressed.then(Spinners::start).transpose()?;
    let watch = GraceWatch::start();
    Pool::new(jobs, &mut tally, &mut times).run();
    times.grace(watch.and_then(GraceWatch::end));
    drop(spinners);
    if let Err(why) = durations.keep(times.jobs()) {
        println!("the next run does not know which tests take longest: {why:#}");
    }
    if wish.names.is_empty() {
        whole_stages(wish, &mut tally, &mut times)?;
    }
    times.tell();
    tally.skipped.extend(check::lacking());
    tally.tell();
    Ok(tally)
}

/// Runs the stages that have programs and machines of their own.
fn whole_stages(wish: &TestOptions, tally: &mut Tally, times: &mut Times) -> Result<()> {
    if wish.wants(Tier::All) {
        times.stage("box", || inbox::all(tally))?;
        times.stage("fuzz targets", || fuzz_targets(FUZZ_SECONDS.0, tally))?;
        times.stage("AddressSanitizer", || sanitize::all(tally))?;
        times.stage("package of two builds", || deb::reproducible(tally))?;
    }
    if wish.wants(Tier::Long) {
        times.stage("fuzz targets", || fuzz_targets(FUZZ_SECONDS.1, tally))?;
        times.stage("soak", || soak(tally))?;
        times.stage("attacks", || attacks(tally))?;
    }
    Ok(())
}

/// Creates the jobs of all programs: one for each end-to-end test and for each test that must run alone, and one for the remaining
/// tests of a program.
fn jobs(programs: &[Program], wish: &TestOptions) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for program in programs {
        jobs.extend(program.jobs(wish)?);
    }
    if wish.wants(Tier::Long) {
        jobs.iter_mut().for_each(|job| job.limit = LONG_LIMIT);
    }
    if wish.wants(Tier::All) {
        jobs.iter_mut().for_each(|job| job.cases = Some(ALL_CASES));
        jobs.extend(wish.names.is_empty().then(Job::documentation));
    }
    Ok(jobs)
}

/// Runs each fuzz target for this many seconds, if the tools are installed.
fn fuzz_targets(seconds: u64, tally: &mut Tally) -> Result<()> {
    let targets = fuzz::targets();
    println!("\n== {} fuzz targets, {seconds} s each", targets.len());
    if let Some(missing) = fuzz::missing_tool() {
        let skipped = |target| format!("fuzz target {target}: {missing} is not installed");
        tally.skipped.extend(targets.iter().map(skipped));
        return Ok(());
    }
    let mut printed = Vec::new();
    if !fuzz::build(&targets, &mut |line| printed.push(line.to_owned()))? {
        printed.iter().for_each(|line| println!("{line}"));
        tally.fail("build: fuzz targets", printed.iter().map(String::as_str));
        return Ok(());
    }
    fuzz::run_targets(&targets, seconds, |done| {
        done.tell();
        count(&done, tally);
    });
    Ok(())
}

fn count(done: &Fuzzed, tally: &mut Tally) {
    if done.well {
        tally.passed += 1;
    } else {
        tally.fail(&format!("fuzz target {}", done.target), done.printed.iter().map(String::as_str));
    }
}

fn soak(tally: &mut Tally) -> Result<()> {
    println!("\n== soak, {SOAK_MINUTES} minutes");
    if let Some(why) = soak::missing() {
        tally.skipped.push(format!("soak: {why}"));
        return Ok(());
    }
    let faults = soak::traffic(Duration::from_secs(SOAK_MINUTES * 60))?;
    match faults.as_slice() {
        [] => tally.passed += 1,
        faults => tally.fail("soak", faults.iter().map(String::as_str)),
    }
    Ok(())
}

fn attacks(tally: &mut Tally) -> Result<()> {
    println!("\n== attacks, {ATTACK_SECONDS} s each");
    if let Some(why) = attacks::missing() {
        tally.skipped.push(format!("attacks: {why}"));
        return Ok(());
    }
    let report = attacks::all(ATTACK_SECONDS)?;
    tally.skipped.extend(report.skipped.iter().map(|why| format!("attack {why}")));
    match report.faults.as_slice() {
        [] => tally.passed += 1,
        faults => tally.fail("attacks", faults.iter().map(String::as_str)),
    }
    Ok(())
}

#[cfg(test)]
#[path = "test_tests.rs"]
mod tests_of_this;
