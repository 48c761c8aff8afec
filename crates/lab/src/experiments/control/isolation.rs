//! `isolation`: routers that share one CPU; one is overloaded in steps, and what the others keep is measured (seed paper 003,
//! section 4.2, tables 2, 4 and 5).
//!
//! The first router is offered the paper's fraction of the capacity, the second one more and more; where there are more than two,
//! all others together what the paper's second one is offered. The capacity is measured anew before each sample. A sample is the
//! part of its load that the router keeps which is not overloaded, at the heaviest step.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host::cores;
use sched::account::Split;

use super::capacity;
use super::load::{Manner, Step, step};
use super::usage::{self, Reader};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Link;
use crate::experiments::room::{File, Memory, Room, program};
use crate::ledger_snapshot::Snapshot;

/// Capacity of the paper's core, kpps: both routers together in overload, as its tables 2 and 4 print it.
const PAPER: f64 = 1241.0;
/// Time before a step is measured, in which what controls it settles, and least time of a step: whole periods of what a controller
/// corrects in.
const LEAD: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_secs(1);

/// What the first two routers are offered in a step, in the paper's kpps, and what the step's figures are called.
struct Offer {
    kpps: [f64; 2],
    offered: [&'static str; 2],
    forwarded: [&'static str; 2],
    cpu: [&'static str; 2],
    total: &'static str,
    kept: &'static str,
}

macro_rules! offer {
    ($first:literal, $second:literal, $step:literal) => {
        Offer {
            kpps: [$first, $second],
            offered: [concat!("vr1_offered_", $step), concat!("vr2_offered_", $step)],
            forwarded: [concat!("vr1_", $step), concat!("vr2_", $step)],
            cpu: [concat!("vr1_cpu_", $step), concat!("vr2_cpu_", $step)],
            total: concat!("total_", $step),
            kept: concat!("kept_", $step),
        }
    };
}

/// Table 2: the first router overloaded.
const FIRST: [Offer; 5] = [
    offer!(400.0, 400.0, 1),
    offer!(600.0, 400.0, 2),
    offer!(800.0, 400.0, 3),
    offer!(1000.0, 400.0, 4),
    offer!(1088.0, 400.0, 5),
];
/// Tables 4 and 5: the second one.
const SECOND: [Offer; 4] =
    [offer!(800.0, 400.0, 1), offer!(800.0, 500.0, 2), offer!(800.0, 600.0, 3), offer!(800.0, 688.0, 4)];

/// How the first router is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// Not at all: the scheduler is fair to threads.
    None,
    /// It has twice the weight of all others together.
    Shares,
    /// It is promised what it is offered.
    Guarantee,
}

impl Control {
    const ALL: [Self; 3] = [Self::None, Self::Shares, Self::Guarantee];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "no-control",
            Self::Shares => "shares",
            Self::Guarantee => "guarantee",
        }
    }

    /// The line of the n-th of so many routers.
    fn line(self, router: usize, routers: usize, promised: f64) -> String {
        match (self, router) {
            (Self::Shares, 0) => {
                format!("sched = {{ policy = \"shares\", weight = {} }}\n", 2 * (routers - 1))
            }
            (Self::Shares, _) => "sched = { policy = \"shares\", weight = 1 }\n".to_owned(),
            (Self::Guarantee, 0) => format!("guarantee = \"{:.0}pps\"\n", promised),
            _ => String::new(),
        }
    }
}

/// See the head of this file.
pub struct Isolation {
    options: Options,
    cpus: (usize, usize),
    routers: usize,
    control: Control,
    /// Which of the first two is overloaded.
    overloaded: usize,
}

