//! CPU topology of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use config::CpuSet;

/// A CPU (hardware thread), as the kernel counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// CPU number.
    pub number: u32,
    /// Its core: the lowest number of the CPUs (hardware threads) that share it.
    pub core: u32,
    /// Its last-level cache: the lowest number of the CPUs that share it.
    pub cache: u32,
    /// Its NUMA node.
    pub node: u32,
    /// True if the kernel places no thread there on its own (`isolcpus=`).
    pub isolated: bool,
}

/// CPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs, ascending.
    pub cpus: Vec<Cpu>,
    /// Those of them that this process may use: what a cpuset or taskset(1) leaves it.
    pub allowed: BTreeSet<u32>,
}

impl Topology {
    /// Host of so many CPUs, each a core of its own, with one cache.
    pub fn plain(cpus: u32) -> Self {
        let cpu = |number| Cpu { number, core: number, cache: 0, node: 0, isolated: false };
        Self { cpus: (0..cpus).map(cpu).collect(), allowed: (0..cpus).collect() }
    }

    /// Reads the topology of this host.
    pub(crate) fn read() -> Self {
        let mut topology = Self::read_from(Path::new("/sys/devices/system"));
        if let Ok(set) = rustix::thread::sched_getaffinity(None) {
            topology.allowed.retain(|cpu| set.is_set(*cpu as usize));
        }
        topology
    }

    /// Reads a topology from a copy of `/sys/devices/system`; every CPU may be used.
    pub fn read_from(system: &Path) -> Self {
        let online = list(&system.join("cpu/online"));
        let isolated = list(&system.join("cpu/isolated"));
        let nodes = nodes(&system.join("node"));
        let cpu = |number: &u32| {
            let folder = system.join(format!("cpu/cpu{number}"));
            let lowest = |path: &Path| list(path).first().copied().unwrap_or(*number);
            Cpu {
                number: *number,
                core: lowest(&folder.join("topology/thread_siblings_list")),
                cache: last_cache(&folder.join("cache")).first().copied().unwrap_or(*number),
                node: nodes.get(number).copied().unwrap_or(0),
                isolated: isolated.contains(number),
            }
        };
        Self { cpus: online.iter().map(cpu).collect(), allowed: online.iter().copied().collect() }
    }

    /// Returns an online CPU.
    pub(crate) fn cpu(&self, number: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }

    /// CPUs that may be used, as a list.
    pub(crate) fn listed(&self) -> String {
        let set = CpuSet::from_cpus(self.allowed.iter().copied());
        set.map_or_else(|| "none".to_owned(), |set| set.to_string())
    }

    /// Returns true if these are all online CPUs.
    pub(crate) fn is_all(&self, set: &CpuSet) -> bool {
        self.cpus.iter().all(|cpu| set.cpus().contains(&cpu.number))
    }
}

/// CPUs that a file lists, without those whose numbers no mask of ours has; empty if there is no such file.
fn list(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let listed = CpuSet::from_kernel(&text);
    let usable = |set: CpuSet| set.cpus().iter().copied().filter(|cpu| *cpu <= CpuSet::LAST).collect();
    listed.map_or_else(|_| Vec::new(), usable)
}

/// CPUs that share the last-level cache.
fn last_cache(caches: &Path) -> Vec<u32> {
    let level = |index: u32| {
        let folder = caches.join(format!("index{index}"));
        let level = fs::read_to_string(folder.join("level")).ok()?.trim().parse::<u32>().ok()?;
        Some((level, folder))
    };
    let highest = (0..10).map_while(level).max_by_key(|(level, _)| *level);
    highest.map_or_else(Vec::new, |(_, folder)| list(&folder.join("shared_cpu_list")))
}

/// NUMA node of each CPU.
fn nodes(folder: &Path) -> BTreeMap<u32, u32> {
    let online = list(&folder.join("online"));
    let of_node = |node: u32| list(&folder.join(format!("node{node}/cpulist")));
    online.into_iter().flat_map(|node| of_node(node).into_iter().map(move |cpu| (cpu, node))).collect()
}
