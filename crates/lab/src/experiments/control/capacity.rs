//! Capacity: what one router carries with vCPU and vhost thread on one CPU, the load on another one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::experiment::Options;
use crate::rig::room::{File, Link, Memory, Room};
use crate::scenario::load::{Manner, step};

/// Loads that are tried, frames a second; the last one: all that the socket gives. A router's best rate is not always at the
/// heaviest load.
const LOADS: [f64; 7] = [60e3, 120e3, 180e3, 260e3, 380e3, 560e3, f64::INFINITY];
/// Lead and length of each try.
const TRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(250));

/// Part of what is offered; a router that forwards less is far beyond its best load.
const FAR_BEYOND: f64 = 0.4;

/// A promise that always fits and changes nothing where nobody else is on the CPU.
const LITTLE: &str = "guarantee = \"1kpps\"\n";

/// Lines of the table of a router that stands on one CPU with all its threads.
pub(in crate::experiments) fn on(cpu: usize) -> String {
    format!("pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n")
}

/// The best rate of all loads, frames a second. Where something is to be remembered, the router is promised a little, so that
/// the command sees what packets cost.
///
/// # Errors
/// The router does not run, or nothing came through.
pub(super) fn measure(options: &Options, link: Link, cpu: usize, memory: Option<&Memory>) -> Result<f64> {
    let promise = if memory.is_some() { LITTLE } else { "" };
    let routers = [format!("{}{promise}", on(cpu))];
    Room::visit(&File { memory, ..File::new(options, link, &routers) }, best)
}

/// The best rate of a room's first router, frames a second, while the others have nothing to do.
fn best(room: &Room) -> Result<f64> {
    let mut best: f64 = 0.0;
    for rate in LOADS {
        let found = step(room, &[rate], TRY, Manner::PLAIN)?;
        best = best.max(found.forwarded_kpps(0) * 1e3);
        if found.forwarded_kpps(0) < FAR_BEYOND * found.offered_kpps(0) {
            break;
        }
    }
    ensure!(best > 0.0, "nothing came through");
    Ok(best)
}

/// The best rate of all loads, measured once in this process for each kind of router: what stands side by side has one scale.
///
/// # Errors
/// As [`measure`].
pub(super) fn once(options: &Options, link: Link, cpu: usize) -> Result<f64> {
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
