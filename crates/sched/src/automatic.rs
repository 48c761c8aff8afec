//! Places for threads of which the file says nothing.
//!
//! Where there are CPUs enough that others leave free, each thread has one: on a core of its own while there are such, and of
//! these near the other threads of its router (one cache, one node). Where there are not, they share CPUs by what each thread
//! and others were measured to take. Where not all of them were measured, the kernel places them, but for those of routers
//! that are promised a rate: if there is a CPU for each thread once those that others keep busy are counted in, these have
//! one each, a busy one for want of a better, because a promise is for a known CPU. CPUs that are isolated or exclusive are
//! for those who name them.

use std::collections::BTreeSet;

use config::{Allowed, CpuSet, Plan, Policy, Router};

use crate::known::Known;
use crate::outline::{Outline, Placement};
use crate::thread::Class;
use crate::topology::Cpu;

/// A CPU that others take more of is no free one.
const BUSY: f64 = 0.5;
/// What a CPU that holds the other side of a router counts more, when threads share CPUs: as much as it is worth to keep a
/// vCPU and its vhost thread apart.
const BESIDE_OWN: f64 = 0.5;

/// Whether a thread of a plan is to be placed by what is measured on the host.
pub fn is_automatic(plan: &Plan) -> bool {
    let is_placed = |pin: &Option<CpuSet>, allowed: &Allowed, policy| {
        pin.is_none() && *allowed == Allowed::Auto && !matches!(policy, Policy::Deadline(_))
    };
    let has_such = |router: &Router| {
        let Router { pin, affinity, sched, .. } = router;
        is_placed(&pin.vcpu, &affinity.vcpu, sched.of_vcpu())
            || is_placed(&pin.vhost, &affinity.vhost, sched.of_vhost())
    };
    plan.routers.iter().any(has_such)
}

pub(crate) fn place(plan: &Plan, known: &Known, outline: &mut Outline) {
    let exclusive: BTreeSet<u32> =
        outline.islands.iter().flat_map(|island| island.cpus.cpus()).copied().collect();
    let allowed = &known.topology.allowed;
    let usable =
        |cpu: &&Cpu| allowed.contains(&cpu.number) && !cpu.isolated && !exclusive.contains(&cpu.number);
    let usable: Vec<&Cpu> = known.topology.cpus.iter().filter(usable).collect();
    let mut waiting: Vec<usize> = (0..outline.slots.len())
        .filter(|slot| {
            let held = &outline.slots[*slot].schedule;
            // A reservation without a place is the kernel's to place, which moves it to wherever its time is to be had.
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

/// What others take of a CPU; 0 where that was not measured.
fn load(known: &Known, cpu: u32) -> f64 {
    known.load.cpus.get(&cpu).copied().unwrap_or(0.0)
}

fn is_promised(plan: &Plan, router: &str) -> bool {
    plan.routers.iter().any(|known| known.name == router && known.guarantee.is_some())
}

/// Why nobody was placed on a CPU that is free of our threads, or who was all the same.
fn tell_of_busy(outline: &mut Outline, known: &Known, cpu: u32) {
    let busy = format!("others keep it busy for {:.0} % of the time", load(known, cpu) * 100.0);
    let there = outline.slots.iter().find(|slot| slot.only_cpu() == Some(cpu));
    outline.notes.push(match there {
        None => format!("no thread is placed on CPU {cpu} automatically: {busy}"),
        Some(slot) => format!("{} is placed on CPU {cpu}, for want of a better one: {busy}", slot.name),
    });
}

/// A CPU for each.
fn one_each(plan: &Plan, known: &Known, outline: &mut Outline, waiting: &[usize], mut free: Vec<&Cpu>) {
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
                // Tenths: what is nearly the same is the same.
                (busy >= BUSY, roam, shares_core, far, (busy * 10.0) as u32, cpu.number)
            };
            let Some(best) = (0..free.len()).min_by_key(|at| cost(&free[*at])) else { return };
            let cpu = free.remove(best).number;
            outline.slots[slot].schedule.cpus = CpuSet::from_cpus([cpu]);
        }
    }
}

/// The heaviest first, each to where least is done.
fn by_load(known: &Known, outline: &mut Outline, mut waiting: Vec<usize>, usable: &[&Cpu]) {
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

/// Gives threads that have no place yet all CPUs that they may have but those that are exclusive or isolated.
fn around(outline: &mut Outline, known: &Known, usable: &[&Cpu]) {
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
