//! The threads of routers that are promised a rate, and what packets cost them.

use config::{Guarantee, Nic, NicModel, Plan, Policy, Router, Spin, Traits, TransmitMode};

use super::came::Came;
use super::demand::Demand;
use super::{BATCH, Promises, Reading};
use crate::costs::Costs;
use crate::guarantee::{Class, Cost, FEWEST, Kind, Model, Observation, Path, Rest, Way};
use crate::{Company, Outline, Slot};

/// What the last window counts among those before it.
const LATE: f64 = 0.1;

/// Packets lost for each that was delivered: so many, and the threads did not keep up.
const BEHIND: f64 = 0.05;

/// The threads of a class of a router on one CPU.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) router: String,
    pub(super) cpu: u32,
    pub(super) class: Class,
    pub(super) threads: Vec<String>,
    octets: f64,
    way: Way,
    /// Whether its threads poll in vain before they sleep.
    polls: bool,
    model: Model,
    /// Packets of a pass, as they were of late, at least [`BATCH`]: who gets less of a CPU makes longer ones, and needs less for
    /// each packet.
    batch: f64,
    /// What was remembered when this was made: what a promise is judged by, if it is there.
    known: Option<Cost>,
    seen: Option<Counted>,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug)]
struct Counted {
    all: Observation,
    /// Packets that there was no time for.
    dropped: u64,
    /// Frames of the passes that were timed, and those passes.
    timed: [u64; 2],
}

