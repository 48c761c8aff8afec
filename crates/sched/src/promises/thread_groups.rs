//! Thread groups of routers with a promised rate, and their packet costs.

use std::collections::BTreeMap;

use config::{AttachmentProperties, Guarantee, Nic, NicModel, Plan, Policy, Router, Spin, TransmitMode};

use super::demand::Demand;
use super::traffic_totals::TrafficTotals;
use super::{BATCH, Promises, Reading};
use crate::costs::Costs;
use crate::guarantee::{Class, Cost, CostKey, FEWEST, Idleness, Kind, Model, Observation, Path};
use crate::{CpuNeighbours, Outline, Slot};

/// Weight of the last window in moving averages.
const LATE: f64 = 0.1;

/// Maximum number of frames that NAPI receives in one poll (`NAPI_POLL_WEIGHT` of linux/netdevice.h).
const BUDGET: u64 = 64;

/// Packets lost per packet delivered from which on the threads count as saturated.
const BEHIND: f64 = 0.05;

/// Threads of one class of a router on one CPU.
#[derive(Clone, Debug)]
pub(super) struct ThreadGroup {
    pub(super) router: String,
    pub(super) cpu: u32,
    pub(super) class: Class,
    pub(super) threads: Vec<String>,
    octets: f64,
    way: CostKey,
    /// True if its threads poll an empty queue before they sleep.
    polls: bool,
    model: Model,
    /// Packets per pass, as a moving average, at least [`BATCH`]: a thread with less CPU time makes longer
    /// passes, and needs less time per packet.
    batch: f64,
    /// Cost remembered when this was made; a promise is judged by it, if there is one.
    known: Option<Cost>,
    seen: Option<Counted>,
}

/// Counters so far.
#[derive(Clone, Copy, Debug)]
struct Counted {
    all: Observation,
    /// Packets that there was no time for.
    dropped: u64,
    /// Frames of the passes that were timed, and the number of those passes.
    timed: [u64; 2],
}

impl Counted {
    /// Difference to an earlier reading, and whether the length of passes is known.
    fn since(&self, earlier: &Self) -> (Observation, bool) {
        let mut new = self.all.since(&earlier.all);
        let [frames, passes] =
            [0, 1].map(|n| self.timed[n].checked_sub(earlier.timed[n]).unwrap_or(self.timed[n]));
        let is_known = frames > 0 && passes > 0;
        let batch = if is_known { frames as f64 / passes as f64 } else { BATCH };
        new.batches = (new.frames as f64 / batch).round() as u64;
        (new, is_known)
    }
}

impl ThreadGroup {
    /// Creates a group of one thread, without observations.
    fn new(slot: &Slot, cpu: u32, way: CostKey, guarantee: Guarantee) -> Self {
        Self {
            router: slot.router.clone(),
            cpu,
            class: way.kind.class,
            threads: vec![slot.name.clone()],
            octets: f64::from(guarantee.frame),
            model: Model::new(way.kind),
            way,
            polls: false,
            batch: BATCH,
            known: None,
            seen: None,
        }
    }

    /// Cost of a packet when the CPU is full: the remembered cost, or else the one observed so far. A thread
    /// with more time than it needs is woken for few packets at a time and uses all of it, so observations
    /// overestimate the need.
    pub(super) fn cost(&self) -> Cost {
        self.known.unwrap_or_else(|| self.model.per_frame(self.octets, self.batch))
    }

    /// Cost by which a promise is judged: the remembered one, or else an estimate. Observations of this run
    /// that are not yet enough to be remembered are no evidence.
    pub(super) fn price(&self) -> Cost {
        self.known.unwrap_or_else(|| Model::new(self.way.kind).per_frame(self.octets, BATCH))
    }

    /// Takes over the state of the same group among earlier ones. Returns false if there was none.
    pub(super) fn resume(&mut self, before: &[Self]) -> bool {
        let same =
            |known: &&Self| (&known.router, known.cpu, known.class) == (&self.router, self.cpu, self.class);
        let Some(same) = before.iter().find(same) else { return false };
        (self.model, self.batch, self.seen) = (same.model.clone(), same.batch, same.seen);
        true
    }

