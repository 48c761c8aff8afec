//! Admission of the promises of a plan.

use std::collections::{BTreeMap, BTreeSet};

use config::{Fault, Guarantee, Plan, Policy, Router};

use super::ORDINARY;
use super::thread_groups::{AdmissionContext, ThreadGroup, cost_on, cpu_of, parts_of};
use crate::Outline;
use crate::guarantee::{Controller, Core, Need, Promise};

/// Part of a CPU that can be promised: real-time throttling and the kernel's own threads want the rest.
const MOST: f64 = 0.90;

/// Promises of a plan, all of which can be kept.
pub(super) struct Admitted {
    pub(super) controller: Controller,
    pub(super) parts: Vec<ThreadGroup>,
    /// Sum of the weights of routers without a promise, by CPU.
    pub(super) others: BTreeMap<u32, u64>,
}

impl Admitted {
    /// Requests all promises of a plan.
    ///
    /// # Errors
    /// What cannot be promised, with the arithmetic.
    pub(super) fn of(context: &AdmissionContext<'_>) -> Result<Self, Vec<Fault>> {
        let parts = threads(context)?;
        let controller = admit(context, &parts)?;
        Ok(Self { controller, parts, others: others(context.plan, context.outline) })
    }
}

/// Routers with a promise, with their indices.
fn promised(plan: &Plan) -> impl Iterator<Item = (usize, &Router, Guarantee)> {
    plan.routers.iter().enumerate().filter_map(|(index, router)| Some((index, router, router.guarantee?)))
}

/// Threads of routers with a promise.
fn threads(context: &AdmissionContext<'_>) -> Result<Vec<ThreadGroup>, Vec<Fault>> {
    let (mut parts, mut faults) = (Vec::new(), Vec::new());
    for (index, router, guarantee) in promised(context.plan) {
        match parts_of(router, guarantee, context) {
            Ok(own) => parts.extend(own),
            Err(what) => faults.push(Fault::new(index, "guarantee", what)),
        }
    }
    if faults.is_empty() { Ok(parts) } else { Err(faults) }
}

/// Admits the promises one after the other, as long as their CPUs can carry them.
fn admit(context: &AdmissionContext<'_>, parts: &[ThreadGroup]) -> Result<Controller, Vec<Fault>> {
    let mut controller = Controller::new(cores(parts, context.outline, context.hertz));
    let mut faults = Vec::new();
    for (index, router, guarantee) in promised(context.plan) {
        if let Err(refusal) = controller.promise(promise(router, guarantee, parts)) {
            let doubt =
                context.costs.pending_trouble().map_or_else(String::new, |doubt| format!("; {doubt}"));
            faults.push(Fault::new(index, "guarantee", format!("{refusal}{doubt}")));
        }
    }
    if faults.is_empty() { Ok(controller) } else { Err(faults) }
}

fn promise(router: &Router, guarantee: Guarantee, parts: &[ThreadGroup]) -> Promise {
    let cpus: BTreeSet<u32> =
        parts.iter().filter(|part| part.router == router.name).map(|part| part.cpu).collect();
    let need = |cpu| Some(Need { cpu, cost: cost_on(parts, (&router.name, cpu), ThreadGroup::price)? });
    Promise {
        router: router.name.clone(),
        pps: guarantee.rate.pps() as f64,
        needs: cpus.into_iter().filter_map(need).collect(),
    }
}

fn cores(parts: &[ThreadGroup], outline: &Outline, hertz: f64) -> Vec<Core> {
    let cpus: BTreeSet<u32> = parts.iter().map(|part| part.cpu).collect();
    let reserved = |cpu: u32| -> f64 {
        let held = outline.slots.iter().filter(|slot| cpu_of(slot) == Some(cpu));
        held.filter_map(|slot| match slot.schedule.policy {
            Policy::Deadline(held) => Some(held.share()),
            _ => None,
        })
        .sum()
    };
    cpus.into_iter().map(|cpu| Core { cpu, hertz, most: MOST, reserved: reserved(cpu) }).collect()
}

/// Sum of the weights of routers without a promise, by CPU; at least that of one ordinary thread of another
/// program.
fn others(plan: &Plan, outline: &Outline) -> BTreeMap<u32, u64> {
    let mut weights: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
    for slot in &outline.slots {
        let router = plan.routers.iter().find(|router| router.name == slot.router);
        if router.is_none_or(|router| router.guarantee.is_some()) {
            continue;
        }
        let weight = match slot.schedule.policy {
            Policy::Shares(shares) => u64::from(shares.weight),
            _ => ORDINARY,
        };
        for cpu in slot.schedule.cpus.iter().flat_map(|cpus| cpus.cpus()) {
            weights.entry(*cpu).or_default().insert(&slot.router, weight);
        }
    }
    weights
        .into_iter()
        .map(|(cpu, weights)| (cpu, weights.into_values().sum::<u64>().max(ORDINARY)))
        .collect()
}
