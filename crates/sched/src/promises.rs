//! Rates that are promised (`guarantee`): weights of control groups, corrected ten times a second by what is delivered.
//!
//! Which part of a CPU a rate takes, whether it fits, and how it is corrected, says [`guarantee`](crate::guarantee); here are the
//! threads, the counters and the groups that it is about. A weight leaves to others what a router does not use.
//!
//! Nothing is read here, and nothing is carried out: what was counted comes in as a [`Reading`], weights go out in a
//! [`plan`](Promises::plan).

mod admission;
mod came;
mod demand;
mod hunger;
mod parts;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use config::{Fault, Plan, Policy, Sched, Shares};
use serde::Serialize;

use crate::Outline;
use crate::account::CoreTicks;
use crate::costs::Costs;
use crate::guarantee::{Adjustment, Class, Controller, Day, Kept, Measured, Need};
use admission::Admitted;
use came::Came;
use demand::{Demand, Demands};
use hunger::Hunger;
use parts::{Ground, Part, cost_on};
pub use tally::FIELDS;
use tally::Tally;

/// Between two looks.
const TICK: Duration = Duration::from_millis(100);
/// Packets of a pass, as long as none were seen, and for whose cost a rate is promised.
const BATCH: f64 = 16.0;
/// Hundredths of an ordinary thread that a group weighs at least and at most: a promise takes nothing from a router.
const WEIGHTS: (u64, u64) = (ORDINARY, 10_000);
/// What a group weighs that nothing is said for.
const ORDINARY: u64 = 100;

/// The rates that are promised, and how that is going.
#[derive(Clone, Debug)]
pub struct Promises {
    /// The plan as it is carried out: those who are promised something have weights.
    plan: Plan,
    controller: Controller,
    parts: Vec<Part>,
    /// Cycles of the time-stamp counter in a second.
    hertz: f64,
    /// What routers without a promise weigh together, by CPU.
    others: BTreeMap<u32, u64>,
    started: Instant,
    /// When to look at what was counted. Whoever does says when the next time is.
    pub due: Instant,
    demands: Demands,
    /// Routers whose promise was told to be broken.
    broken: BTreeSet<String>,
    /// What is not seen to be lost, because it is lost before it comes to a queue of ours, by router.
    hunger: BTreeMap<String, Hunger>,
    /// What was promised so far, and what became of it, by router.
    tallies: BTreeMap<String, Tally>,
    /// What packets were seen to cost, in this run and in others before it.
    pub costs: Costs,
}

/// What was counted so far, by routers and by cores.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// Counters by name: `edge.vcpu0.forwarded`.
    pub counters: &'a BTreeMap<String, u64>,
    /// Nanoseconds that threads had of a CPU, by name: `edge/vhost`.
    pub cpu_ns: &'a BTreeMap<String, u64>,
    /// What cores did, by CPU.
    pub cores: BTreeMap<u32, CoreTicks>,
    /// When it was read.
    pub at: Instant,
    /// The day on which it was read; none: that is not known, and what packets cost is not kept.
    pub day: Option<Day>,
}

/// A rate that is promised, with what it takes.
#[derive(Serialize)]
pub struct Promised<'p> {
    /// To whom.
    pub router: &'p str,
    /// Packets a second.
    pub pps: f64,
    /// By CPU.
    pub takes: Vec<Takes>,
}

/// What a promise takes of one CPU.
#[derive(Serialize)]
pub struct Takes {
    /// Its number.
    pub cpu: u32,
    /// Part of the CPU.
    pub share: f64,
    /// Of the time-stamp counter, for each packet.
    pub cycles: f64,
    /// How that is known.
    pub basis: String,
}

impl fmt::Display for Promised<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes: Vec<String> = self.takes.iter().map(ToString::to_string).collect();
        write!(out, "guarantee {}: {:.0} packets/s take {}", self.router, self.pps, takes.join(" and "))
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, share, cycles, basis } = self;
        write!(out, "{share:.2} of CPU {cpu}, {cycles:.0} cycles each ({basis})")
    }
}

