//! `isolate = "process"`: a router whose virtual machine is in a process of its own, and what it looks like from there.

use crate::plan::{Attach, Deliver, Engine, Nic, NicModel, Plan, Router, VhostThreads};
use crate::section::{Section, Words};

const ISOLATES: Words<bool> =
    Words { noun: ("way to isolate a router", "ways"), now: &[("process", true)], later: &[] };

/// Whether a router is to have a process of its own.
pub(crate) fn read(section: &Section<'_>) -> bool {
    section.has("isolate") && section.word("isolate", &ISOLATES)
}

/// What cannot be had by a router in a process of its own.
pub(crate) fn verify(section: &Section<'_>, router: &Router) {
    if !router.isolate {
        return;
    }
    let refuse = |what: &str| section.fault(section.line_of("isolate"), "isolate", what);
    match router.engine {
        Some(Engine::Process) => {
            refuse(
                "engine = \"process\" gives the router a process of its own already; remove one of the two",
            );
        }
        Some(Engine::Linux) => {
            refuse("a Linux guest is not in this version; remove it, or write engine = \"kvm\"")
        }
        Some(Engine::Kvm) | None => {}
    }
    match router.vhost {
        VhostThreads::Kernel => {
            refuse(
                "the kernel's vhost-net cannot serve a router in a process of its own; remove one of the two",
            );
        }
        VhostThreads::Vmm => {
            refuse("vhost = \"vmm\" needs the NICs in the router's own process; remove one of the two");
        }
        _ => {}
    }
    for (nic, section) in router.nics.iter().zip(section.tables("nic")) {
        if let Some((key, what)) = trouble(nic) {
            section.fault(section.line_of(key), key, what);
        }
    }
}

/// What of a NIC does not go with it.
fn trouble(nic: &Nic) -> Option<(&'static str, &'static str)> {
    if nic.model == NicModel::E1000 {
        return Some((
            "model",
            "isolate = \"process\" attaches NICs by vhost-user, which an e1000 cannot; write model = \"virtio-net\"",
        ));
    }
    if nic.deliver == Deliver::Direct {
        return Some((
            "deliver",
            "isolate = \"process\" keeps the rings out of other routers' reach; write deliver = \"queued\"",
        ));
    }
    nic.attach.traits().is_handed.then_some((
        "attach",
        "isolate = \"process\" hands the rings to this program, so no other one can have them; remove isolate",
    ))
}

impl Router {
    /// Whether its virtual machine is in a process of its own. Where there is no KVM a router is a process anyway.
    pub fn is_apart(&self) -> bool {
        self.isolate && self.engine == Some(Engine::Kvm)
    }
}

impl Plan {
    /// What the process of a router that is apart runs: that one, whose NICs are handed over, and nothing of any other router.
    /// None if there is no such router.
    pub fn of_apart(&self, name: &str) -> Option<Self> {
        let mut router = self.routers.iter().find(|router| router.name == name && router.is_apart())?.clone();
        router.isolate = false;
        for nic in &mut router.nics {
            nic.attach = Attach::handed(&format!("{name}.{}", nic.name));
        }
        Some(Self { routers: vec![router], ..Self::default() }.of_data_plane())
    }

    /// What the data plane has to know of the plan: not where threads are and how they are scheduled, which the supervisor sees
    /// to, nor what it tells the world.
    #[must_use]
    pub fn of_data_plane(&self) -> Self {
        let mut plan = self.clone();
        (plan.telemetry, plan.places) = Default::default();
        for router in &mut plan.routers {
            (router.pin, router.affinity, router.sched, router.guarantee) = Default::default();
        }
        plan
    }

    /// Leaves stopped what was stopped, and unplugged what was unplugged, where this plan says nothing of that.
    pub fn inherit(&mut self, before: &Self) {
        for router in &mut self.routers {
            let Some(old) = before.routers.iter().find(|old| old.name == router.name) else { continue };
            router.state = router.state.or(old.state);
            for nic in &mut router.nics {
                nic.link =
                    nic.link.or(old.nics.iter().find(|old| old.name == nic.name).and_then(|old| old.link));
            }
        }
    }

    /// The routers that are in processes of their own.
    pub fn apart(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().filter(|router| router.is_apart())
    }

    /// The plan without those: what the main data plane has machines for.
    #[must_use]
    pub fn without_apart(&self) -> Self {
        let mut plan = self.clone();
        plan.routers.retain(|router| !router.is_apart());
        plan
    }
}
