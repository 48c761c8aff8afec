//! `placement`, `priorities`, `threads`, `reservation` and `reserved-queue`: one router, offered more and more.

use std::time::Duration;

use anyhow::{Error, Result};
use config::VhostThreads;
use host::cores;
use sched::account::Split;

use super::{capacity, cases};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::metric::usage::{self, Reader};
use crate::rig::room::{File, Link, Room};
use crate::scenario::load::{Manner, step};
use crate::scenario::{Climb, Step};

/// Loads as fractions of the capacity: from little to what the paper's generator gave at most, in its own measure: 1488 kpps beside a
/// capacity of 900.
const ALL: [f64; 7] = [0.3, 0.6, 0.7, 0.8, 1.0, 1.3, 1.65];
/// Where only the plateau is of interest.
const FEW: [f64; 3] = [0.6, 1.0, 1.65];
/// The one of them that is judged: more than a part of a CPU carries, and not too much for the CPU that it comes from.
const FULL: [f64; 1] = [1.0];

/// After a step: what waits is forwarded.
const REST: Duration = Duration::from_millis(20);

/// Which loads a case gets, and how long each is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum Loads {
    /// All of them.
    All,
    /// All, for whole periods of 200 ms.
    AllInPeriods,
    /// Three of them, for whole periods of 200 ms.
    FewInPeriods,
    /// What one CPU carries, for whole periods of 200 ms.
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

    /// Lead, and least time that is measured.
    fn times(self) -> (Duration, Duration) {
        match self {
            Self::All => (Duration::from_millis(250), Duration::from_millis(600)),
            _ => (Duration::from_millis(400), Duration::from_secs(1)),
        }
    }

    /// Lead and time of a load. Longer ones, if they are asked for, are for what is judged: of a few loads that is what one CPU
    /// carries.
    fn times_of(self, load: f64, options: &Options) -> (Duration, Duration) {
        let (lead, least) = self.times();
        let is_judged = self != Self::FewInPeriods || FULL.contains(&load);
        (lead, if is_judged { options.step(least) } else { least })
    }
}

/// How a router stands in the room.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct Stand {
    /// Lines of its table.
    pub(super) lines: String,
    pub(super) vhost: VhostThreads,
    pub(super) vcpus: u16,
    pub(super) queue_len: Option<&'static str>,
    /// CPU on which the kernel takes frames in; none: that of the load, as if interrupts were served elsewhere.
    pub(super) arrive_at: Option<usize>,
    /// Whether a thread of the router shares the CPU of the load.
    pub(super) beside_load: bool,
    /// The CPU whose use is told.
    pub(super) cpu: usize,
    pub(super) loads: Loads,
}

/// An experiment in which a router stands in each of these ways.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn described(
    id: &'static str,
    options: &Options,
    cases: fn(&Options) -> Vec<cases::Case>,
) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let one = |(end, stand): cases::Case| {
        let name = format!("{}/{}/macvtap/{end}", options.device(), options.frame);
        // Why it cannot stand so on this host, in place of how.
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

fn repetition(id: &str, options: &Options, load_cpu: usize, stand: &Stand, capacity: f64) -> Result<Sample> {
    cores::pin(load_cpu)?;
    let (vhost, vcpus) = (stand.vhost, stand.vcpus);
    let options = Options { vhost, vcpus, queues: vcpus, ..options.clone() };
    let routers = [stand.lines.clone()];
    let file = File { queue_len: stand.queue_len, ..File::new(&options, Link::Macvtap, &routers) };
    // The tracer takes some of the core that the rates of other experiments are about.
    let reader = || if id == "threads" { Reader::traced() } else { Reader::by_ticks() };
    Room::visit(&file, |room| sweep(room, &options, stand, capacity, reader))
}

/// All loads in order.
fn sweep(
    room: &Room,
    options: &Options,
    stand: &Stand,
    capacity: f64,
    reader: impl FnOnce() -> Result<Reader>,
) -> Result<Sample> {
    let manner = Manner { sleeps: stand.beside_load, short: stand.queue_len.is_some() };
    if let Some(cpu) = stand.arrive_at {
        room.arrive_at(cpu)?;
    }
    let mut reader = reader()?;
    let mut look = || reader.look(&usage::threads(room.supervisor())?);
    let mut climb = Climb::of(capacity);
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

fn told(load: f64, step: &Step, stand: &Stand, split: &Split) -> Vec<(String, f64)> {
    let used = usage::used(split, None);
    let mut told = vec![
        (format!("offered_at_{load:?}"), step.offered_kpps(0)),
        (format!("forwarded_at_{load:?}"), step.forwarded_kpps(0)),
        (format!("vcpu_at_{load:?}"), used.vcpu * 100.0),
        (format!("vhost_at_{load:?}"), used.vhost * 100.0),
    ];
    let mut shares = |names: [&str; 2], parts: [f64; 2]| {
        told.extend(
            names.into_iter().zip(parts).map(|(name, part)| (format!("{name}_at_{load:?}"), part * 100.0)),
        );
    };
    if let Some(parts) = usage::of_cpu(split, stand.cpu) {
        shares(["softirq", "idle"], parts);
    }
    // Of the core that interrupts come to, where it is another one.
    let core0 = stand.arrive_at.filter(|cpu| *cpu != stand.cpu);
    if let Some(parts) = core0.and_then(|cpu| usage::interrupts_of(split, cpu)) {
        shares(["core0_interrupts", "core0_idle"], parts);
    }
    told
}

#[cfg(test)]
mod tests;
