//! `boot`: from nothing to the first frame that a router has forwarded. Frames are offered all the time, so the first
//! one comes through as soon as the router can take it.
//!
//! Two cases: within this process, and from the start of a command (a new process of the same program, `ringroad-lab`, runs the
//! first case once and says how long ago it was started).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::Router;
use engine::{Duty, Guest};
use port::pump;
use rustix::time::{ClockId, clock_gettime};

use super::Case;
use crate::device;
use crate::experiment::{Experiment, Further, Options, Sample};
use crate::generator::Generator;
use crate::metric::exits;
use crate::report::ResultLine;
use crate::rig::Mover;
use crate::stats;

/// A router that has forwarded nothing by then never will.
const PATIENCE: Duration = Duration::from_secs(10);
/// The program of the lab.
const PROGRAM: &str = "ringroad-lab";
/// Tells a new process when it was started: nanoseconds of `CLOCK_MONOTONIC`.
const STARTED: &str = "RINGROAD_BOOT_STARTED";
/// The figure by which it answers.
const SINCE_START: &str = "since_start_ms";

/// What one boot took, in milliseconds.
struct Times {
    /// All.
    all: f64,
    /// Making the virtual machine and its devices.
    vm: f64,
    /// From the start of the vCPUs until they serve.
    firmware: f64,
    /// From there to the first frame.
    first_frame: f64,
    exits: u64,
    /// Since the process was started, if somebody said when that was.
    since_start: Option<f64>,
}

/// Both cases; only the first where this program is not that of the lab, or has been started by the second.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let program = std::env::current_exe().ok();
    let program = program.filter(|path| path.file_name() == Some(OsStr::new(PROGRAM)));
    let asked = std::env::var_os(STARTED).is_some();
    boots(options, program.filter(|_| !asked))
}

/// Boots within this process, and by this program if there is one.
///
/// # Errors
/// There is no CPU for them.
pub fn boots(options: &Options, program: Option<PathBuf>) -> Result<Vec<Case>> {
    // The second CPU is for the router, if there are two.
    let cpu = options.cpu(1).or_else(|_| options.cpu(0))?;
    let case = |program: Option<PathBuf>| {
        let from = if program.is_some() { "command" } else { "in-process" };
        let name = format!("{}{}/{from}", options.device(), options.several_vcpus());
        let options = options.clone();
        Case::from(Experiment::unbuilt(("boot", "ms"), name, move |length| {
            let plan = device::plan(&options, &[cpu])?;
            as_many_as_fit(length, || match &program {
                None => boot(&plan, &options),
                Some(program) => started(program, &options),
            })
        }))
    };
    let command = program.map(|program| case(Some(program)));
    Ok([case(None)].into_iter().chain(command).collect())
}

/// As many boots as fit, at least one; the figures are their medians.
fn as_many_as_fit(length: Duration, boot: impl Fn() -> Result<Times>) -> Result<Sample> {
    let (start, mut boots) = (Instant::now(), Vec::new());
    while boots.is_empty() || start.elapsed() < length {
        boots.push(boot()?);
    }
    let median =
        |of: fn(&Times) -> f64| stats::median(&boots.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let mut more = Further::from([
        ("vm_ms", median(|boot| boot.vm)),
        ("firmware_ms", median(|boot| boot.firmware)),
        ("first_frame_ms", median(|boot| boot.first_frame)),
        ("exits", median(|boot| boot.exits as f64)),
        ("boots", boots.len() as f64),
    ]);
    if let Some(Some(since)) = boots.first().map(|boot| boot.since_start) {
        more.push(SINCE_START, since);
    }
    Ok(Sample { value: median(|boot| boot.all), more, ..Sample::default() })
}

fn ms(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64() * 1e3
}

fn boot(plan: &Router, options: &Options) -> Result<Times> {
    let settings = device::traffic(options);
    let mut generator = Generator::new(&settings)?;
    let sink = Arc::new(device::sink(&settings));
    let start = Instant::now();
    let mut router = Guest::new(plan, Duty::default(), &device::ground(options)?)?;
    let made = Instant::now();
    router.launch()?;
    let (into, mut out_of) = (router.nics()[0].sink(), Mover::new(&router.nics()[1], sink.clone()));
    let mut ready = None;
    // The router announces itself; that is not a forwarded frame.
    while sink.counters().frames.get() <= sink.counters().foreign.get() {
        ready = ready.or_else(|| router.is_ready().then(Instant::now));
        pump(&mut generator, into.as_ref());
        out_of.pump();
        if start.elapsed() > PATIENCE {
            let fault = router.fault().unwrap_or_else(|| "nobody knows why".to_owned());
            anyhow::bail!("no frame was forwarded within {PATIENCE:?}: {fault}");
        }
    }
    let end = Instant::now();
    let since_start = since_start();
    let ready = ready.unwrap_or(end);
    let times = Times {
        all: ms(start, end),
        vm: ms(start, made),
        firmware: ms(made, ready),
        first_frame: ms(ready, end),
        exits: exits(&router),
        since_start,
    };
    router.stop();
    // What the router says of itself is looked at, too, and is none of the generator's frames.
    ensure!(sink.counters().bad.get() <= sink.counters().foreign.get(), "the first frames came out damaged");
    Ok(times)
}

/// Nanoseconds of the clock that all processes share.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Milliseconds since this process was started, if it was told when.
fn since_start() -> Option<f64> {
    let started: u64 = std::env::var(STARTED).ok()?.parse().ok()?;
    Some(monotonic().saturating_sub(started) as f64 * 1e-6)
}

/// Starts the program and hears from it how long it took.
fn started(program: &Path, options: &Options) -> Result<Times> {
    let mut command = Command::new(program);
    command.args(["run", "boot", "--seconds", "0.001", "--repeat", "1"]);
    command.args(["--vcpus", &options.vcpus.to_string(), "--engine", &options.engine]);
    command.args(["--nic", options.nic.name(), "--mode", options.mode.name()]);
    if !options.cpus.is_empty() {
        // It would inherit that this thread is pinned to one.
        let cpus: Vec<String> = options.cpus.iter().map(usize::to_string).collect();
        command.args(["--cpus", &cpus.join(",")]);
    }
    let output =
        command.env(STARTED, monotonic().to_string()).output().context("cannot start the command")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the command failed: {}", complaint.trim());
    let line = text.lines().find_map(ResultLine::parse).context("the command printed no result")?;
    let figure = |name: &str| line.figure(name).unwrap_or(f64::NAN);
    Ok(Times {
        all: figure(SINCE_START),
        vm: figure("vm_ms"),
        firmware: figure("firmware_ms"),
        first_frame: figure("first_frame_ms"),
        exits: figure("exits") as u64,
        since_start: None,
    })
}
