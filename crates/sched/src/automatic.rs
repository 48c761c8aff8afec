//! Places for threads of which the file says nothing.
//!
//! Where there are CPUs enough, each thread has one: those of a router near each other (one cache, one node), each on a core
//! of its own while there are such. Where there are not, measured loads decide, and where nothing was measured, the kernel.
//! CPUs that are isolated or exclusive are for those who name them.

use std::collections::BTreeSet;

use config::{CpuSet, Plan, Policy};

use crate::known::Known;
use crate::outline::{Outline, Placement};
use crate::thread::Class;
use crate::topology::Cpu;

/// A CPU that others take more of is no free one.
const BUSY: f64 = 0.5;
/// What a CPU that holds the other side of a router counts more, when threads share CPUs: as much as it is worth to keep a
/// vCPU and its vhost thread apart.
const BESIDE_OWN: f64 = 0.5;

pub(crate) fn place(plan: &Plan, known: &Known, outline: &mut Outline) {
    let exclusive: BTreeSet<u32> =
        outline.islands.iter().flat_map(|island| island.cpus.cpus()).copied().collect();
    let allowed = &known.topology.allowed;
    let usable =
        |cpu: &&Cpu| allowed.contains(&cpu.number) && !cpu.isolated && !exclusive.contains(&cpu.number);
    let usable: Vec<&Cpu> = known.topology.cpus.iter().filter(usable).collect();
    let waiting: Vec<usize> = (0..outline.slots.len())
        .filter(|slot| {
            let held = &outline.slots[*slot].schedule;
            // A reservation without a place is the kernel's to place, which moves it to wherever its time is to be had.
            held.placement == Placement::Auto && !matches!(held.policy, Policy::Deadline(_))
        })
        .collect();
    let taken: BTreeSet<u32> = outline.slots.iter().filter_map(|slot| slot.only_cpu()).collect();
    let is_free = |cpu: &&&Cpu| {
        !taken.contains(&cpu.number) && known.load.cpus.get(&cpu.number).copied().unwrap_or(0.0) < BUSY
    };
    let free: Vec<&Cpu> = usable.iter().filter(is_free).copied().collect();
    if waiting.len() <= free.len() {
        one_each(plan, known, outline, &waiting, free);
    } else if waiting.iter().all(|slot| known.load.threads.contains_key(&outline.slots[*slot].name)) {
        by_load(known, outline, waiting, &usable);
    }
    around(outline, known, &usable);
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
            let mut own = others.filter(|slot| slot.router == router.name).filter_map(|slot| slot.only_cpu());
            let near = own.find_map(|cpu| known.topology.cpu(cpu));
            let cost = |cpu: &&Cpu| {
                let far =
                    near.map_or((false, false), |near| (near.node != cpu.node, near.cache != cpu.cache));
                let shares_core = used.iter().filter_map(|cpu| known.topology.cpu(*cpu));
                let shares_core = shares_core.filter(|used| used.core == cpu.core).count();
                let busy = known.load.cpus.get(&cpu.number).copied().unwrap_or(0.0);
                // Tenths: what is nearly the same is the same.
                (shares_core, far, (busy * 10.0) as u32, cpu.number)
            };
            let Some(best) = (0..free.len()).min_by_key(|at| cost(&free[*at])) else { return };
            let cpu = free.remove(best).number;
            outline.slots[slot].schedule.cpus = CpuSet::from_cpus([cpu]);
        }
    }
}

/// The heaviest first, each to where least is done.
fn by_load(known: &Known, outline: &mut Outline, mut waiting: Vec<usize>, usable: &[&Cpu]) {
    let load = |name: &str| known.load.threads.get(name).copied().unwrap_or(0.0);
    waiting.sort_by(|a, b| load(&outline.slots[*b].name).total_cmp(&load(&outline.slots[*a].name)));
    for at in waiting {
        let cost = |cpu: &&&Cpu| {
            let there = outline.slots.iter().filter(|slot| slot.only_cpu() == Some(cpu.number));
            let this = &outline.slots[at];
            let is_other_side =
                |class: &Class| matches!(class, Class::Vcpu(_)) != matches!(this.class, Class::Vcpu(_));
            let weight = there.map(|slot| {
                let beside = slot.router == this.router && is_other_side(&slot.class);
                load(&slot.name) + if beside { BESIDE_OWN } else { 0.0 }
            });
            known.load.cpus.get(&cpu.number).copied().unwrap_or(0.0) + weight.sum::<f64>()
        };
        let best = usable.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        outline.slots[at].schedule.cpus = best.and_then(|cpu| CpuSet::from_cpus([cpu.number]));
    }
}

/// Who has no place yet runs wherever it may, but not where CPUs are exclusive or isolated.
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
