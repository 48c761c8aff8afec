//! `placement`, `priorities`, `threads`, `reservation` and `reserved-queue`: one router, offered more and more.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use config::VhostThreads;
use host::cores;
use sched::account::Split;

use super::capacity;
use super::cases;
use super::load::{Manner, Step, step};
use super::usage::{self, Reader};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Link;
use crate::experiments::room::{File, Room, program};
use crate::ledger_snapshot::Snapshot;

/// One load, and what its figures are called.
pub(super) struct Load {
    /// Fraction of the capacity.
    at: f64,
    offered: &'static str,
    forwarded: &'static str,
    vcpu: &'static str,
    vhost: &'static str,
    softirq: &'static str,
    idle: &'static str,
    /// Of the core that interrupts come to, where it is another one.
    core0: [&'static str; 2],
}

macro_rules! load {
    ($at:literal) => {
        Load {
            at: $at,
            offered: concat!("offered_at_", $at),
            forwarded: concat!("forwarded_at_", $at),
            vcpu: concat!("vcpu_at_", $at),
            vhost: concat!("vhost_at_", $at),
            softirq: concat!("softirq_at_", $at),
            idle: concat!("idle_at_", $at),
            core0: [concat!("core0_interrupts_at_", $at), concat!("core0_idle_at_", $at)],
        }
    };
}

/// From little to what the paper's generator gave at most, in its own measure: 1488 kpps beside a capacity of 900.
const ALL: [Load; 7] = [load!(0.3), load!(0.6), load!(0.7), load!(0.8), load!(1.0), load!(1.3), load!(1.65)];
/// Where only the plateau is of interest.
const FEW: [Load; 3] = [load!(0.6), load!(1.0), load!(1.65)];
/// The one of them that is judged: more than a part of a CPU carries, and not too much for the CPU that it comes from.
const FULL: [Load; 1] = [load!(1.0)];

/// After a step: what waits is forwarded.
const REST: Duration = Duration::from_millis(20);

/// Which loads a case gets, and how long each is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
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
    fn each(self) -> &'static [Load] {
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

    /// Lead and time of the n-th load. Longer ones, if they are asked for, are for what is judged: of a few loads that is what
    /// one CPU carries.
    fn times_of(self, load: usize, options: &Options) -> (Duration, Duration) {
        let (lead, least) = self.times();
        let is_judged =
            self != Self::FewInPeriods || self.each().get(load).is_some_and(|load| load.at == FULL[0].at);
        (lead, if is_judged { options.step(least) } else { least })
    }
}

/// How a router stands in the room.
#[derive(Clone, Debug)]
pub(super) struct Stand {
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

/// See the head of this file.
pub struct Sweep {
    id: &'static str,
    name: String,
    options: Options,
    cpus: (usize, usize),
    /// Why it cannot stand so on this host, in place of how.
    stand: Result<Stand, String>,
    capacity: f64,
}

impl Sweep {
    /// `placement`: one core, two, and more, bound or not (seed paper 000, figure 2).
    ///
    /// # Errors
    /// There are not two CPUs. So for all of these.
    pub fn placements(options: &Options) -> Result<Vec<Self>> {
        Self::of("placement", options, cases::placements(options))
    }

    /// `priorities`: real-time priorities of vCPU and vhost thread on one CPU (figure 3).
    ///
    /// # Errors
    /// See above.
    pub fn priorities(options: &Options) -> Result<Vec<Self>> {
        Self::of("priorities", options, cases::priorities(options))
    }

    /// `threads`: one or two vhost threads, one or two vCPUs (figures 4 to 7).
    ///
    /// # Errors
    /// See above.
    pub fn threads(options: &Options) -> Result<Vec<Self>> {
        Self::of("threads", options, cases::threads(options))
    }

    /// `reservation`: part of a CPU for the vhost thread or the vCPU (figures 10 to 12).
    ///
    /// # Errors
    /// See above.
    pub fn reservations(options: &Options) -> Result<Vec<Self>> {
        Self::of("reservation", options, cases::reservations(options))
    }

    /// `reserved-queue`: lengths of the queue before a router with a reserved vCPU (figures 14 and 15).
    ///
    /// # Errors
    /// See above.
    pub fn reserved_queues(options: &Options) -> Result<Vec<Self>> {
        Self::of("reserved-queue", options, cases::reserved_queues(options))
    }

    fn of(id: &'static str, options: &Options, cases: Vec<cases::Case>) -> Result<Vec<Self>> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        let one = |(name, stand): cases::Case| {
            let stand = stand.map_err(|error| format!("{error:#}"));
            Self { id, name, options: options.clone(), cpus, stand, capacity: 0.0 }
        };
        Ok(cases.into_iter().map(one).collect())
    }

    fn stand(&self) -> Result<&Stand> {
        self.stand.as_ref().map_err(|why| anyhow::anyhow!("{why}"))
    }

