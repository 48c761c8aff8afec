//! Automatic placement of threads of which the file says nothing.
//!
//! If enough CPUs are idle, each thread gets one: on a core of its own while there are such, and of these one
//! near the other threads of its router (same cache, same node). If not, threads share CPUs according to the
//! measured load of each thread and of other programs. If not all threads were measured, the kernel places
//! them, with one exception: threads of routers that are promised a rate. If there is a CPU for each thread
//! when busy CPUs are counted as well, each of these gets one, a busy one if need be, because a promise holds
//! for a known CPU. Isolated and exclusive CPUs are only used by threads whose file names them.

use std::collections::BTreeSet;

use config::{Allowed, CpuSet, Plan, Policy, Router};

use crate::outline::{Outline, Placement};
use crate::sched_facts::SchedFacts;
use crate::thread::{self, Class};
use crate::topology::Cpu;

/// A CPU with a higher load by other programs is not considered idle.
const BUSY: f64 = 0.5;
/// Penalty of a CPU that holds a thread of the router's other class, when threads share CPUs: the load that
/// it is worth to keep a vCPU and its vhost thread on different CPUs.
const BESIDE_OWN: f64 = 0.5;

/// Returns true if a thread of a plan is placed by the measured load of the host.
pub fn is_automatic(plan: &Plan) -> bool {
    let is_placed = |pin: &Option<CpuSet>, allowed: &Allowed, policy| {
        pin.is_none() && *allowed == Allowed::Auto && !matches!(policy, Policy::Deadline(_))
    };
    let has_such = |router: &Router| {
        let Router { pin, affinity, sched, .. } = router;
        let has = |is_vcpu: bool| {
            let threads = thread::of_router(router);
            threads.iter().any(|(class, _)| matches!(class, Class::Vcpu(_)) == is_vcpu)
        };
        is_placed(&pin.vcpu, &affinity.vcpu, sched.of_vcpu()) && has(true)
            || is_placed(&pin.vhost, &affinity.vhost, sched.of_vhost()) && has(false)
    };
    plan.routers.iter().any(has_such)
}

pub(crate) fn place(plan: &Plan, known: &SchedFacts, outline: &mut Outline) {
    let exclusive: BTreeSet<u32> =
        outline.islands.iter().flat_map(|island| island.cpus.cpus()).copied().collect();
    let usable = |cpu: &&Cpu| known.is_for_all(cpu) && !exclusive.contains(&cpu.number);
    let usable: Vec<&Cpu> = known.topology.cpus.iter().filter(usable).collect();
    let mut waiting: Vec<usize> = (0..outline.slots.len())
        .filter(|slot| {
            let held = &outline.slots[*slot].schedule;
            // An unplaced reservation is left to the kernel, which moves it to wherever its time is
            // available.
            held.placement == Placement::Auto && !matches!(held.policy, Policy::Deadline(_))
        })
        .collect();
    let taken: BTreeSet<u32> = outline.slots.iter().filter_map(|slot| slot.only_cpu()).collect();
    let free: Vec<&Cpu> = usable.iter().filter(|cpu| !taken.contains(&cpu.number)).copied().collect();
    let busy: Vec<u32> = free.iter().map(|cpu| cpu.number).filter(|cpu| load(known, *cpu) >= BUSY).collect();
    let is_wanted = !waiting.is_empty();
    if waiting.len() <= free.len() - busy.len() {
        one_each(plan, known, outline, &waiting, free);
    } else if waiting.iter().all(|slot| known.load.threads.contains_key(&outline.slots[*slot].name)) {
        by_load(known, outline, waiting, &usable);
    } else if waiting.len() <= free.len() {
        waiting.retain(|slot| is_promised(plan, &outline.slots[*slot].router));
        one_each(plan, known, outline, &waiting, free);
    }
    if is_wanted {
        busy.into_iter().for_each(|cpu| tell_of_busy(outline, known, cpu));
    }
    around(outline, known, &usable);
}

/// Measured load of a CPU by other programs; 0 if it was not measured.
fn load(known: &SchedFacts, cpu: u32) -> f64 {
    known.load.cpus.get(&cpu).copied().unwrap_or(0.0)
}