impl Isolation {
    /// Two, three and eight routers, the first one protected in each way or not at all; and two of which the first one is
    /// overloaded.
    ///
    /// # Errors
    /// There are not two CPUs.
    pub fn cases(options: &Options) -> Result<Vec<Self>> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        let case = |routers, control, overloaded| Self {
            options: options.clone(),
            cpus,
            routers,
            control,
            overloaded,
        };
        let mut cases = vec![case(2, Control::None, 0)];
        for routers in [2, 3, 8] {
            cases.extend(Control::ALL.map(|control| case(routers, control, 1)));
        }
        Ok(cases)
    }

    fn steps(&self) -> &'static [Offer] {
        if self.overloaded == 0 { &FIRST } else { &SECOND }
    }

    /// What a router is offered, in capacities.
    fn part(&self, offer: &Offer, router: usize) -> f64 {
        let among = if router == 0 { 1 } else { self.routers - 1 };
        offer.kpps[router.min(1)] / PAPER / among as f64
    }

    fn room(&self, capacity: f64, memory: &Memory) -> Result<Room> {
        let promised = self.steps().first().map_or(0.0, |offer| offer.kpps[0] / PAPER * capacity);
        let line = |router| {
            let control = self.control.line(router, self.routers, promised);
            format!("{}{control}", capacity::on(self.cpus.1))
        };
        let routers: Vec<String> = (0..self.routers).map(line).collect();
        let file = File {
            options: &self.options,
            link: Link::Tap,
            queue_len: None,
            routers: &routers,
            memory: Some(memory),
        };
        let first = routers.first().map_or("", |lines| lines.trim());
        Room::open(&program()?, &file).with_context(|| format!("with {}", first.replace('\n', ", ")))
    }

    fn measure(&self, room: &Room, capacity: f64) -> Result<Sample> {
        let mut reader = Reader::by_ticks()?;
        let mut look = || reader.look(&usage::threads(room.supervisor())?);
        let times = (LEAD, self.options.step(STEP));
        let mut more = vec![("capacity_kpps", capacity * 1e-3)];
        let (mut packets, mut kept, mut short) = (0, 0.0, 0.0);
        for offer in self.steps() {
            let rates: Vec<f64> =
                (0..self.routers).map(|router| self.part(offer, router) * capacity).collect();
            let before = look()?;
            let step = step(room, &rates, times, Manner::PLAIN)?;
            let split = Split::between(&before, &look()?);
            packets += step.forwarded.iter().sum::<u64>();
            more.extend(told(offer, &step, &split));
            short = f64::max(short, step.short(0, rates[0]));
            let victim = 1 - self.overloaded;
            kept = step.forwarded_kpps(victim) / step.offered_kpps(victim).max(f64::MIN_POSITIVE);
            more.push((offer.kept, kept));
        }
        ensure!(packets > 0, "nothing came through");
        more.push(("offered_short", short));
        Ok(Sample { value: kept, packets, lost: 0, exits: None, more, ledger: Snapshot::new() })
    }
}

fn told(offer: &Offer, step: &Step, split: &Split) -> Vec<(&'static str, f64)> {
    let all = 0..step.forwarded.len();
    let mut told = vec![(offer.total, all.map(|router| step.forwarded_kpps(router)).sum())];
    for router in 0..2 {
        let used = usage::used(split, Some(router));
        told.extend([
            (offer.offered[router], step.offered_kpps(router)),
            (offer.forwarded[router], step.forwarded_kpps(router)),
            (offer.cpu[router], (used.vcpu + used.vhost) * 100.0),
        ]);
    }
    told
}

impl Experiment for Isolation {
    fn id(&self) -> &'static str {
        "isolation"
    }

    fn case(&self) -> String {
        let (device, frame, routers) = (self.options.device(), self.options.frame, self.routers);
        let which = if self.overloaded == 0 { "/vr1-overloaded" } else { "" };
        format!("{device}/{frame}/tap/{routers}-routers{which}/{}", self.control.name())
    }

    fn unit(&self) -> &'static str {
        "kept"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        program().map(drop)
    }

    fn run_slice(&mut self, _: Duration) -> Result<Sample> {
        cores::pin(self.cpus.0)?;
        let memory = Memory::new()?;
        let capacity = capacity::measure(&self.options, Link::Tap, self.cpus.1, Some(&memory))?;
        let room = self.room(capacity, &memory)?;
        let sample = self.measure(&room, capacity);
        room.close()?;
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protected_router_has_two_thirds_of_the_weight_however_many_there_are() {
        for routers in [2, 3, 8] {
            let weight = |router| {
                let line = Control::Shares.line(router, routers, 0.0);
                let table: toml::Table = toml::from_str(&line).unwrap();
                table["sched"]["weight"].as_integer().unwrap()
            };
            let all: i64 = (0..routers).map(weight).sum();
            assert_eq!(3 * weight(0), 2 * all);
        }
        assert_eq!(Control::Guarantee.line(0, 2, 96_454.4), "guarantee = \"96454pps\"\n");
        assert_eq!(Control::Guarantee.line(1, 2, 96_454.4), "");
        assert_eq!(Control::None.line(0, 2, 96_454.4), "");
    }

    #[test]
    fn the_first_router_is_offered_64_percent_and_the_second_goes_beyond_the_rest() {
        for offer in &SECOND {
            assert!((offer.kpps[0] / PAPER - 0.64).abs() < 0.01);
        }
        let total = |offer: &Offer| (offer.kpps[0] + offer.kpps[1]) / PAPER;
        assert!(SECOND.first().map(total).unwrap() < 1.0 && SECOND.last().map(total).unwrap() > 1.15);
    }
}
