//! Interrupts of the host's NICs, and their affinity.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use config::{CpuSet, Plan};

use crate::outline::Outline;
use crate::sched_facts::SchedFacts;
use crate::topology::Cpu;

/// Interrupt of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irq {
    /// Number, as in `/proc/irq`.
    pub number: u32,
    /// Name of its handler, usually that of a queue.
    pub name: String,
}

/// Interrupt whose affinity is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The interface.
    pub interface: String,
    /// The interrupt.
    pub irq: Irq,
    /// Target CPUs.
    pub cpus: CpuSet,
}

impl Interrupt {
    /// File with the interrupt's affinity.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/irq/{}/smp_affinity_list", self.irq.number))
    }
}

/// Interrupts of an interface in this network namespace.
pub(crate) fn of_interface(name: &str) -> Vec<Irq> {
    let entries = fs::read_dir(Path::new("/sys/class/net").join(name).join("device/msi_irqs"));
    let numbers = entries.into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Interrupts of virtio devices belong to the PCI device above.
    let above = fs::read_dir(Path::new("/sys/class/net").join(name).join("device/../msi_irqs"));
    let above = above.into_iter().flatten().flatten();
    let above = above.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let numbers: BTreeSet<u32> = numbers.chain(above).collect();
    numbers.into_iter().filter_map(|number| Some(Irq { number, name: handler(number)? })).collect()
}

/// Name of an interrupt's handler; `None` if it has none.
fn handler(number: u32) -> Option<String> {
    let entries = fs::read_dir(format!("/proc/irq/{number}")).ok()?.flatten();
    let mut folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Moves the interrupts of the plan's interfaces to CPUs on which no thread of ours is placed, near the
/// threads that empty their queues.
pub(crate) fn place(plan: &Plan, known: &SchedFacts, outline: &mut Outline) {
    let taken: BTreeSet<u32> = outline.slots.iter().flat_map(|slot| slot.only_cpu()).collect();
    let exclusive = outline.islands.iter().flat_map(|island| island.cpus.cpus());
    let taken: BTreeSet<u32> = taken.into_iter().chain(exclusive.copied()).collect();
    for (router, nic) in plan.nics() {
        let Some(interface) = nic.attach.lower() else { continue };
        let irqs = known.interrupts.get(interface).map_or(&[][..], Vec::as_slice);
        let emptier = outline.slots.iter().find(|slot| slot.router == router.name && slot.is_vhost());
        let Some(beside) = emptier.and_then(|slot| slot.only_cpu()) else { continue };
        if irqs.is_empty() || outline.interrupts.iter().any(|moved| moved.interface == interface) {
            continue;
        }
        let Some(cpu) = nearest_free(known, &taken, beside) else {
            let numbers: Vec<String> = irqs.iter().map(|irq| irq.number.to_string()).collect();
            outline.notes.push(format!(
                "interrupts {} of {interface} stay where they are: threads of this run are on every CPU",
                numbers.join(", ")
            ));
            continue;
        };
        let Some(cpus) = CpuSet::from_cpus([cpu]) else { continue };
        let moved =
            |irq: &Irq| Interrupt { interface: interface.to_owned(), irq: irq.clone(), cpus: cpus.clone() };
        outline.interrupts.extend(irqs.iter().map(moved));
    }
}

fn nearest_free(known: &SchedFacts, taken: &BTreeSet<u32>, beside: u32) -> Option<u32> {
    let near = known.topology.cpu(beside)?;
    let free = |cpu: &&Cpu| {
        !taken.contains(&cpu.number) && !cpu.isolated && known.topology.allowed.contains(&cpu.number)
    };
    let apart = |cpu: &&Cpu| (cpu.node != near.node, cpu.cache != near.cache, cpu.core == near.core);
    known.topology.cpus.iter().filter(free).min_by_key(apart).map(|cpu| cpu.number)
}