fn is_promised(plan: &Plan, router: &str) -> bool {
    plan.routers.iter().any(|known| known.name == router && known.guarantee.is_some())
}

/// Notes why no thread was placed on a CPU that is free of our threads, or which one was placed there all the
/// same.
fn tell_of_busy(outline: &mut Outline, known: &SchedFacts, cpu: u32) {
    let busy = format!("others keep it busy for {:.0} % of the time", load(known, cpu) * 100.0);
    let there = outline.slots.iter().find(|slot| slot.only_cpu() == Some(cpu));
    outline.notes.push(match there {
        None => format!("no thread is placed on CPU {cpu} automatically: {busy}"),
        Some(slot) => format!("{} is placed on CPU {cpu}, for want of a better one: {busy}", slot.name),
    });
}

/// Places each waiting thread on a CPU of its own.
fn one_each(plan: &Plan, known: &SchedFacts, outline: &mut Outline, waiting: &[usize], mut free: Vec<&Cpu>) {
    for router in &plan.routers {
        for &slot in waiting {
            if outline.slots[slot].router != router.name {
                continue;
            }
            let others = outline.slots.iter();
            let used: Vec<u32> = others.clone().filter_map(|slot| slot.only_cpu()).collect();
            let mut own = others.clone().filter(|slot| slot.router == router.name);
            let near = own.find_map(|slot| known.topology.cpu(slot.only_cpu()?));
            let cost = |cpu: &&Cpu| {
                let far =
                    near.map_or((false, false), |near| (near.node != cpu.node, near.cache != cpu.cache));
                let shares_core = used.iter().filter_map(|cpu| known.topology.cpu(*cpu));
                let shares_core = shares_core.filter(|used| used.core == cpu.core).count();
                let roam = others.clone().filter(|slot| slot.may_roam(cpu.number)).count();
                let busy = load(known, cpu.number);
                // Rounded to tenths: smaller differences do not matter.
                (busy >= BUSY, roam, shares_core, far, (busy * 10.0) as u32, cpu.number)
            };
            let Some(best) = (0..free.len()).min_by_key(|at| cost(&free[*at])) else { return };
            let cpu = free.remove(best).number;
            outline.slots[slot].schedule.cpus = CpuSet::from_cpus([cpu]);
        }
    }
}

/// Places waiting threads by load: the heaviest first, each where the load is least.
fn by_load(known: &SchedFacts, outline: &mut Outline, mut waiting: Vec<usize>, usable: &[&Cpu]) {
    let own = |name: &str| known.load.threads.get(name).copied().unwrap_or(0.0);
    waiting.sort_by(|a, b| own(&outline.slots[*b].name).total_cmp(&own(&outline.slots[*a].name)));
    for at in waiting {
        let cost = |cpu: &&&Cpu| {
            let there = outline.slots.iter().filter(|slot| slot.only_cpu() == Some(cpu.number));
            let this = &outline.slots[at];
            let is_other_side =
                |class: &Class| matches!(class, Class::Vcpu(_)) != matches!(this.class, Class::Vcpu(_));
            let weight = there.map(|slot| {
                let beside = slot.router == this.router && is_other_side(&slot.class);
                own(&slot.name) + if beside { BESIDE_OWN } else { 0.0 }
            });
            load(known, cpu.number) + weight.sum::<f64>()
        };
        let best = usable.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        outline.slots[at].schedule.cpus = best.and_then(|cpu| CpuSet::from_cpus([cpu.number]));
    }
}

/// Gives threads without a place all CPUs that they may use, except exclusive and isolated ones.
fn around(outline: &mut Outline, known: &SchedFacts, usable: &[&Cpu]) {
    if usable.len() == known.topology.allowed.len() {
        return;
    }
    let set = CpuSet::from_cpus(usable.iter().map(|cpu| cpu.number));
    for slot in &mut outline.slots {
        let held = &mut slot.schedule;
        if held.cpus.is_none() && !matches!(held.policy, Policy::Deadline(_)) {
            held.cpus = set.clone();
        }
    }
}
