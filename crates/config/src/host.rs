//! Checks of a plan against a host's CPUs and memory. The host's facts are an input, so this is pure.

use std::collections::BTreeSet;

use crate::cpus::CpuSet;
use crate::error::Errors;
use crate::group::table_of;
use crate::plan::{Engine, Plan, TransmitMode, VhostThreads};

/// Facts about a host that plans depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// CPUs that this process may use.
    pub cpus: BTreeSet<u32>,
    /// Memory available without swapping, in octets; `None` if unknown.
    pub memory_available: Option<u64>,
    /// Why there is no KVM; `None` if there is.
    pub no_kvm: Option<String>,
    /// Why foreign guests (not our firmware) cannot run here although there is KVM; `None` if they can, or if
    /// that was not checked.
    pub no_linux: Option<String>,
}

impl Plan {
    /// Requirements of the plan that this host cannot meet.
    pub fn check_host(&self, host: &HostFacts) -> Errors {
        let mut errors = Errors::new(self.places.file());
        self.check_engines(host, &mut errors);
        self.check_cpus(host, &mut errors);
        self.check_memory(host, &mut errors);
        errors.sorted()
    }

    /// Chooses an engine for each router whose file names none: KVM if this host has it, else a process. For
    /// processes, returns one line with their names and the reason.
    pub fn choose_engines(&mut self, host: &HostFacts) -> Option<String> {
        let engine = if host.no_kvm.is_none() { Engine::Kvm } else { Engine::Process };
        let mut chosen = Vec::new();
        for router in self.routers.iter_mut().filter(|router| router.engine.is_none()) {
            router.engine = Some(engine);
            chosen.push(router.name.as_str());
        }
        for group in &mut self.groups {
            group.pattern.engine.get_or_insert(engine);
        }
        let reason = host.no_kvm.as_ref().filter(|_| !chosen.is_empty())?;
        Some(format!("no KVM ({reason}): runs as a process: {}", chosen.join(", ")))
    }

    /// A key of a router with the table that it stands in: `router.engine`, `group.engine`.
    fn key(&self, index: usize, key: &str) -> String {
        let table = self.routers.get(index).map_or("router", |router| table_of(router).0);
        format!("{table}.{key}")
    }

    fn check_engines(&self, host: &HostFacts, errors: &mut Errors) {
        if let Some(reason) = host.no_kvm.as_ref().or(host.no_linux.as_ref()) {
            let linux = self.routers.iter().enumerate().filter(|(_, router)| router.linux.is_some());
            for (index, _) in linux {
                errors.push(
                    self.places.line(index, None, "engine"),
                    &self.key(index, "engine"),
                    reason.clone(),
                );
            }
        }
        let Some(reason) = &host.no_kvm else { return };
        for (index, router) in self.routers.iter().enumerate() {
            if router.engine == Some(Engine::Kvm) {
                let what = format!("{reason}; write engine = \"process\", or remove the key");
                errors.push(self.places.line(index, None, "engine"), &self.key(index, "engine"), what);
            }
            if !router.engine.is_some_and(Engine::needs_kvm) {
                self.check_modes(index, reason, errors);
            }
        }
    }

    /// Refuses keys that the automatically chosen engine does not support.
    fn check_modes(&self, index: usize, reason: &str, errors: &mut Errors) {
        let vhost = self.routers.get(index).map(|router| router.vhost);
        if let Some(vhost @ (VhostThreads::Kernel | VhostThreads::Vmm)) = vhost {
            let what = format!(
                "{reason}, and vhost = \"{}\" serves NICs of virtual machines; write vhost = \"shared\"",
                vhost.name()
            );
            errors.push(self.places.line(index, None, "vhost"), &self.key(index, "vhost"), what);
        }
        let nics = self.routers.get(index).map_or(&[][..], |router| &router.nics);
        for (n, _) in nics.iter().enumerate().filter(|(_, nic)| nic.mode == TransmitMode::Coalesced) {
            let what = format!("{reason}, and KVM collects the writes; write mode = \"async\"");
            errors.push(self.places.line(index, Some(n), "mode"), &self.key(index, "nic.mode"), what);
        }
    }

    fn check_cpus(&self, host: &HostFacts, errors: &mut Errors) {
        for (index, router) in self.routers.iter().enumerate() {
            for (key, set) in [("pin.vcpu", &router.pin.vcpu), ("pin.vhost", &router.pin.vhost)] {
                let missing = set.iter().flat_map(CpuSet::cpus).find(|cpu| !host.cpus.contains(*cpu));
                if let Some(cpu) = missing {
                    let what = format!("CPU {cpu} cannot be used on this host; CPUs: {}", list(&host.cpus));
                    errors.push(self.places.line(index, None, key), &self.key(index, key), what);
                }
            }
        }
    }

    fn check_memory(&self, host: &HostFacts, errors: &mut Errors) {
        let Some(available) = host.memory_available else { return };
        let mut wanted = 0_u64;
        for (index, router) in self.routers.iter().enumerate() {
            wanted = wanted.saturating_add(router.memory);
            if wanted > available {
                let what = format!(
                    "the routers so far want {} MiB and this host has {} MiB left; give them less",
                    wanted >> 20,
                    available >> 20
                );
                errors.push(self.places.line(index, None, "memory"), &self.key(index, "memory"), what);
                return;
            }
        }
    }
}

fn list(cpus: &BTreeSet<u32>) -> String {
    let set = CpuSet::from_cpus(cpus.iter().copied());
    set.map_or_else(|| "none".to_owned(), |set| set.to_string())
}
