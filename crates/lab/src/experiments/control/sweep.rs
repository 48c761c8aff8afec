//! `placement`, `priorities`, `threads`, `reservation` and `reserved-queue`: one router, offered more and more; `parallel`: several that are
//! one, and `multistage`, balancers before back ends.

use std::time::Duration;

use anyhow::{Error, Result};
use config::VhostThreads;
use host::cores;
use sched::account::Split;

use super::stages::StageSeats;
use super::{capacity, cases};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::metric::usage::{self, Reader, Stage};
use crate::rig::router_run::{File, GroupShape, Link, RouterRun};
use crate::scenario::load::{SendMode, step};
use crate::scenario::{LoadSweep, Step};

/// Loads as multiples of the capacity: from light to the highest of the paper's generator, relative to the paper's capacity (1488
/// kpps and 900 kpps).
const ALL: [f64; 7] = [0.3, 0.6, 0.7, 0.8, 1.0, 1.3, 1.65];
/// Loads of cases of which only the plateau is of interest.
const FEW: [f64; 3] = [0.6, 1.0, 1.65];
/// The load that is judged: more than a share of a CPU carries, and not too much for the generator's CPU.
const FULL: [f64; 1] = [1.0];

/// Pause after a step in which queued frames are forwarded.
const REST: Duration = Duration::from_millis(20);

/// Loads of a case, and the time that each is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum Loads {
    /// All loads.
    All,
    /// All loads, for whole periods of 200 ms.
    AllInPeriods,
    /// Three loads, for whole periods of 200 ms.
    FewInPeriods,
    /// The capacity of one CPU, for whole periods of 200 ms.
    Full,
}

impl Loads {
    fn each(self) -> &'static [f64] {
        match self {
            Self::All | Self::AllInPeriods => &ALL,
            Self::FewInPeriods => &FEW,
            Self::Full => &FULL,
        }
    }

    /// Lead-in, and least measured time.
    fn times(self) -> (Duration, Duration) {
        match self {
            Self::All => (Duration::from_millis(250), Duration::from_millis(600)),
            _ => (Duration::from_millis(400), Duration::from_secs(1)),
        }
    }

    /// Lead-in and time of a load. If the options ask for longer steps, they apply to the judged loads; of [`Loads::FewInPeriods`]
    /// that is only the capacity of one CPU.
    fn times_of(self, load: f64, options: &Options) -> (Duration, Duration) {
        let (lead, least) = self.times();
        let is_judged = self != Self::FewInPeriods || FULL.contains(&load);
        (lead, if is_judged { options.step(least) } else { least })
    }
}

/// Placement and settings of a router in the room.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct RouterPlacement {
    /// Lines of its configuration table.
    pub(super) lines: String,
    pub(super) vhost: VhostThreads,
    pub(super) vcpus: u16,
    pub(super) queue_len: Option<&'static str>,
    /// CPU on which the kernel receives frames; none: the load generator's, as if interrupts were served elsewhere.
    pub(super) arrive_at: Option<usize>,
    /// True if a thread of the router shares the load generator's CPU.
    pub(super) beside_load: bool,
    /// CPU whose usage is reported.
    pub(super) cpu: usize,
    pub(super) loads: Loads,
    /// Group that stands in the router's place; none: it is a router.
    pub(super) group: Option<GroupShape>,
    /// CPUs to which the lab pins the threads of the group's stages; none: the lines place them.
    pub(super) seats: Option<StageSeats>,
}

/// Returns an experiment with a case for each of these placements.
///
/// # Errors
/// There are fewer than two CPUs.
pub(in crate::experiments) fn described(
    id: &'static str,
    options: &Options,
    cases: fn(&Options) -> Vec<cases::Case>,
) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let one = |(end, stand): cases::Case| {
        let name = format!("{}/{}/macvtap/{end}", options.device(), options.frame);
        // If this host cannot provide the placement, keep the reason instead.
        let stand = stand.map_err(|error| format!("{error:#}"));
        let options = options.clone();
        let build = move || {
            let stand = stand.clone().map_err(Error::msg)?;
            cores::pin(cpus.0)?;
            let capacity = capacity::once(&options, Link::Macvtap, cpus.1)?;
            let options = options.clone();
            anyhow::Ok(move |_: Duration| repetition(id, &options, cpus.0, &stand, capacity))
        };
        Case::from(Experiment::new((id, "kpps"), name, build).whole().between(cpus))
    };
    Ok(cases(options).into_iter().map(one).collect())
}

