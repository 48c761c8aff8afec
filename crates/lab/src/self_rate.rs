//! The measuring room's own speed: generator to sink in one thread, with nothing in between.

use std::time::Duration;

use anyhow::Result;

use crate::experiment::Experiment;
use crate::experiments::{PortToPort, Through};
use crate::generator::Settings;

/// A result is trusted when generator and sink alone are at least so many times as fast.
pub const HEADROOM: f64 = 1.5;

/// Million frames a second from generator to sink, flat out, measured for `length` in the calling thread.
pub fn mpps(settings: &Settings, length: Duration) -> Result<f64> {
    let mut experiment = PortToPort::with(Through::Wire, Settings { rate: None, ..settings.clone() });
    experiment.prepare()?;
    Ok(experiment.run_slice(length)?.value)
}
