//! Host side of the packet costs that are remembered from run to run: where they are stored, which machine
//! they hold for, and the clock that they are measured by.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustix::process::geteuid;
use sched::costs::Costs;
use sched::guarantee::{Day, Machine};
use telemetry::Moment;
use vmm::probe::tsc_khz;

/// Measuring time of the time-stamp counter's frequency, which gives it to some parts in 100,000.
const TIMED: Duration = Duration::from_millis(20);

/// Loads the costs learnt in earlier runs.
pub(super) fn load(now: Instant) -> Costs {
    match folder() {
        Ok(folder) => Costs::load(folder, machine(), now),
        Err(error) => Costs::nowhere(Some(format!("{error:#}")), machine(), now),
    }
}

/// State directory: systemd's, else `/var/lib/ringroad` for root, else the user's own state directory.
///
/// # Errors
/// In one line, that the user has none.
fn folder() -> Result<PathBuf> {
    let place = |name: &str| {
        let value = std::env::var_os(name)?.into_string().ok()?;
        // systemd may name several, separated by colons.
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

/// Machine that the costs hold for.
pub(super) fn machine() -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Machine {
        cpu: measure::processor::name(&cpuinfo),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        ringroad: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Today's date, UTC.
pub(super) fn today() -> Option<Day> {
    Moment::now().to_string().get(..10)?.parse().ok()
}

/// Frequency of the time-stamp counter in Hz. It is measured once, during [`TIMED`].
pub(super) fn hertz() -> f64 {
    static HERTZ: OnceLock<f64> = OnceLock::new();
    *HERTZ.get_or_init(|| tsc_khz(TIMED) as f64 * 1e3)
}