    /// All loads in order.
    fn sweep(&self, room: &Room, stand: &Stand) -> Result<Sample> {
        let manner = Manner { sleeps: stand.beside_load, short: stand.queue_len.is_some() };
        if let Some(cpu) = stand.arrive_at {
            room.arrive_at(cpu)?;
        }
        let mut reader = self.reader()?;
        let mut look = || reader.look(&usage::threads(room.supervisor())?);
        let mut more = vec![("capacity_kpps", self.capacity * 1e-3)];
        let (mut best, mut packets, mut last, mut short) = (0.0, 0, 0.0, 0.0);
        for (at, load) in stand.loads.each().iter().enumerate() {
            let rate = load.at * self.capacity;
            let before = look()?;
            let step = step(room, &[rate], stand.loads.times_of(at, &self.options), manner)?;
            let split = Split::between(&before, &look()?);
            last = step.forwarded_kpps(0);
            best = f64::max(best, last);
            short = f64::max(short, step.short(0, rate));
            packets += step.forwarded.first().copied().unwrap_or(0);
            more.extend(told(load, &step, stand, &split));
            std::thread::sleep(REST);
        }
        ensure!(best > 0.0, "nothing came through");
        more.extend([("overload_kpps", last), ("kept", last / best), ("offered_short", short)]);
        more.push(("traced", f64::from(u8::from(reader.is_traced()))));
        Ok(Sample { value: best, packets, lost: 0, exits: None, more, ledger: Snapshot::new() })
    }

    /// The tracer takes some of the core that the rates of other experiments are about.
    fn reader(&self) -> Result<Reader> {
        if self.id == "threads" { Reader::traced() } else { Reader::by_ticks() }
    }
}

fn told(load: &Load, step: &Step, stand: &Stand, split: &Split) -> Vec<(&'static str, f64)> {
    let used = usage::used(split, None);
    let mut told = vec![
        (load.offered, step.offered_kpps(0)),
        (load.forwarded, step.forwarded_kpps(0)),
        (load.vcpu, used.vcpu * 100.0),
        (load.vhost, used.vhost * 100.0),
    ];
    if let Some([softirq, idle]) = usage::of_cpu(split, stand.cpu) {
        told.extend([(load.softirq, softirq * 100.0), (load.idle, idle * 100.0)]);
    }
    let core0 = stand.arrive_at.filter(|cpu| *cpu != stand.cpu);
    if let Some(parts) = core0.and_then(|cpu| usage::interrupts_of(split, cpu)) {
        told.extend(load.core0.into_iter().zip(parts.map(|part| part * 100.0)));
    }
    told
}

impl Experiment for Sweep {
    fn id(&self) -> &'static str {
        self.id
    }

    fn case(&self) -> String {
        let (device, frame) = (self.options.device(), self.options.frame);
        format!("{device}/{frame}/macvtap/{}", self.name)
    }

    fn unit(&self) -> &'static str {
        "kpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        self.stand()?;
        cores::pin(self.cpus.0)?;
        self.capacity = capacity::once(&self.options, Link::Macvtap, self.cpus.1)?;
        Ok(())
    }

    fn run_slice(&mut self, _: Duration) -> Result<Sample> {
        let stand = self.stand()?;
        cores::pin(self.cpus.0)?;
        let (vhost, vcpus) = (stand.vhost, stand.vcpus);
        let options = Options { vhost, vcpus, queues: vcpus, ..self.options.clone() };
        let routers = [stand.lines.clone()];
        let file = File {
            options: &options,
            link: Link::Macvtap,
            queue_len: stand.queue_len,
            routers: &routers,
            memory: None,
        };
        let lines = || format!("with {}", stand.lines.trim().replace('\n', ", "));
        let room = Room::open(&program()?, &file).with_context(lines)?;
        let sample = self.sweep(&room, stand);
        room.close()?;
        sample
    }
}

#[cfg(test)]
mod tests {
    use sched::account::CoreSplit;

    use super::*;

    #[test]
    fn what_interrupts_take_is_told_where_they_have_a_core_of_their_own() {
        let options = Options { cpus: vec![0, 1, 2, 3, 4], ..Options::default() };
        let core = |interrupts: f64| CoreSplit {
            irq: interrupts / 4.0,
            softirq: interrupts * 0.75,
            idle: 100.0 - interrupts,
            ..CoreSplit::default()
        };
        let cores = [(1, core(92.0)), (3, core(4.0))].into();
        let split = Split { interval: 100.0, cores, ..Split::default() };
        let step = Step { seconds: 1.0, offered: vec![2000], forwarded: vec![1000] };
        let told = |name: &str| {
            let (_, stand) = cases::threads(&options).into_iter().find(|(case, _)| case == name).unwrap();
            told(&FULL[0], &step, &stand.unwrap(), &split)
        };
        let own = told("2v1c/own-cores");
        for cell in [("core0_interrupts_at_1.0", 92.0), ("core0_idle_at_1.0", 8.0), ("softirq_at_1.0", 3.0)] {
            assert!(own.contains(&cell), "{cell:?}: {own:?}");
        }
        assert!(!told("2v1c/together").iter().any(|(name, _)| name.starts_with("core0")));
    }

    #[test]
    fn what_is_judged_takes_as_long_as_was_asked_for() {
        let options = Options { step: Some(5.0), ..Options::default() };
        let times = |loads: Loads, options: &Options| {
            let all = 0..loads.each().len();
            all.map(|at| loads.times_of(at, options).1.as_secs_f64()).collect::<Vec<_>>()
        };
        assert_eq!(times(Loads::FewInPeriods, &options), [1.0, 5.0, 1.0]);
        assert_eq!((times(Loads::All, &options), times(Loads::Full, &options)), (vec![5.0; 7], vec![5.0]));
        let nobody = Options::default();
        assert_eq!((times(Loads::All, &nobody), times(Loads::Full, &nobody)), (vec![0.6; 7], vec![1.0]));
    }
}
