//! Speed of the lab itself: generator to sink in one thread, with nothing in between.

use std::time::Duration;

use anyhow::Result;

use crate::experiments::port_to_port;
use crate::generator::Settings;
use crate::rig::Through;

/// Factor by which generator and sink alone must exceed a result for it to be trusted.
pub const HEADROOM: f64 = 1.5;

/// Measures the rate from generator to sink, flat out, for `length` in the calling thread; in millions of
/// frames a second.
pub fn mpps(settings: &Settings, length: Duration) -> Result<f64> {
    let mut experiment = port_to_port::with(Through::Wire, Settings { rate: None, ..settings.clone() });
    experiment.prepare()?;
    Ok(experiment.run_slice(length)?.value)
}