impl Promises {
    /// What is promised in a plan whose threads are placed like this, by what was `seen` before in this run, or by what is `known`
    /// from others: what packets cost, and the cycles of the time-stamp counter in a second. None: nothing is promised.
    ///
    /// # Errors
    /// What cannot be promised, with the arithmetic.
    pub fn make(
        (plan, outline): (&Plan, &Outline),
        seen: Option<&Self>,
        known: impl FnOnce() -> (Costs, f64),
        now: Instant,
    ) -> Result<Option<Self>, Vec<Fault>> {
        if plan.routers.iter().all(|router| router.guarantee.is_none()) {
            return Ok(None);
        }
        let (costs, hertz) = seen.map_or_else(known, |seen| (seen.costs.clone(), seen.hertz));
        let Admitted { controller, parts, others } =
            Admitted::of(&Ground { plan, outline, seen, costs: &costs, hertz })?;
        let mut promises = Self {
            plan: plan.clone(),
            controller,
            parts,
            hertz,
            others,
            started: now,
            due: now + TICK,
            demands: Demands::new(now),
            broken: BTreeSet::new(),
            hunger: BTreeMap::new(),
            tallies: BTreeMap::new(),
            costs,
        };
        seen.into_iter().for_each(|seen| promises.resume(seen));
        let first = promises.controller.tick(Duration::ZERO, &[]);
        promises.weigh(&first);
        Ok(Some(promises))
    }

    /// Goes on where others were that take its place: an edit of promises is no new beginning for those that stay, neither for
    /// their counters, nor for what was told, nor for when they are looked at.
    pub fn resume(&mut self, before: &Self) {
        self.controller.resume(&before.controller);
        (self.started, self.due) = (before.started, before.due);
        self.demands = before.demands.clone();
        self.broken.clone_from(&before.broken);
        self.hunger.clone_from(&before.hunger);
        self.tallies.clone_from(&before.tallies);
        self.costs = before.costs.clone();
        let held: BTreeSet<String> = self.controller.promises().map(|held| held.router.clone()).collect();
        self.broken.retain(|router| held.contains(router));
        self.hunger.retain(|router, _| held.contains(router));
        self.tallies.retain(|router, _| held.contains(router));
        for part in &mut self.parts {
            part.resume(&before.parts);
        }
    }

