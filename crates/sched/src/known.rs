//! What is known before threads are placed.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use config::Plan;

use crate::account::{CoreTicks, cores};
use crate::host::Host;
use crate::interrupts::{self, Irq};
use crate::outline::Outline;
use crate::topology::Topology;

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Its CPUs.
    pub topology: Topology,
    /// What may be asked of it.
    pub host: Host,
    /// What was measured; empty where nothing was.
    pub load: Load,
    /// Interrupts of the interfaces that a plan names.
    pub interrupts: BTreeMap<String, Vec<Irq>>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What threads of ours take of a CPU, by their names: 0 to 1.
    pub threads: BTreeMap<String, f64>,
    /// What others take of each CPU: 0 to 1.
    pub cpus: BTreeMap<u32, f64>,
}

impl Load {
    /// What is done on each CPU now, watched for so long (100 ms tell tenths: the kernel counts in ticks). Threads of this
    /// process are among those that do it: for before there are any. Nothing where the kernel does not tell.
    pub fn of_host(watched: Duration) -> Self {
        let read = || fs::read_to_string("/proc/stat").unwrap_or_default();
        let before = read();
        sleep(watched);
        Self { cpus: busy(&before, &read()), ..Self::default() }
    }
}

/// The part of each CPU's time that was not idle between two copies of `/proc/stat`.
pub(crate) fn busy(before: &str, after: &str) -> BTreeMap<u32, f64> {
    let before = cores(before);
    let part = |(cpu, now): (u32, CoreTicks)| {
        let then = before.get(&cpu)?;
        let (idle, all) = (now.idle.saturating_sub(then.idle), now.all().saturating_sub(then.all()));
        (all > 0).then(|| (cpu, 1.0 - idle.min(all) as f64 / all as f64))
    };
    cores(after).into_iter().filter_map(part).collect()
}

impl Known {
    /// What is known to the run that has carried out `held`: the CPUs that it has made exclusive may be used by its threads. (In
    /// version 2 its supervisor, which is outside, may not use them meanwhile.)
    #[must_use]
    pub fn holding(mut self, held: &Outline) -> Self {
        self.topology.allowed.extend(held.islands.iter().flat_map(|island| island.cpus.cpus()));
        self
    }

    /// What can be read on this host. Changes nothing.
    pub fn read(plan: &Plan) -> Self {
        let interfaces = plan.nics().filter_map(|(_, nic)| nic.attach.lower());
        Self {
            topology: Topology::read(),
            host: Host::read(),
            load: Load::default(),
            interrupts: interfaces.map(|name| (name.to_owned(), interrupts::of_interface(name))).collect(),
        }
    }
}
