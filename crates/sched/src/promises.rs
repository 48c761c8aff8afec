//! Promised rates (`guarantee`): weights of control groups, corrected ten times a second by what is
//! delivered.
//!
//! [`guarantee`](crate::guarantee) computes which part of a CPU a rate takes, whether it fits, and how it is
//! corrected; this module applies that to threads, counters and groups. A weight leaves unused time to
//! others.
//!
//! This module reads and changes nothing on the host: counters come in as a [`Reading`], weights go out in a
//! [`plan`](Promises::plan).

mod admission;
mod demand;
mod promise_totals;
mod shortfall;
mod thread_groups;
mod traffic_totals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use config::{Fault, Plan, Policy, Sched, Shares};
use serde::Serialize;

use crate::Outline;
use crate::account::CoreTicks;
use crate::costs::Costs;
use crate::guarantee::{Adjustment, Class, Controller, Day, Measured, Need, PromiseState};
use admission::Admitted;
use demand::{Demand, Demands};
pub use promise_totals::FIELDS;
use promise_totals::PromiseTotals;
use shortfall::Shortfall;
use thread_groups::{AdmissionContext, ThreadGroup, cost_on};
use traffic_totals::TrafficTotals;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// Packets per pass assumed as long as none were observed, and for whose cost a rate is promised.
const BATCH: f64 = 16.0;
/// Least and greatest weight of a group, in hundredths of an ordinary thread: a promise never gives a router
/// less than it had without.
const WEIGHTS: (u64, u64) = (ORDINARY, 10_000);
/// Weight of a group by default.
const ORDINARY: u64 = 100;

/// Promised rates and their state.
#[derive(Clone, Debug)]
pub struct Promises {
    /// Plan as it is carried out: routers with a promise have weights in it.
    plan: Plan,
    controller: Controller,
    parts: Vec<ThreadGroup>,
    /// Frequency of the time-stamp counter in Hz.
    hertz: f64,
    /// Sum of the weights of routers without a promise, by CPU.
    others: BTreeMap<u32, u64>,
    started: Instant,
    /// When to look at the counters next. The caller sets the next date.
    pub due: Instant,
    demands: Demands,
    /// Routers whose promise was reported as broken.
    broken: BTreeSet<String>,
    /// Losses that no counter of ours sees, because they occur before our queues, by router.
    shortfall: BTreeMap<String, Shortfall>,
    /// Totals of each promise, by router.
    tallies: BTreeMap<String, PromiseTotals>,
    /// Observed packet costs, of this run and earlier ones.
    pub costs: Costs,
}

/// Counters of routers and cores at one moment.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// Counters by name: `edge.vcpu0.forwarded`.
    pub counters: &'a BTreeMap<String, u64>,
    /// CPU time of threads in nanoseconds, by name: `edge/vhost`.
    pub cpu_ns: &'a BTreeMap<String, u64>,
    /// Ticks of cores, by CPU.
    pub cores: BTreeMap<u32, CoreTicks>,
    /// When they were read.
    pub at: Instant,
    /// Day on which they were read; `None`: unknown, and packet costs are not stored.
    pub day: Option<Day>,
}

/// A promised rate, with what it takes.
#[derive(Serialize)]
pub struct Promised<'p> {
    /// Router that it is promised to.
    pub router: &'p str,
    /// Rate in packets/s.
    pub pps: f64,
    /// Needs by CPU.
    pub takes: Vec<Takes>,
}

