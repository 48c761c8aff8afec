//! Admission of the promises of a plan.

use std::collections::{BTreeMap, BTreeSet};

use config::{Fault, Guarantee, Plan, Policy, Router};

use super::ORDINARY;
use super::thread_groups::{AdmissionContext, ThreadGroup, cost_on, parts_of};
use crate::guarantee::{Controller, Core, Need, Promise};
use crate::{Outline, Slot};

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
    cpus.into_iter().map(|cpu| Core { cpu, hertz, most: MOST, reserved: reserved(outline, cpu) }).collect()
}

/// Part of a CPU that reservations may take: wholly those that may run there, wherever else they may.
fn reserved(outline: &Outline, cpu: u32) -> f64 {
    let is_exclusive = outline.islands.iter().any(|island| island.cpus.cpus().contains(&cpu));
    let may_run = |slot: &&Slot| match &slot.schedule.cpus {
        Some(cpus) => cpus.cpus().contains(&cpu),
        // The kernel places it on all CPUs that are not exclusive.
        None => !is_exclusive,
    };
    let shares = outline.slots.iter().filter(may_run).filter_map(|slot| match slot.schedule.policy {
        Policy::Deadline(held) => Some(held.share()),
        _ => None,
    });
    shares.sum::<f64>().min(1.0)
}

/// Sum of the weights of control groups without a promise, by CPU: those of routers and of balancers; at least
/// that of one ordinary thread of another program.
fn others(plan: &Plan, outline: &Outline) -> BTreeMap<u32, u64> {
    let mut weights: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
    for slot in &outline.slots {
        let router = plan.routers.iter().find(|router| router.name == slot.router);
        if router.is_some_and(|router| router.guarantee.is_some()) {
            continue;
        }
        // Each class of a router may have a group of its own.
        let group = slot.schedule.group.as_ref().unwrap_or(&slot.router);
        let weight = match slot.schedule.policy {
            Policy::Shares(shares) => u64::from(shares.weight),
            _ => ORDINARY,
        };
        for cpu in slot.schedule.cpus.iter().flat_map(|cpus| cpus.cpus()) {
            weights.entry(*cpu).or_default().insert(group, weight);
        }
    }
    weights
        .into_iter()
        .map(|(cpu, weights)| (cpu, weights.into_values().sum::<u64>().max(ORDINARY)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{host, outline, plan, router};

    #[test]
    fn a_reservation_counts_on_each_cpu_where_it_may_run() {
        let deadline = "sched = { vcpu = { policy = \"deadline\", runtime = \"3ms\", period = \"10ms\" } }";
        let guest = |name: &str, lines: &str| router(name, &format!("{deadline}\n{lines}"));
        let parts = |text: &str| {
            let outline = outline(text, &host(4));
            [0, 1, 2].map(|cpu| (super::reserved(&outline, cpu) * 1000.0).round())
        };
        let on_one = guest("one", "pin = { vcpu = \"1\" }");
        assert_eq!(parts(&on_one), [0.0, 300.0, 0.0]);
        assert_eq!(parts(&guest("two", "affinity = { vcpu = \"0-1\" }")), [300.0, 300.0, 0.0]);
        let anywhere = guest("any", "affinity = { vcpu = \"free\" }");
        assert_eq!(parts(&anywhere), [300.0; 3]);
        // The kernel places none on exclusive CPUs.
        assert_eq!(parts(&(on_one + &anywhere)), [300.0; 3]);
        let many = ["a", "b", "c", "d"].map(|name| guest(name, "affinity = { vcpu = \"free\" }")).concat();
        assert_eq!(parts(&many), [1000.0; 3], "no more than the whole CPU");
    }

    #[test]
    fn each_group_beside_a_promise_counts() {
        let pin = "pin = { vcpu = \"1\", vhost = \"1\" }";
        let shares = |weight: u32| format!("{{ policy = \"shares\", weight = {weight} }}");
        let apart = format!("{pin}\nsched = {{ vcpu = {}, vhost = {} }}", shares(2), shares(3));
        let edge = router("edge", &format!("{pin}\nguarantee = \"1kpps\""));
        let weights = |others: &str| {
            let text = format!("{edge}{others}");
            super::others(&plan(&text), &outline(&text, &host(2)))
        };
        assert_eq!(weights(&router("guest", &apart)), BTreeMap::from([(1, 500)]));
        let two = router("guest", &apart) + &router("plain", pin);
        assert_eq!(weights(&two), BTreeMap::from([(1, 600)]), "an ordinary router counts as one thread");
        let group = "[[group]]\nname = \"core\"\nkind = \"multistage\"\nbackends = 1\npin = { vhost = \"0-1\" }\n\
            [[group.nic]]\nname = \"a\"\nattach = \"tap:a\"\n[[group.nic]]\nname = \"b\"\nattach = \"tap:b\"\n";
        let both = router("plain", pin) + group;
        assert_eq!(weights(&both)[&1], 200, "the balancer has the last CPU of the set");
    }
}
