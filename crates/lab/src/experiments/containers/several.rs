//! `container-routers`: 1 to 8 routers on one core, or spread over two, with equal parts of the line rate as their loads (seed
//! paper 003, figures 7 and 8).
//!
//! A sample is the total rate of all routers. On a host with two CPUs the second core is also that of the load, which then
//! sleeps between its bursts (`shares_load_core`).

use std::time::Duration;

use anyhow::Result;
use host::cores;

use super::{Stand, line_rate};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};

/// Maximum number of routers: the number of virtual functions of a port of the paper's NIC.
const MOST: usize = 8;
/// Durations of a load: before the measurement begins, and the shortest measurement.
const LEAD: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(700);

/// Set-ups to compare.
const STANDS: [Stand; 8] = [
    Stand::KERNEL_VETH,
    Stand::KERNEL_THREADS,
    Stand::KERNEL_MACVLAN,
    Stand::LXC_VETH,
    Stand::LXC_MACVLAN,
    Stand::MACVTAP,
    Stand::MACVTAP_FOR_VF,
    Stand::KVM_TAP,
];

/// Returns a case for each set-up, number of cores and number of routers.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for stand in STANDS {
        for cores in 1..=2 {
            for routers in 1..=MOST {
                cases.push(case(stand, routers, cores, options)?);
            }
        }
    }
    Ok(cases)
}

fn case(stand: Stand, routers: usize, several: usize, options: &Options) -> Result<Case> {
    let (load, first) = (options.cpu(0)?, options.cpu(1)?);
    let second = options.cpu(2).unwrap_or(load);
    let used = if several == 2 { vec![first, second] } else { vec![first] };
    let cpus: Vec<usize> = (0..routers).map(|router| used[router % used.len()]).collect();
    let name = format!("{}/{}/{routers}-routers/{several}-cores", options.frame, stand.name);
    let options = options.clone();
    let slice = move |_: Duration| {
        cores::pin(load)?;
        let line = line_rate(&options, first)?;
        let manner = SendMode { sleeps: cpus.contains(&load), short: false };
        stand.with_routers(&options, &cpus, |room| together(room, (cpus.len(), line), &options, manner))
    };
    let described = Experiment::unbuilt(("container-routers", "kpps"), name, slice);
    Ok(described.whole().between((load, first)).into())
}

/// Measures `routers` routers that share the line rate, and returns the sample.
fn together(
    room: &RouterRun,
    (routers, line): (usize, f64),
    options: &Options,
    manner: SendMode,
) -> Result<Sample> {
    let rates = vec![line / routers as f64; routers];
    let step = step(room, &rates, (LEAD, options.step(STEP)), manner)?;
    let each: Vec<f64> = (0..routers).map(|router| step.forwarded_kpps(router)).collect();
    let value: f64 = each.iter().sum();
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let offered: f64 = (0..routers).map(|router| step.offered_kpps(router)).sum();
    let more = [
        ("line_kpps", line * 1e-3),
        ("offered_kpps", offered),
        // Rate of the slowest router, as a fraction of an equal share.
        ("least_part", if value > 0.0 { least * routers as f64 / value } else { 0.0 }),
        ("shares_load_core", f64::from(u8::from(manner.sleeps))),
    ];
    Ok(Sample { value, packets: step.packets(), more: more.into(), ..Sample::default() })
}