/// Part of a CPU that a promise takes.
#[derive(Serialize)]
pub struct Takes {
    /// CPU number.
    pub cpu: u32,
    /// Fraction of the CPU.
    pub share: f64,
    /// Cycles of the time-stamp counter per packet.
    pub cycles: f64,
    /// Evidence for that.
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
    /// Makes the promises of a plan whose threads are placed like this. Costs are those `seen` before in this
    /// run, or else `known` from earlier runs, together with the frequency of the time-stamp counter. Returns
    /// `None` if nothing is promised.
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
            Admitted::of(&AdmissionContext { plan, outline, seen, costs: &costs, hertz })?;
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
            shortfall: BTreeMap::new(),
            tallies: BTreeMap::new(),
            costs,
        };
        seen.into_iter().for_each(|seen| promises.resume(seen));
        let first = promises.controller.tick(Duration::ZERO, &[]);
        promises.weigh(&first);
        Ok(Some(promises))
    }

    /// Takes over the state of the promises that this replaces: after an edit, promises that stay keep their
    /// counters, reports and dates.
    pub fn resume(&mut self, before: &Self) {
        self.controller.resume(&before.controller);
        (self.started, self.due) = (before.started, before.due);
        self.demands = before.demands.clone();
        self.broken.clone_from(&before.broken);
        self.shortfall.clone_from(&before.shortfall);
        self.tallies.clone_from(&before.tallies);
        self.costs = before.costs.clone();
        let held: BTreeSet<String> = self.controller.promises().map(|held| held.router.clone()).collect();
        self.broken.retain(|router| held.contains(router));
        self.shortfall.retain(|router, _| held.contains(router));
        self.tallies.retain(|router, _| held.contains(router));
        for part in &mut self.parts {
            part.resume(&before.parts);
        }
    }

    /// Plan as it is carried out: with the weights of routers that have a promise.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All promises, with what they take.
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

    /// Trouble with the file of earlier runs' packet costs.
    pub fn pending_trouble(&self) -> Option<String> {
        self.costs.pending_trouble().map(str::to_owned)
    }

    /// State of the promise to a router, in words.
    pub fn standing(&self, router: &str) -> Option<String> {
        let known = self.controller.standings().find(|known| known.router == router)?;
        let kept = match &known.kept {
            PromiseState::Unknown => "nothing was measured yet".to_owned(),
            PromiseState::BelowPromise => "less is asked for".to_owned(),
            PromiseState::Yes => "kept".to_owned(),
            PromiseState::Settling => "shares are being moved".to_owned(),
            PromiseState::No(line) => format!("not kept: {line}"),
        };
        Some(format!("{kept}; {:.0} of {:.0} packets/s delivered", known.delivered, known.offered))
    }

    /// Counters of promises, of one router or of all: `edge.guarantee.delivered`.
    pub fn counters(&self, router: Option<&str>) -> impl Iterator<Item = (String, u64)> {
        let wanted = self.tallies.iter().filter(move |(name, _)| router.is_none_or(|router| router == *name));
        wanted.flat_map(|(name, tally)| {
            tally.counters().map(|(field, value)| (format!("{name}.guarantee.{field}"), value))
        })
    }

    /// Evaluates the counters. Returns whether weights have changed, and news as router and line.
    pub fn look(&mut self, reading: &Reading<'_>) -> (bool, Vec<(String, String)>) {
        let now = reading.at;
        self.demands.look(&self.parts, reading);
        let mut measured = Vec::new();
        let routers: BTreeSet<String> = self.parts.iter().map(|part| part.router.clone()).collect();
        for router in &routers {
            let mut came = match self.plan.in_kernel().any(|known| known.name == *router) {
                true => TrafficTotals::of_kernel(reading.counters, router),
                false => TrafficTotals::of(reading.counters, router),
            };
            if !came.sees_queue {
                came.dropped += self.lacked(reading, router, came.delivered);
            }
            let wanted = |part: &ThreadGroup| self.demands.of(router, part.cpu) == Demand::Others;
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

    /// Packets so far by which a router fell short of its promise while its I/O threads were never idle.
    fn lacked(&mut self, reading: &Reading<'_>, router: &str, delivered: u64) -> u64 {
        let vhosts = self.parts.iter().filter(|part| part.router == router && part.class == Class::Vhost);
        let threads: Vec<&String> = vhosts.flat_map(|part| &part.threads).collect();
        let sum = |what: &str| -> u64 {
            threads.iter().filter_map(|name| reading.counters.get(&format!("{name}.{what}"))).sum()
        };
        let promise = self.controller.promises().find(|promise| promise.router == router);
        let pps = promise.map_or(0.0, |promise| promise.pps);
        let shortfall = self.shortfall.entry(router.to_owned()).or_default();
        shortfall.look(pps, delivered, (sum("frames"), sum("sleeps")), reading.at)
    }

    fn learn(&mut self, reading: &Reading<'_>, router: &str, came: &TrafficTotals) {
        let mut cpus = BTreeSet::new();
        for part in self.parts.iter_mut().filter(|part| part.router == router) {
            part.learn(reading, (came, self.demands.of(router, part.cpu)), self.hertz, &mut self.costs);
            cpus.insert(part.cpu);
        }
        for cpu in cpus {
            if let Some(cost) = cost_on(&self.parts, (router, cpu), ThreadGroup::cost) {
                self.controller.learn(router, cpu, cost);
            }
        }
    }

    /// Reports promises that became broken, and those kept again.
    fn news(&mut self) -> Vec<(String, String)> {
        let mut news = Vec::new();
        for standing in self.controller.standings() {
            match &standing.kept {
                PromiseState::No(line) if self.broken.insert(standing.router.clone()) => {
                    news.push((standing.router.clone(), format!("its guarantee is not kept: {line}")));
                }
                PromiseState::Yes | PromiseState::BelowPromise if self.broken.remove(&standing.router) => {
                    news.push((standing.router.clone(), "its guarantee is kept again".to_owned()));
                }
                _ => {}
            }
        }
        news
    }

    /// Writes weights into the plan. Returns true if any has changed.
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
