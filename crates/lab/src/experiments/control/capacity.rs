//! Capacity: the rate that one router forwards with its vCPU and vhost thread on one CPU, the load generator on another.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::experiment::Options;
use crate::rig::router_run::{File, Link, RouterRun, StateDirectory};
use crate::scenario::load::{SendMode, step};

/// Loads that are tried, in frames a second; the last is the highest that the socket can offer. A router's best rate is not
/// always at the heaviest load.
const LOADS: [f64; 7] = [60e3, 120e3, 180e3, 260e3, 380e3, 560e3, f64::INFINITY];
/// Lead-in and length of each try.
const TRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(250));

/// Forwarded share of the offered load below which the search ends: such a router is far beyond its best load.
const FAR_BEYOND: f64 = 0.4;

/// A guarantee that always fits and changes nothing while the router is alone on its CPU.
pub(in crate::experiments) const LITTLE: &str = "guarantee = \"1kpps\"\n";

/// Configuration lines that pin all threads of a router to one CPU.
pub(in crate::experiments) fn on(cpu: usize) -> String {
    format!("pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n")
}

/// Measures the best forwarding rate over all loads, in frames a second. With `memory`, the router gets a small guarantee, so
/// that the supervisor learns its costs per packet.
///
/// # Errors
/// The router does not run, or no frame arrived.
pub(super) fn measure(
    options: &Options,
    link: Link,
    cpu: usize,
    memory: Option<&StateDirectory>,
) -> Result<f64> {
    let promise = if memory.is_some() { LITTLE } else { "" };
    let routers = [format!("{}{promise}", on(cpu))];
    RouterRun::with_routers(&File { memory, ..File::new(options, link, &routers) }, best)
}

/// Best rate of a room's first router, in frames a second, while the other routers are idle.
///
/// # Errors
/// No frame was forwarded.
pub(in crate::experiments) fn best(room: &RouterRun) -> Result<f64> {
    let mut best: f64 = 0.0;
    for rate in LOADS {
        let found = step(room, &[rate], TRY, SendMode::PLAIN)?;
        best = best.max(found.forwarded_kpps(0) * 1e3);
        if found.forwarded_kpps(0) < FAR_BEYOND * found.offered_kpps(0) {
            break;
        }
    }
    ensure!(best > 0.0, "nothing came through");
    Ok(best)
}

/// Best rate over all loads, measured only once in this process for each kind of router, so that results side by side share
/// one scale.
///
/// # Errors
/// As [`measure`].
pub(in crate::experiments) fn once(options: &Options, link: Link, cpu: usize) -> Result<f64> {
    static KNOWN: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());
    let kind = format!("{}/{}/{}", options.device(), options.frame, link.name());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(&kind) {
        return Ok(*found);
    }
    let found = measure(options, link, cpu, None)?;
    known.insert(kind, found);
    Ok(found)
}
