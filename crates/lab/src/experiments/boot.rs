//! `boot`: time from the start to the first frame that a router has forwarded. Frames are offered continuously, so the first
//! one arrives as soon as the router can forward.
//!
//! There are two cases: a boot within this process, and a boot from the start of a command (a new process of the same program,
//! `ringroad-lab`, runs the first case once and reports how long ago it was started).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::Router;
use engine::{Guest, GuestTask};
use port::pump;
use rustix::time::{ClockId, clock_gettime};

use super::Case;
use crate::device;
use crate::experiment::{Experiment, ExtraFigures, Options, Sample};
use crate::generator::Generator;
use crate::metric::exits;
use crate::report::ResultLine;
use crate::rig::Mover;
use crate::stats;

/// Timeout: a router that has not forwarded a frame by then never will.
const PATIENCE: Duration = Duration::from_secs(10);
/// Name of the lab's program.
const PROGRAM: &str = "ringroad-lab";
/// Environment variable that gives a new process the time of its start, in nanoseconds of `CLOCK_MONOTONIC`.
const STARTED: &str = "RINGROAD_BOOT_STARTED";
/// Figure in which the new process reports its boot time.
const SINCE_START: &str = "since_start_ms";

/// Durations of the phases of one boot, in milliseconds.
struct Times {
    /// The whole boot.
    all: f64,
    /// Creation of the virtual machine and its devices.
    vm: f64,
    /// From the start of the vCPUs until the firmware is ready.
    firmware: f64,
    /// From the firmware's readiness to the first forwarded frame.
    first_frame: f64,
    exits: u64,
    /// Since the start of the process, if [`STARTED`] was set.
    since_start: Option<f64>,
    /// The steps in which the virtual machine and its devices were created, and the creation of the vCPU; empty for a command, which does
    /// not report them.
    steps: Vec<(&'static str, f64)>,
}

/// Returns both cases; only the first if this program is not the lab's, or was itself started by the second case.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let program = std::env::current_exe().ok();
    let program = program.filter(|path| path.file_name() == Some(OsStr::new(PROGRAM)));
    let asked = std::env::var_os(STARTED).is_some();
    boots(options, program.filter(|_| !asked))
}

/// Returns the case that boots within this process, and the case that starts `program`, if there is one.
///
/// # Errors
/// There are not enough CPUs.
pub fn boots(options: &Options, program: Option<PathBuf>) -> Result<Vec<Case>> {
    // The router gets the second CPU, if there are two.
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

/// Boots as often as fits into `length`, at least once; the figures are medians over the boots.
fn as_many_as_fit(length: Duration, boot: impl Fn() -> Result<Times>) -> Result<Sample> {
    let (start, mut boots) = (Instant::now(), Vec::new());
    while boots.is_empty() || start.elapsed() < length {
        boots.push(boot()?);
    }
    let median =
        |of: fn(&Times) -> f64| stats::median(&boots.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let mut more = ExtraFigures::from([
        ("vm_ms", median(|boot| boot.vm)),
        ("firmware_ms", median(|boot| boot.firmware)),
        ("first_frame_ms", median(|boot| boot.first_frame)),
        ("exits", median(|boot| boot.exits as f64)),
        ("boots", boots.len() as f64),
    ]);
    if let Some(Some(since)) = boots.first().map(|boot| boot.since_start) {
        more.push(SINCE_START, since);
    }
    // Each boot has the same steps.
    for number in 0..boots.first().map_or(0, |boot| boot.steps.len()) {
        let steps: Vec<_> = boots.iter().filter_map(|boot| boot.steps.get(number)).collect();
        let took: Vec<f64> = steps.iter().map(|(_, took)| *took).collect();
        if let (Some((step, _)), Some(median)) = (steps.first(), stats::median(&took)) {
            more.push(format!("{step}_ms"), median);
        }
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
    let mut router = Guest::new(plan, GuestTask::default(), &device::backend(options)?)?;
    let made = Instant::now();
    router.launch()?;
    let (into, mut out_of) = (router.nics()[0].sink(), Mover::new(&router.nics()[1], sink.clone()));
    let mut ready = None;
    // The router announces itself (gratuitous ARP); such frames are not forwarded ones.
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
        steps: router.steps().map(|(step, took)| (step, took.as_secs_f64() * 1e3)).collect(),
    };
    router.stop();
    // The sink also checks the router's announcements, which are not the generator's frames.
    ensure!(sink.counters().bad.get() <= sink.counters().foreign.get(), "the first frames came out damaged");
    Ok(times)
}

/// Reads `CLOCK_MONOTONIC`, which all processes share, in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Milliseconds since this process was started, if [`STARTED`] is set.
fn since_start() -> Option<f64> {
    let started: u64 = std::env::var(STARTED).ok()?.parse().ok()?;
    Some(monotonic().saturating_sub(started) as f64 * 1e-6)
}

/// Runs the program once and reads the boot time from its output.
fn started(program: &Path, options: &Options) -> Result<Times> {
    let mut command = Command::new(program);
    command.args(["run", "boot", "--seconds", "0.001", "--repeat", "1"]);
    command.args(["--vcpus", &options.vcpus.to_string(), "--engine", &options.engine]);
    command.args(["--nic", options.nic.name(), "--mode", options.mode.name()]);
    if !options.cpus.is_empty() {
        // Pass the CPUs explicitly: the child would inherit the affinity of this thread, which is pinned to one CPU.
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
        steps: Vec::new(),
    })
}
