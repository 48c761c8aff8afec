//! What this host tells of what packets cost: where that is kept from run to run, which machine it is true for, and by which clock.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustix::process::geteuid;
use sched::costs::Costs;
use sched::guarantee::{Day, Machine};
use telemetry::Moment;
use vmm::probe::tsc_khz;

/// How long the time-stamp counter is watched: this tells its speed to some parts in 100,000.
const TIMED: Duration = Duration::from_millis(20);

/// What is known of costs from other runs.
pub(super) fn load(now: Instant) -> Costs {
    match folder() {
        Ok(folder) => Costs::load(folder, machine(), now),
        Err(error) => Costs::nowhere(Some(format!("{error:#}")), machine(), now),
    }
}

/// Where state is kept: where systemd says, else `/var/lib/ringroad` for root, else in the user's own folder for it.
///
/// # Errors
/// One line: the user has none.
fn folder() -> Result<PathBuf> {
    let place = |name: &str| {
        let value = std::env::var_os(name)?.into_string().ok()?;
        // systemd may name several.
        let first = PathBuf::from(value.split(':').next()?);
        first.is_absolute().then_some(first)
    };
    if let Some(folder) = place("STATE_DIRECTORY") {
        return Ok(folder);
    }
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/ringroad"));
    }
    let own = place("XDG_STATE_HOME").or_else(|| Some(place("HOME")?.join(".local/state")));
    let none = || anyhow!("what packets cost is not remembered: no place for it; set XDG_STATE_HOME");
    Ok(own.ok_or_else(none)?.join("ringroad"))
}

/// The machine that costs are true for.
pub(super) fn machine() -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Machine {
        cpu: measure::processor::name(&cpuinfo),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        ringroad: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// By the clock of the day, UTC.
pub(super) fn today() -> Option<Day> {
    Moment::now().to_string().get(..10)?.parse().ok()
}

/// Cycles of the time-stamp counter in a second. They are counted once, for as long as [`TIMED`].
pub(super) fn hertz() -> f64 {
    static HERTZ: OnceLock<f64> = OnceLock::new();
    *HERTZ.get_or_init(|| tsc_khz(TIMED) as f64 * 1e3)
}