fn repetition(
    id: &str,
    options: &Options,
    load_cpu: usize,
    stand: &RouterPlacement,
    capacity: f64,
) -> Result<Sample> {
    cores::pin(load_cpu)?;
    let (vhost, vcpus) = (stand.vhost, stand.vcpus);
    let options = Options { vhost, vcpus, queues: vcpus, ..options.clone() };
    let routers = [stand.lines.clone()];
    let (queue_len, group) = (stand.queue_len, stand.group);
    let file = File { queue_len, group, ..File::new(&options, Link::Macvtap, &routers) };
    // The tracer takes part of the core whose forwarding rate the other experiments measure.
    let reader = || if id == "threads" { Reader::traced() } else { Reader::by_ticks() };
    RouterRun::with_routers(&file, |room| sweep(room, &options, stand, capacity, reader))
}

/// Offers all loads in order.
fn sweep(
    room: &RouterRun,
    options: &Options,
    stand: &RouterPlacement,
    capacity: f64,
    reader: impl FnOnce() -> Result<Reader>,
) -> Result<Sample> {
    let manner = SendMode { sleeps: stand.beside_load, short: stand.queue_len.is_some() };
    if let Some(cpu) = stand.arrive_at {
        room.arrive_at(cpu)?;
    }
    if let Some(group) = stand.group {
        room.wait_for_members(&mut room.client()?, group.members())?;
    }
    if let Some(seats) = &stand.seats {
        room.pin_threads(|thread| seats.cpu(&thread.name))?;
    }
    let mut reader = reader()?;
    let mut look = || reader.look(&room.threads()?);
    let mut climb = LoadSweep::of(capacity);
    for &load in stand.loads.each() {
        let rate = load * capacity;
        let before = look()?;
        let step = step(room, &[rate], stand.loads.times_of(load, options), manner)?;
        let split = Split::between(&before, &look()?);
        climb.count(&step, rate);
        climb.more.extend(told(load, &step, stand, &split));
        std::thread::sleep(REST);
    }
    let (best, last) = climb.best_and_last()?;
    climb.more.extend([
        ("overload_kpps", last),
        ("kept", last / best),
        ("offered_short", climb.short),
        ("traced", f64::from(u8::from(reader.is_traced()))),
    ]);
    climb.sample(best)
}

fn told(load: f64, step: &Step, stand: &RouterPlacement, split: &Split) -> Vec<(String, f64)> {
    let used = usage::used(split, None);
    let mut told = vec![
        (format!("offered_at_{load:?}"), step.offered_kpps(0)),
        (format!("forwarded_at_{load:?}"), step.forwarded_kpps(0)),
        (format!("vcpu_at_{load:?}"), used.vcpu * 100.0),
        (format!("vhost_at_{load:?}"), used.vhost * 100.0),
    ];
    if stand.group.is_some_and(GroupShape::is_multistage) {
        told.extend(of_stages(load, split));
    }
    let mut shares = |names: [&str; 2], parts: [f64; 2]| {
        told.extend(
            names.into_iter().zip(parts).map(|(name, part)| (format!("{name}_at_{load:?}"), part * 100.0)),
        );
    };
    if let Some(parts) = usage::of_cpu(split, stand.cpu) {
        shares(["softirq", "idle"], parts);
    }
    // Usage of the core that takes the interrupts, if it is another one.
    let core0 = stand.arrive_at.filter(|cpu| *cpu != stand.cpu);
    if let Some(parts) = core0.and_then(|cpu| usage::interrupts_of(split, cpu)) {
        shares(["core0_interrupts", "core0_idle"], parts);
    }
    told
}

/// CPU time of the threads of both stages, and of the group's own thread, in percent of one core.
fn of_stages(load: f64, split: &Split) -> Vec<(String, f64)> {
    let of = |(stage, name): (Stage, &str)| {
        let used = usage::of_stage(split, stage);
        [
            (format!("{name}_vcpu_at_{load:?}"), used.vcpu * 100.0),
            (format!("{name}_vhost_at_{load:?}"), used.vhost * 100.0),
        ]
    };
    let stages = [(Stage::Balancer, "balancer"), (Stage::BackEnd, "back_end")].into_iter().flat_map(of);
    stages.chain([(format!("group_at_{load:?}"), usage::of_groups(split) * 100.0)]).collect()
}

#[cfg(test)]
mod tests;
