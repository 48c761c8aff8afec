//! `isolate = "process"`: a router whose virtual machine runs in a process of its own, and the plan of that
//! process.

use crate::control::Control;
use crate::plan::{
    Attach, Deliver, Engine, KernelPath, KernelPort, Nic, NicModel, Plan, Router, VhostThreads,
};
use crate::section::{Keywords, Section};

const ISOLATES: Keywords<bool> =
    Keywords { noun: ("way to isolate a router", "ways"), now: &[("process", true)], later: &[] };

/// Returns true if a router is to have a process of its own.
pub(crate) fn read(section: &Section<'_>) -> bool {
    section.has("isolate") && section.word("isolate", &ISOLATES)
}

/// Refuses keys that a router in a process of its own cannot have.
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
        // These engines do not have the key.
        Some(Engine::Kernel | Engine::Lxc) => {}
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

/// Key of a NIC that is incompatible with isolation, and the remedy.
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
    /// Returns true if its virtual machine runs in a process of its own. Without KVM a router is a process
    /// anyway.
    pub fn is_isolated(&self) -> bool {
        self.isolate && self.engine == Some(Engine::Kvm)
    }
}

impl Plan {
    /// Plan for the process of an isolated router: that router alone, with its NICs handed over. `None` if
    /// there is no such router.
    pub fn of_isolated(&self, name: &str) -> Option<Self> {
        let mut router =
            self.routers.iter().find(|router| router.name == name && router.is_isolated())?.clone();
        if self.reads_tables(&router) {
            router.forget_routes();
        }
        router.isolate = false;
        for nic in &mut router.nics {
            nic.attach = Attach::handed(&format!("{name}.{}", nic.name));
        }
        Some(Self { routers: vec![router], ..Self::default() }.of_data_plane())
    }

    /// Part of the plan that the data plane needs: without placement and scheduling of threads, which the
    /// supervisor handles, and without telemetry. Of kernel routers, and of back ends behind tunnels, it contains only their ports on
    /// switches.
    #[must_use]
    pub fn of_data_plane(&self) -> Self {
        let mut plan = self.clone();
        let kernel_port = |(router, nic): (&Router, &Nic)| {
            let of_group = router.membership().is_some();
            let (router, nic, switch) =
                (router.name.clone(), nic.name.clone(), nic.attach.switch()?.to_owned());
            Some(KernelPort { router, nic, switch, path: KernelPath::Tap, of_group })
        };
        // The plan of a data plane, which has no kernel routers, keeps its kernel ports.
        plan.kernel_ports
            .extend(self.nics().filter(|(router, _)| router.is_in_kernel()).filter_map(kernel_port));
        plan.kernel_ports.extend(self.tunnel_ports().filter(|port| !self.kernel_ports.contains(port)));
        plan.routers.retain(|router| !router.is_in_kernel());
        (plan.telemetry, plan.places) = Default::default();
        for router in &mut plan.routers {
            (router.pin, router.affinity, router.sched, router.guarantee) = Default::default();
            // Whether there is a control plane concerns it, and what speaks there does not.
            router.control = router.control.take().map(|_| Control::default());
        }
        for group in &mut plan.groups {
            group.forget_threads();
            group.pattern.control = group.pattern.control.take().map(|_| Control::default());
        }
        plan.forget_common_routes();
        plan
    }

    /// Keeps stopped routers stopped and unplugged NICs unplugged, unless this plan says otherwise, and the members of a group that
    /// follows the load.
    pub fn inherit(&mut self, before: &Self) {
        self.inherit_members(before);
        for group in &mut self.groups {
            let old = before.group(&group.name);
            old.into_iter().for_each(|old| group.pattern.inherit(&old.pattern));
        }
        for router in &mut self.routers {
            let old = before.routers.iter().find(|old| old.name == router.name);
            // A new part of a group is as the group was.
            let of_group = || Some(&before.group(router.group()?)?.pattern);
            if let Some(old) = old.or_else(of_group) {
                router.inherit(old);
            }
        }
    }

    /// Routers in processes of their own.
    pub fn isolated(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().filter(|router| router.is_isolated())
    }

    /// Plan without these: the routers whose machines the main data plane runs.
    #[must_use]
    pub fn without_isolated(&self) -> Self {
        let mut plan = self.clone();
        plan.routers.retain(|router| !router.is_isolated());
        plan
    }
}

impl Router {
    /// Is stopped, and has NICs unplugged, as another one was, unless it says otherwise.
    fn inherit(&mut self, old: &Self) {
        self.state = self.state.or(old.state);
        for nic in &mut self.nics {
            let known = old.nics.iter().find(|known| known.name == nic.name);
            nic.link = nic.link.or(known.and_then(|known| known.link));
        }
    }
}
