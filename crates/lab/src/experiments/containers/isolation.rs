//! `container-isolation`: two container routers on one core, one of them overloaded in steps (seed paper 003, tables 1 and 3),
//! with and without CPU control. The paper calls control of containers impossible.
//!
//! | case | receive work is done by | control |
//! |---|---|---|
//! | `rps` | softirqs of the core, with one queue for all interfaces | none |
//! | `threads` | NAPI threads | none: equal weights |
//! | `shares` | NAPI threads | the victim's threads have twice the weight |
//! | `guarantee` | NAPI threads | the victim has a guarantee of its load |
//! | `guarantee-pfifo` | NAPI threads | the same, and frames that find a pair's ring full wait in a pfifo at the load's end |
//! | `deadline` | NAPI threads | each of the victim's threads has 0.2 of each millisecond, and what others leave |
//!
//! The victim is the router that is not overloaded. Loads are the paper's fractions of a capacity, as in `isolation`. Each sample
//! first measures the capacity with the same kind of receive work. A sample is the fraction of its load that the victim forwards.

use std::time::Duration;

use anyhow::Result;
use config::Engine;
use host::cores;

use crate::experiment::{Experiment, Options, Sample, named_kind};
use crate::experiments::Case;
use crate::experiments::control::capacity::{LITTLE, best};
use crate::experiments::control::isolation::Overload;
use crate::rig::router_run::{File, Forwarder, Link, RouterRun, StateDirectory, threaded};

/// Unit of the samples.
const UNIT: &str = "kept";
/// Reservation of each of the victim's threads: short periods, because the ring of a pair is full after a quarter of a millisecond. Of its
/// two threads the one behind the load works, and gets what the other one has reserved and does not use.
const RESERVED: &str =
    "sched = { policy = \"deadline\", runtime = \"200us\", period = \"1ms\", reclaim = true }\n";
/// Routers on the core.
const ROUTERS: usize = 2;

named_kind! {
    /// Receive work of the routers, and its control.
    enum Control {
        /// Softirqs, with one queue for all interfaces.
        Softirqs = "rps",
        /// NAPI threads of equal weight.
        Threads = "threads",
        /// NAPI threads; the victim's have twice the weight.
        Shares = "shares",
        /// NAPI threads; the victim has a guarantee of its load.
        Guarantee = "guarantee",
        /// The guarantee, with a pfifo at the load's end of each pair: the ring of a pair has room for a quarter of a millisecond, and a
        /// thread may have to wait longer for the core.
        GuaranteeQueued = "guarantee-pfifo",
        /// NAPI threads; the victim's have reservations.
        Deadline = "deadline",
    }
}

impl Control {
    /// Configuration lines of a router on this CPU; `promised` is the victim's load, in frames a second.
    fn lines(self, cpu: usize, promised: Option<f64>) -> String {
        let weight = if promised.is_some() { 2 } else { 1 };
        match self {
            Self::Softirqs => String::new(),
            Self::Threads => threaded(cpu),
            Self::Shares => {
                format!("{}sched = {{ policy = \"shares\", weight = {weight} }}\n", threaded(cpu))
            }
            Self::Guarantee | Self::GuaranteeQueued => {
                let promise = promised.map(|rate| format!("guarantee = \"{rate:.0}pps\"\n"));
                format!("{}{}", threaded(cpu), promise.unwrap_or_default())
            }
            Self::Deadline => format!("{}{}", threaded(cpu), promised.map_or("", |_| RESERVED)),
        }
    }

    /// Configuration lines of the router whose capacity is measured. A small guarantee makes the command learn the cost of a packet.
    fn alone(self, cpu: usize) -> String {
        match self {
            Self::Softirqs | Self::Threads | Self::Deadline => self.lines(cpu, None),
            Self::Shares | Self::Guarantee | Self::GuaranteeQueued => format!("{}{LITTLE}", threaded(cpu)),
        }
    }

    /// Queueing discipline at the load's end of each pair.
    fn qdisc(self) -> Option<&'static str> {
        (self == Self::GuaranteeQueued).then_some("pfifo")
    }

    /// Places the receive work on this CPU. The command itself pins threads.
    fn place(self, room: &RouterRun, cpu: usize) -> Result<()> {
        match self {
            Self::Softirqs => room.arrive_at(cpu),
            Self::Threads | Self::Shares | Self::Guarantee | Self::GuaranteeQueued | Self::Deadline => Ok(()),
        }
    }
}

/// Returns a case for each engine, overloaded router and control.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    each("container-isolation", options, &[Engine::Kernel, Engine::Lxc], &Control::ALL)
}

/// Returns the cases of engine kernel in which the victim has twice the weight or a guarantee.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn protected(options: &Options) -> Result<Vec<Case>> {
    each("container-protected", options, &[Engine::Kernel], &[Control::Shares, Control::Guarantee])
}

fn each(
    experiment: &'static str,
    options: &Options,
    engines: &[Engine],
    controls: &[Control],
) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for engine in engines.iter().copied() {
        for overloaded in 0..ROUTERS {
            for control in controls.iter().copied() {
                let overload = Overload { routers: ROUTERS, overloaded };
                cases.push(Contended { engine, overload, control }.case(experiment, options)?);
            }
        }
    }
    Ok(cases)
}

/// Two routers with veth pairs on one core.
#[derive(Clone, Copy)]
struct Contended {
    engine: Engine,
    overload: Overload,
    control: Control,
}

impl Contended {
    fn case(self, experiment: &'static str, options: &Options) -> Result<Case> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        let name = format!("{}/{}", options.frame, self.name());
        let options = options.clone();
        let slice = move |_: Duration| {
            cores::pin(cpus.0)?;
            self.repetition(&options, cpus.1)
        };
        Ok(Experiment::unbuilt((experiment, UNIT), name, slice).whole().between(cpus).into())
    }

    fn name(self) -> String {
        let which = if self.overload.overloaded == 0 { "vr1-overloaded" } else { "vr2-overloaded" };
        format!("{}/veth/{which}/{}", self.engine.name(), self.control.name())
    }

    fn repetition(self, options: &Options, cpu: usize) -> Result<Sample> {
        let memory = StateDirectory::new()?;
        let alone = [self.control.alone(cpu)];
        let capacity = self.with_routers(options, (&alone, &memory), cpu, best)?;
        let victim = self.overload.victim();
        let promised = self.overload.part_of(victim) * capacity;
        let lines = |router| self.control.lines(cpu, (router == victim).then_some(promised));
        let routers: Vec<String> = (0..ROUTERS).map(lines).collect();
        self.with_routers(options, (&routers, &memory), cpu, |room| {
            self.overload.measure(options, room, capacity, cpu)
        })
    }

    /// Measures in a room whose routers have these configuration lines.
    fn with_routers<T>(
        self,
        options: &Options,
        (routers, memory): (&[String], &StateDirectory),
        cpu: usize,
        measure: impl FnOnce(&RouterRun) -> Result<T>,
    ) -> Result<T> {
        let by = Forwarder::Command(self.engine);
        let qdisc = self.control.qdisc();
        let file = File { by, memory: Some(memory), qdisc, ..File::new(options, Link::Veth, routers) };
        RouterRun::with_routers(&file, |room| {
            self.control.place(room, cpu)?;
            measure(room)
        })
    }
}

#[cfg(test)]
mod tests;
