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
    let numbers = of_device(&Path::new("/sys/class/net").join(name).join("device"));
    numbers.into_iter().filter_map(|number| Some(Irq { number, name: handler(number)? })).collect()
}

/// Numbers of the interrupts of a device, by its folder in sysfs. Those of a virtio device belong to the PCI device
/// above it; above any other one is a bridge with interrupts of its own.
fn of_device(folder: &Path) -> BTreeSet<u32> {
    let bus = fs::canonicalize(folder.join("subsystem"));
    let is_virtio = bus.is_ok_and(|bus| bus.ends_with("virtio"));
    let folder = if is_virtio { folder.join("..") } else { folder.to_owned() };
    let entries = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
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
    let free = |cpu: &&Cpu| !taken.contains(&cpu.number) && known.is_for_all(cpu);
    let apart = |cpu: &&Cpu| (cpu.node != near.node, cpu.cache != near.cache, cpu.core == near.core);
    known.topology.cpus.iter().filter(free).min_by_key(apart).map(|cpu| cpu.number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_virtio_device_has_the_interrupts_of_the_device_above() {
        let system = tempfile::tempdir().expect("a folder");
        let made = |path: &str| {
            let path = system.path().join(path);
            fs::create_dir_all(&path).expect("made");
            path
        };
        // A PCI device behind a bridge, and a virtio device.
        for (device, bus) in [("bridge/nic", "bus/pci"), ("bridge/nic/virtio0", "bus/virtio")] {
            symlink(made(bus), made(device).join("subsystem")).expect("made");
        }
        for interrupt in ["bridge/msi_irqs/24", "bridge/nic/msi_irqs/30", "bridge/nic/msi_irqs/31"] {
            made(interrupt);
        }
        let found = |device: &str| Vec::from_iter(of_device(&system.path().join(device)));
        assert_eq!(found("bridge/nic"), [30, 31]);
        assert_eq!(found("bridge/nic/virtio0"), [30, 31]);
        assert_eq!(found("no/such/device"), [0; 0]);
    }
}