    /// Returns true if its threads are NAPI threads.
    fn is_napi(&self) -> bool {
        self.way.kind.path == Path::Kernel
    }

    /// Frames that its NAPI threads have received so far, and an estimate of their passes, which the kernel does not count: one for
    /// each wake-up, and one for each [`BUDGET`] frames.
    fn polled(&self, counters: &BTreeMap<String, u64>) -> [u64; 2] {
        let sum = |what: &str| -> u64 {
            self.threads.iter().filter_map(|name| counters.get(&format!("{name}.{what}"))).sum()
        };
        let frames = sum("frames");
        [frames, sum("sleeps") + frames / BUDGET]
    }

    /// CPU time of its threads so far, in nanoseconds.
    pub(super) fn time(&self, reading: &Reading<'_>) -> u64 {
        self.threads.iter().filter_map(|name| reading.cpu_ns.get(name)).sum()
    }

    /// Learns from the counters, given the demand for its CPU meanwhile.
    pub(super) fn learn(
        &mut self,
        reading: &Reading<'_>,
        (came, demand): (&TrafficTotals, Demand),
        hertz: f64,
        costs: &mut Costs,
    ) {
        let work = |what: &str| -> u64 {
            let names = self.threads.iter().map(|name| format!("{name}.work.{what}"));
            names.filter_map(|name| reading.counters.get(&name)).sum()
        };
        let timed =
            if self.is_napi() { self.polled(reading.counters) } else { [work("frames"), work("passes")] };
        let cycles = (self.time(reading) as f64 * hertz / 1e9) as u64;
        let all = Observation { cycles, frames: came.delivered, octets: came.octets, batches: 0 };
        let counted = Counted { all, dropped: came.dropped, timed };
        let Some(before) = self.seen.replace(counted) else { return };
        let (window, is_known) = counted.since(&before);
        if is_known && window.frames >= FEWEST {
            self.model.learn(&window);
            let batch = window.frames as f64 / window.batches.max(1) as f64;
            self.batch = (self.batch + (batch - self.batch) * LATE).max(BATCH);
            let lost = counted.dropped.saturating_sub(before.dropped) as f64;
            let kept_up = lost < BEHIND * window.frames as f64;
            let rest = match (self.polls, demand) {
                (true, _) => Idleness::Polling,
                (false, Demand::Less) => Idleness::Asleep,
                (false, _) if kept_up => Idleness::Never,
                (false, _) => Idleness::Behind,
            };
            if let Some(day) = reading.day {
                costs.note(&self.way, &window, rest, day);
            }
        }
    }
}

/// Context for making promises.
pub(super) struct AdmissionContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) outline: &'a Outline,
    pub(super) seen: Option<&'a Promises>,
    pub(super) costs: &'a Costs,
    /// Frequency of the time-stamp counter in Hz.
    pub(super) hertz: f64,
}

/// Thread groups of a router with a promised rate, by CPU and class.
///
/// # Errors
/// In one line, why no rate can be promised.
pub(super) fn parts_of(
    router: &Router,
    guarantee: Guarantee,
    context: &AdmissionContext<'_>,
) -> Result<Vec<ThreadGroup>, String> {
    let policies = [router.sched.all, router.sched.vcpu, router.sched.vhost];
    if policies.into_iter().flatten().any(|policy| !matches!(policy, Policy::Other)) {
        return Err(format!(
            "a rate is promised by weights, and sched = {} says otherwise; remove one of the two",
            router.sched
        ));
    }
    let mut parts: Vec<ThreadGroup> = Vec::new();
    for slot in context.outline.slots.iter().filter(|slot| slot.router == router.name) {
        let cpu = cpu_of(slot).ok_or_else(|| {
            let classes = if router.is_in_kernel() { "its class vhost" } else { "both classes" };
            format!("{} has several CPUs, and a rate is promised on one; write pin for {classes}", slot.name)
        })?;
        let class = if matches!(slot.class, crate::Class::Vcpu(_)) { Class::Vcpu } else { Class::Vhost };
        let may_poll = !router.is_in_kernel() && router.spin != Spin::For(std::time::Duration::ZERO);
        let polls = slot.neighbours == CpuNeighbours::Nobody && may_poll;
        match parts.iter_mut().find(|part| (part.cpu, part.class) == (cpu, class)) {
            Some(part) => {
                part.threads.push(slot.name.clone());
                part.polls |= polls;
            }
            None => {
                let way = CostKey { kind: Kind { class, ..kind(router) }, device: device(router), cpus: 1 };
                parts.push(ThreadGroup { polls, ..ThreadGroup::new(slot, cpu, way, guarantee) });
            }
        }
    }
    recall(&mut parts, context);
    Ok(parts)
}

