//! JSON output of `check`: one object per line, each with its `kind`. `docs/json.md` explains their keys.

use config::{CpuSet, Errors, Plan, Policy, Router};
use sched::promises::{Promised, Promises};
use sched::{CpuNeighbours, Outline, Placement, Slot};
use serde_json::{Value, json};
use supervisor::Planned;
use supervisor::plan_report;

use super::{CheckedPlan, ports};

/// The plan, the placement of its threads, and the findings about this host.
pub(super) fn lines(looked: &CheckedPlan) -> String {
    let (plan, planned) = (&looked.plan, looked.threads.as_ref().ok());
    let mut objects = vec![json!({
        "kind": "plan",
        "name": plan.name,
        "memory_mib": plan.memory() >> 20,
        "routers": plan.routers.len(),
        "switches": plan.switches.len(),
    })];
    objects.extend(switches(plan));
    for router in &plan.routers {
        objects.push(self::router(router));
        objects.extend(threads(router, planned.map(|planned| &planned.outline)));
    }
    objects.extend(planned.into_iter().flat_map(made));
    objects.extend(looked.by_process.as_deref().map(note));
    objects.extend(looked.findings.iter().map(|finding| of_kind("finding", json!(finding))));
    text(&objects)
}

/// Errors, each with its place in the file.
pub(super) fn errors(errors: &Errors) -> String {
    let objects = errors.errors.iter().map(|error| {
        let mut object = json!({ "kind": "error", "error": error.what, "file": errors.file });
        if error.line > 0 {
            object["line"] = error.line.into();
        }
        if !error.key.is_empty() {
            object["key"] = error.key.as_str().into();
        }
        if let Some(router) = &error.router {
            object["router"] = router.as_str().into();
        }
        object
    });
    text(&objects.collect::<Vec<_>>())
}

fn text(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

fn of_kind(kind: &str, mut object: Value) -> Value {
    object["kind"] = kind.into();
    object
}

fn note(line: &str) -> Value {
    json!({ "kind": "note", "note": line })
}

fn switches(plan: &Plan) -> impl Iterator<Item = Value> {
    plan.switches.iter().map(move |switch| {
        json!({
            "kind": "switch",
            "name": switch.name,
            "ageing_s": switch.ageing.as_secs(),
            "ports": ports(plan, &switch.name),
        })
    })
}

fn router(router: &Router) -> Value {
    json!({
        "kind": "router",
        "name": router.name,
        "settings": plan_report::settings(router),
        "nics": router.nics.iter().map(|nic| plan_report::nic(router, nic)).collect::<Vec<_>>(),
        "interfaces": plan_report::interfaces(router),
        "routes": plan_report::routes(router),
        "neighbours": plan_report::neighbours(router),
    })
}

/// Placement and scheduling of a router's threads; if nothing is planned for them, the placement given in the
/// file.
fn threads(router: &Router, outline: Option<&Outline>) -> Vec<Value> {
    let slots = outline.into_iter().flat_map(|outline| &outline.slots);
    let planned: Vec<Value> = slots.filter(|slot| slot.router == router.name).map(thread).collect();
    if !planned.is_empty() {
        return planned;
    }
    let named = |(name, cpus): (String, Option<&CpuSet>)| {
        with_cpus(json!({ "kind": "thread", "router": router.name, "name": name }), cpus)
    };
    router.threads().into_iter().map(named).collect()
}

fn thread(slot: &Slot) -> Value {
    let held = &slot.schedule;
    let mut object = json!({
        "kind": "thread",
        "router": slot.router,
        "name": slot.name,
        "placement": match held.placement {
            Placement::Pin => "pin",
            Placement::Affinity => "affinity",
            Placement::Free => "free",
            Placement::Auto => "automatic",
        },
        "policy": held.policy.name(),
        "alone": slot.neighbours == CpuNeighbours::Nobody,
    });
    match held.policy {
        Policy::Fifo { priority } | Policy::Rr { priority } => object["priority"] = priority.into(),
        Policy::Deadline(reserved) => {
            object["runtime_ns"] = (reserved.runtime.as_nanos() as u64).into();
            object["deadline_ns"] = (reserved.deadline.as_nanos() as u64).into();
            object["period_ns"] = (reserved.period.as_nanos() as u64).into();
            object["reclaim"] = reserved.reclaim.into();
        }
        Policy::Other | Policy::Shares(_) => {}
    }
    if let Some(group) = &held.group {
        object["group"] = group.as_str().into();
    }
    with_cpus(object, held.cpus.as_ref())
}

/// Adds `cpus`, unless the thread may run on any CPU.
fn with_cpus(mut object: Value, cpus: Option<&CpuSet>) -> Value {
    if let Some(cpus) = cpus {
        object["cpus"] = cpus.cpus().into();
    }
    object
}

/// Objects made on the host for the threads, promises, and remarks for the operator.
fn made(planned: &Planned) -> Vec<Value> {
    let Planned { outline, promises, .. } = planned;
    let mut objects: Vec<Value> = outline
        .islands
        .iter()
        .map(|island| json!({ "kind": "cpuset", "cpus": island.cpus.cpus(), "reserved": island.reserved, "most": island.most }))
        .collect();
    objects.extend(outline.groups.iter().map(group));
    objects.extend(outline.interrupts.iter().map(|moved| {
        json!({
            "kind": "interrupt",
            "number": moved.irq.number,
            "name": moved.irq.name,
            "interface": moved.interface,
            "cpus": moved.cpus.cpus(),
        })
    }));
    objects.extend(outline.notes.iter().map(|line| note(line)));
    let promised = promises.iter().flat_map(Promises::promised);
    objects.extend(promised.map(guarantee));
    objects.extend(promises.iter().filter_map(Promises::pending_trouble).map(|line| note(&line)));
    objects
}

fn guarantee(promised: Promised<'_>) -> Value {
    of_kind("guarantee", json!(promised))
}

fn group(group: &sched::Group) -> Value {
    let mut object = json!({
        "kind": "group",
        "name": group.name,
        "weight": f64::from(group.shares.weight) / 100.0,
    });
    if let Some(quota) = group.shares.quota {
        object["most"] = (f64::from(quota) / 1000.0).into();
    }
    object
}

#[cfg(test)]
mod tests;
