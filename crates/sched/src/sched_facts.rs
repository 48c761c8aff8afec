//! Facts about the host that placement is based on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use config::Plan;

use crate::account::{CoreTicks, cores};
use crate::cgroup::Hierarchy;
use crate::exclusive_cpus;
use crate::host::Host;
use crate::interrupts::{self, Irq};
use crate::outline::Outline;
use crate::topology::{Cpu, Topology};

/// Facts about a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedFacts {
    /// CPUs.
    pub topology: Topology,
    /// CPUs that other runs have made exclusive although this process may use them. Like isolated ones, they are for
    /// threads whose file names them.
    pub taken: BTreeSet<u32>,
    /// Scheduling limits.
    pub host: Host,
    /// Measured load; empty if nothing was measured.
    pub load: Load,
    /// Interrupts of the interfaces that a plan names.
    pub interrupts: BTreeMap<String, Vec<Irq>>,
}

/// Measured load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// CPU share of our threads, by name: 0 to 1.
    pub threads: BTreeMap<String, f64>,
    /// Load of each CPU by other programs: 0 to 1.
    pub cpus: BTreeMap<u32, f64>,
}

impl Load {
    /// Measures the load of each CPU for so long (100 ms resolve tenths: the kernel counts in ticks). It
    /// includes threads of this process, so it is meant for the time before there are any. Empty if the
    /// kernel does not report it.
    pub fn of_host(watched: Duration) -> Self {
        let read = || fs::read_to_string("/proc/stat").unwrap_or_default();
        let before = read();
        sleep(watched);
        Self { cpus: busy(&before, &read()), ..Self::default() }
    }
}

/// Fraction of each CPU's time that was not idle between two copies of `/proc/stat`.
pub(crate) fn busy(before: &str, after: &str) -> BTreeMap<u32, f64> {
    let before = cores(before);
    let part = |(cpu, now): (u32, CoreTicks)| {
        let then = before.get(&cpu)?;
        let (idle, all) = (now.idle.saturating_sub(then.idle), now.all().saturating_sub(then.all()));
        (all > 0).then(|| (cpu, 1.0 - idle.min(all) as f64 / all as f64))
    };
    cores(after).into_iter().filter_map(part).collect()
}

impl SchedFacts {
    /// Adds what the run that has carried out `held` may use: its threads may run on the CPUs that it has
    /// made exclusive. (In v2 its supervisor, which is outside, may not use them meanwhile.)
    #[must_use]
    pub fn holding(mut self, held: &Outline) -> Self {
        for cpu in held.islands.iter().flat_map(|island| island.cpus.cpus()) {
            self.topology.allowed.insert(*cpu);
            self.taken.remove(cpu);
        }
        self
    }

    /// Returns true if this process may use a CPU, and other threads than those whose file names it may as well.
    pub(crate) fn is_for_all(&self, cpu: &Cpu) -> bool {
        self.topology.allowed.contains(&cpu.number) && !cpu.isolated && !self.taken.contains(&cpu.number)
    }

    /// Reads the facts about this host. Changes nothing.
    pub fn read(plan: &Plan) -> Self {
        let interfaces = plan.nics().filter_map(|(_, nic)| nic.attach.lower());
        let host = Host::read();
        Self {
            topology: Topology::read(),
            taken: host.cpuset.as_ref().map_or_else(|_| BTreeSet::new(), taken),
            host,
            load: Load::default(),
            interrupts: interfaces.map(|name| (name.to_owned(), interrupts::of_interface(name))).collect(),
        }
    }
}

fn taken(cpusets: &Hierarchy) -> BTreeSet<u32> {
    exclusive_cpus::shared(cpusets).into_iter().collect()
}