/// Completes the groups: whether they are on different cores, and what is known of their costs.
fn recall(parts: &mut [ThreadGroup], context: &AdmissionContext<'_>) {
    let places: Vec<(u32, Class)> = parts.iter().map(|part| (part.cpu, part.class)).collect();
    let far = places.iter().any(|(cpu, _)| *cpu != places[0].0);
    for part in parts {
        // A NAPI thread itself forwards the frames that it receives, so they do not cross CPUs.
        part.way.kind.far = far && !part.is_napi();
        part.way.cpus = places.iter().filter(|(_, class)| *class == part.class).count() as u32;
        part.known = context.costs.cost(&part.way, part.octets);
        if !context.seen.is_some_and(|seen| part.resume(&seen.parts)) {
            let remembered = context.costs.model(&part.way, part.octets);
            part.model = remembered.unwrap_or_else(|| Model::new(part.way.kind));
        }
    }
}

/// CPU of a thread that is confined to one.
fn cpu_of(slot: &Slot) -> Option<u32> {
    match slot.schedule.cpus.as_ref()?.cpus() {
        [cpu] => Some(*cpu),
        _ => None,
    }
}

/// Kind of a router's threads, by the most expensive of its NICs.
fn kind(router: &Router) -> Kind {
    let is =
        |wanted: fn(AttachmentProperties) -> bool| router.nics.iter().any(|nic| wanted(nic.attach.traits()));
    let path = if router.is_in_kernel() {
        Path::Kernel
    } else if is(|traits| traits.is_by_calls) {
        Path::Tap
    } else if is(|traits| traits.is_on_interface) {
        Path::Xdp
    } else {
        Path::Switch
    };
    let leaves = |nic: &Nic| nic.model == NicModel::E1000 && nic.mode != TransmitMode::Csb;
    Kind { class: Class::Vhost, path, exits: router.nics.iter().any(leaves), far: false }
}

/// Other properties on which the cost depends, as far as the file gives them: `kvm shared virtio-net/tap`, `kernel veth`.
fn device(router: &Router) -> String {
    let nic = |nic: &Nic| {
        let to = nic.attach.kind();
        match nic.model {
            _ if router.is_in_kernel() => to.to_owned(),
            NicModel::VirtioNet => format!("{}/{to}", nic.model.name()),
            NicModel::E1000 => format!("{}-{}/{to}", nic.model.name(), nic.mode.name()),
        }
    };
    let engine = router.engine.map_or("", config::Engine::name);
    let mut nics: Vec<String> = router.nics.iter().map(nic).collect();
    nics.sort();
    nics.dedup();
    if router.is_in_kernel() {
        return format!("{engine} {}", nics.join(" "));
    }
    format!("{engine} {} {}", router.vhost.name(), nics.join(" "))
}

/// Cost of a router's packet on one CPU, all classes together; `cost` gives that of a group.
pub(super) fn cost_on(
    parts: &[ThreadGroup],
    (router, cpu): (&str, u32),
    cost: impl Fn(&ThreadGroup) -> Cost,
) -> Option<Cost> {
    let own = parts.iter().filter(|part| part.router == router && part.cpu == cpu);
    own.map(cost).reduce(|a, b| Cost { cycles: a.cycles + b.cycles, basis: a.basis.weaker(b.basis) })
}

#[cfg(test)]
mod tests;