impl Counted {
    /// What has come since; and whether it is known how long passes were.
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

impl Part {
    /// With one thread, of which nothing was seen.
    fn new(slot: &Slot, cpu: u32, way: Way, guarantee: Guarantee) -> Self {
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

    /// What a packet costs where the CPU is full: as it was remembered, or else by what was seen so far. Who is given more than it
    /// needs is woken for each few packets and uses all of it, so what is seen is no measure of what is needed.
    pub(super) fn cost(&self) -> Cost {
        self.known.unwrap_or_else(|| self.model.per_frame(self.octets, self.batch))
    }

    /// By which a promise is judged: what is remembered, or else an estimate. What was seen so far and is not enough to be
    /// remembered is no evidence.
    pub(super) fn price(&self) -> Cost {
        self.known.unwrap_or_else(|| Model::new(self.way.kind).per_frame(self.octets, BATCH))
    }

    /// Goes on where the one before it was, if there is one among these.
    pub(super) fn resume(&mut self, before: &[Self]) -> bool {
        let same =
            |known: &&Self| (&known.router, known.cpu, known.class) == (&self.router, self.cpu, self.class);
        let Some(same) = before.iter().find(same) else { return false };
        (self.model, self.batch, self.seen) = (same.model.clone(), same.batch, same.seen);
        true
    }

    /// Nanoseconds that its threads had of a CPU so far.
    pub(super) fn time(&self, reading: &Reading<'_>) -> u64 {
        self.threads.iter().filter_map(|name| reading.cpu_ns.get(name)).sum()
    }

    /// Learns from what was counted while there was such a demand for its CPU.
    pub(super) fn learn(
        &mut self,
        reading: &Reading<'_>,
        (came, demand): (&Came, Demand),
        hertz: f64,
        costs: &mut Costs,
    ) {
        let work = |what: &str| -> u64 {
            let names = self.threads.iter().map(|name| format!("{name}.work.{what}"));
            names.filter_map(|name| reading.counters.get(&name)).sum()
        };
        let cycles = (self.time(reading) as f64 * hertz / 1e9) as u64;
        let all = Observation { cycles, frames: came.delivered, octets: came.octets, batches: 0 };
        let counted = Counted { all, dropped: came.dropped, timed: [work("frames"), work("passes")] };
        let Some(before) = self.seen.replace(counted) else { return };
        let (window, is_known) = counted.since(&before);
        if is_known && window.frames >= FEWEST {
            self.model.learn(&window);
            let batch = window.frames as f64 / window.batches.max(1) as f64;
            self.batch = (self.batch + (batch - self.batch) * LATE).max(BATCH);
            let lost = counted.dropped.saturating_sub(before.dropped) as f64;
            let kept_up = lost < BEHIND * window.frames as f64;
            let rest = match (self.polls, demand) {
                (true, _) => Rest::Polling,
                (false, Demand::Less) => Rest::Asleep,
                (false, _) if kept_up => Rest::Never,
                (false, _) => Rest::Behind,
            };
            if let Some(day) = reading.day {
                costs.note(&self.way, &window, rest, day);
            }
        }
    }
}

/// What promises are made from.
pub(super) struct Ground<'a> {
    pub(super) plan: &'a Plan,
    pub(super) outline: &'a Outline,
    pub(super) seen: Option<&'a Promises>,
    pub(super) costs: &'a Costs,
    /// Cycles of the time-stamp counter in a second.
    pub(super) hertz: f64,
}

/// The threads of a router that is promised a rate, by CPU and class.
///
/// # Errors
/// One line: why none can be promised.
pub(super) fn parts_of(
    router: &Router,
    guarantee: Guarantee,
    ground: &Ground<'_>,
) -> Result<Vec<Part>, String> {
    let policies = [router.sched.all, router.sched.vcpu, router.sched.vhost];
    if policies.into_iter().flatten().any(|policy| !matches!(policy, Policy::Other)) {
        return Err(format!(
            "a rate is promised by weights, and sched = {} says otherwise; remove one of the two",
            router.sched
        ));
    }
    let mut parts: Vec<Part> = Vec::new();
    for slot in ground.outline.slots.iter().filter(|slot| slot.router == router.name) {
        let cpu = cpu_of(slot).ok_or_else(|| {
            format!(
                "{} has several CPUs, and a rate is promised on one; write pin for both classes",
                slot.name
            )
        })?;
        let class = if matches!(slot.class, crate::Class::Vcpu(_)) { Class::Vcpu } else { Class::Vhost };
        let polls = slot.company == Company::Nobody && router.spin != Spin::For(std::time::Duration::ZERO);
        match parts.iter_mut().find(|part| (part.cpu, part.class) == (cpu, class)) {
            Some(part) => {
                part.threads.push(slot.name.clone());
                part.polls |= polls;
            }
            None => {
                let way = Way { kind: Kind { class, ..kind(router) }, device: device(router), cpus: 1 };
                parts.push(Part { polls, ..Part::new(slot, cpu, way, guarantee) });
            }
        }
    }
    recall(&mut parts, ground);
    Ok(parts)
}

/// Fills in where they are to each other, and what is known of their costs.
fn recall(parts: &mut [Part], ground: &Ground<'_>) {
    let places: Vec<(u32, Class)> = parts.iter().map(|part| (part.cpu, part.class)).collect();
    let far = places.iter().any(|(cpu, _)| *cpu != places[0].0);
    for part in parts {
        part.way.kind.far = far;
        part.way.cpus = places.iter().filter(|(_, class)| *class == part.class).count() as u32;
        part.known = ground.costs.cost(&part.way, part.octets);
        if !ground.seen.is_some_and(|seen| part.resume(&seen.parts)) {
            let remembered = ground.costs.model(&part.way, part.octets);
            part.model = remembered.unwrap_or_else(|| Model::new(part.way.kind));
        }
    }
}

/// The CPU of a thread that has one.
pub(super) fn cpu_of(slot: &Slot) -> Option<u32> {
    match slot.schedule.cpus.as_ref()?.cpus() {
        [cpu] => Some(*cpu),
        _ => None,
    }
}

/// What decides what its packets cost: the dearest of its NICs.
fn kind(router: &Router) -> Kind {
    let is = |wanted: fn(Traits) -> bool| router.nics.iter().any(|nic| wanted(nic.attach.traits()));
    let path = if is(|traits| traits.is_by_calls) {
        Path::Tap
    } else if is(|traits| traits.is_on_interface) {
        Path::Xdp
    } else {
        Path::Switch
    };
    let leaves = |nic: &Nic| nic.model == NicModel::E1000 && nic.mode != TransmitMode::Csb;
    Kind { class: Class::Vhost, path, exits: router.nics.iter().any(leaves), far: false }
}

/// What else decides it, as far as a file says: `kvm shared virtio-net/tap`.
fn device(router: &Router) -> String {
    let nic = |nic: &Nic| {
        let to = nic.attach.kind();
        match nic.model {
            NicModel::VirtioNet => format!("{}/{to}", nic.model.name()),
            NicModel::E1000 => format!("{}-{}/{to}", nic.model.name(), nic.mode.name()),
        }
    };
    let engine = router.engine.map_or("", config::Engine::name);
    let mut nics: Vec<String> = router.nics.iter().map(nic).collect();
    nics.sort();
    nics.dedup();
    format!("{engine} {} {}", router.vhost.name(), nics.join(" "))
}

/// What a packet costs a router on one CPU, all classes together, where `cost` says what it costs a part.
pub(super) fn cost_on(
    parts: &[Part],
    (router, cpu): (&str, u32),
    cost: impl Fn(&Part) -> Cost,
) -> Option<Cost> {
    let own = parts.iter().filter(|part| part.router == router && part.cpu == cpu);
    own.map(cost).reduce(|a, b| Cost { cycles: a.cycles + b.cycles, basis: a.basis.weaker(b.basis) })
}

#[cfg(test)]
mod tests;
