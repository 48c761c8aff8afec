//! The measuring room's own speed: generator to sink in one thread, with nothing in between.

use std::time::Duration;

use anyhow::Result;

use crate::experiments::port_to_port;
use crate::generator::Settings;
use crate::rig::Through;

/// A result is trusted when generator and sink alone are at least so many times as fast.
pub const HEADROOM: f64 = 1.5;

/// Million frames a second from generator to sink, flat out, measured for `length` in the calling thread.
pub fn mpps(settings: &Settings, length: Duration) -> Result<f64> {
    let mut experiment = port_to_port::with(Through::Wire, Settings { rate: None, ..settings.clone() });
    experiment.prepare()?;
    Ok(experiment.run_slice(length)?.value)
}