    /// The plan as it is carried out: with the weights of those who are promised something.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is promised, and what that takes.
    pub fn promised(&self) -> impl Iterator<Item = Promised<'_>> {
        let part = |need: &Need, pps: f64| Takes {
            cpu: need.cpu,
            share: pps * need.cost.cycles / self.hertz,
            cycles: need.cost.cycles,
            basis: need.cost.basis.to_string(),
        };
        self.controller.promises().map(move |promise| Promised {
            router: &promise.router,
            pps: promise.pps,
            takes: promise.needs.iter().map(|need| part(need, promise.pps)).collect(),
        })
    }

    /// What is wrong with the file that tells what packets cost in earlier runs.
    pub fn doubt(&self) -> Option<String> {
        self.costs.doubt().map(str::to_owned)
    }

    /// How the promise to a router is kept, in words.
    pub fn standing(&self, router: &str) -> Option<String> {
        let known = self.controller.standings().find(|known| known.router == router)?;
        let kept = match &known.kept {
            Kept::Unknown => "nothing was measured yet".to_owned(),
            Kept::Unasked => "less is asked for".to_owned(),
            Kept::Yes => "kept".to_owned(),
            Kept::Settling => "shares are being moved".to_owned(),
            Kept::No(line) => format!("not kept: {line}"),
        };
        Some(format!("{kept}; {:.0} of {:.0} packets/s delivered", known.delivered, known.offered))
    }

    /// What was promised so far, and what became of it: of one router, or else of all. `edge.guarantee.delivered`.
    pub fn counters(&self, router: Option<&str>) -> impl Iterator<Item = (String, u64)> {
        let wanted = self.tallies.iter().filter(move |(name, _)| router.is_none_or(|router| router == *name));
        wanted.flat_map(|(name, tally)| {
            tally.counters().map(|(field, value)| (format!("{name}.guarantee.{field}"), value))
        })
    }

    /// Looks at what was counted; whether weights have changed, and what is to be told: router and line.
    pub fn look(&mut self, reading: &Reading<'_>) -> (bool, Vec<(String, String)>) {
        let now = reading.at;
        self.demands.look(&self.parts, reading);
        let mut measured = Vec::new();
        let routers: BTreeSet<String> = self.parts.iter().map(|part| part.router.clone()).collect();
        for router in &routers {
            let mut came = Came::of(reading.counters, router);
            if !came.sees_queue {
                came.dropped += self.lacked(reading, router, came.delivered);
            }
            let wanted = |part: &Part| self.demands.of(router, part.cpu) == Demand::Others;
            let contended = self.parts.iter().any(|part| part.router == *router && wanted(part));
            self.learn(reading, router, &came);
            measured.push((router, came, contended));
        }
        let measured: Vec<Measured<'_>> = measured
            .iter()
            .map(|(router, came, contended)| Measured {
                router: router.as_str(),
                delivered: came.delivered,
                dropped: came.dropped,
                contended: *contended,
            })
            .collect();
        let adjustments = self.controller.tick(now.saturating_duration_since(self.started), &measured);
        for standing in self.controller.standings() {
            if let Some(measured) = measured.iter().find(|known| known.router == standing.router) {
                let tally = self.tallies.entry(standing.router.clone()).or_default();
                tally.look(measured, standing, now);
            }
        }
        let news = self.news();
        (self.weigh(&adjustments), news)
    }

    /// Packets that a router lacked so far to its promise while its I/O threads never came to rest.
    fn lacked(&mut self, reading: &Reading<'_>, router: &str, delivered: u64) -> u64 {
        let vhosts = self.parts.iter().filter(|part| part.router == router && part.class == Class::Vhost);
        let threads: Vec<&String> = vhosts.flat_map(|part| &part.threads).collect();
        let sum = |what: &str| -> u64 {
            threads.iter().filter_map(|name| reading.counters.get(&format!("{name}.{what}"))).sum()
        };
        let promise = self.controller.promises().find(|promise| promise.router == router);
        let pps = promise.map_or(0.0, |promise| promise.pps);
        let hunger = self.hunger.entry(router.to_owned()).or_default();
        hunger.look(pps, delivered, (sum("frames"), sum("sleeps")), reading.at)
    }

    fn learn(&mut self, reading: &Reading<'_>, router: &str, came: &Came) {
        let mut cpus = BTreeSet::new();
        for part in self.parts.iter_mut().filter(|part| part.router == router) {
            part.learn(reading, (came, self.demands.of(router, part.cpu)), self.hertz, &mut self.costs);
            cpus.insert(part.cpu);
        }
        for cpu in cpus {
            if let Some(cost) = cost_on(&self.parts, (router, cpu), Part::cost) {
                self.controller.learn(router, cpu, cost);
            }
        }
    }

    /// Promises that are broken, and those that are kept again.
    fn news(&mut self) -> Vec<(String, String)> {
        let mut news = Vec::new();
        for standing in self.controller.standings() {
            match &standing.kept {
                Kept::No(line) if self.broken.insert(standing.router.clone()) => {
                    news.push((standing.router.clone(), format!("its guarantee is not kept: {line}")));
                }
                Kept::Yes | Kept::Unasked if self.broken.remove(&standing.router) => {
                    news.push((standing.router.clone(), "its guarantee is kept again".to_owned()));
                }
                _ => {}
            }
        }
        news
    }

    /// Writes weights into the plan; whether any is another than before.
    fn weigh(&mut self, adjustments: &[Adjustment]) -> bool {
        let mut changed = false;
        for router in &mut self.plan.routers {
            let own: Vec<&Adjustment> =
                adjustments.iter().filter(|adjustment| adjustment.router == router.name).collect();
            if own.is_empty() {
                continue;
            }
            let weight = |class: Option<Class>| {
                let on = |cpu: u32| {
                    let mut parts = self.parts.iter().filter(|part| part.router == router.name);
                    parts.any(|part| part.cpu == cpu && class.is_none_or(|class| part.class == class))
                };
                let others = |cpu| self.others.get(&cpu).copied().unwrap_or(ORDINARY);
                let weights = own.iter().filter(|own| on(own.cpu)).map(|own| own.weight(others(own.cpu)));
                let weight = weights.max()?.clamp(WEIGHTS.0, WEIGHTS.1);
                Some(Policy::Shares(Shares { weight: weight as u32, quota: None }))
            };
            let sched = if own.len() == 1 {
                Sched { all: weight(None), ..Sched::default() }
            } else {
                let held = |policy: Option<Policy>, before| policy.or(before);
                Sched {
                    all: None,
                    vcpu: held(weight(Some(Class::Vcpu)), router.sched.vcpu),
                    vhost: held(weight(Some(Class::Vhost)), router.sched.vhost),
                }
            };
            changed |= sched != router.sched;
            router.sched = sched;
        }
        changed
    }
}
