//! `ringroad run`: brings a file up and shows what it does until it is told to stop.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use engine::{Instance, Plugs};

use crate::run_lock::RunLock;
use crate::signals::Stop;
use crate::table::{Interval, Reading, Screen};
use crate::{doctor, host};

/// Between two tables.
const SECOND: Duration = Duration::from_secs(1);

/// How to run.
pub(crate) struct Options {
    /// Stop after this time.
    pub(crate) seconds: Option<f64>,
    /// One JSON object a second instead of the table.
    pub(crate) json: bool,
}

/// Runs a file.
pub(crate) fn run(file: &Path, options: &Options) -> Result<()> {
    let plan = config::load(file)?;
    let errors = plan.check_host(&host::facts());
    if !errors.is_empty() {
        return Err(errors.into());
    }
    vmm::open_kvm()?;
    if plan.nics().any(|(_, nic)| matches!(nic.attach, config::Attach::Tap(_))) {
        doctor::need(doctor::tun_device())?;
    }
    // Held until everything below is gone.
    let _lock = RunLock::take(plan.routers.iter().map(|router| router.name.as_str()))?;
    let stop = Stop::listen()?;
    let instance = match Instance::start(&plan, Plugs::new()) {
        // A signal interrupts what the kernel was asked for; whoever sent it wants the end, not the reason.
        Err(_) if stop.is_asked() => return Ok(()),
        started => started?,
    };
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    show(&instance, &stop, end, options.json)
}

fn show(instance: &Instance, stop: &Stop, end: Option<Instant>, json: bool) -> Result<()> {
    let mut screen = Screen::new();
    // From zero: what came while the file was brought up belongs to the first interval.
    let mut last = Reading::zero(instance.since);
    loop {
        let left = end.map_or(SECOND, |end| end.saturating_duration_since(Instant::now()).min(SECOND));
        let asked = stop.wait(left);
        let reading = Reading::take(instance);
        let interval = Interval::between(&last, &reading);
        if json {
            crate::print(&(interval.json() + "\n"))?;
        } else {
            screen.show(&interval.table(instance))?;
        }
        last = reading;
        if let Some(fault) = instance.fault() {
            bail!("{fault}");
        }
        if asked || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
    }
}
