//! Balancers that are virtual machines (`balancer = "vm"`), as routers of the plan: each has two NICs for every NIC of the group, one
//! at its link and one at the interconnection, so that any of them can move the frames of any link.

use bootinfo::buffers::{PLAIN_MTU, is_jumbo};

use super::{BEFORE_NUMBER, Group, GroupKind};
use crate::cpus::CpuSet;
use crate::forwarding::{Forwarding, ReversePath};
use crate::mac::Mac;
use crate::memory;
use crate::plan::{Engine, Nic, Pin, Role, Router};
use crate::six::Six;

/// Suffix that makes the name of a balancer's inner NIC from that of a NIC of the group. No NIC of a file has such a name.
const INSIDE: &str = "in";
/// Minimum MTU, that of Ethernet: an order of the host (`frame::order`) must fit, whatever the MTU of the links is.
const LEAST_MTU: u32 = 1500;

impl Group {
    /// Returns a balancer as a router. Its outer NICs come first, and have the group's Ethernet addresses.
    pub(super) fn machine(&self, number: u32) -> Router {
        let engine = self.pattern.engine.filter(|engine| !engine.is_kernel());
        let outside = self.pattern.nics.iter().map(outside);
        let inside = self.pattern.nics.iter().filter_map(|nic| self.inside_nic(nic, number));
        let mut router = Router {
            name: self.balancer(number),
            engine,
            isolate: matches!(engine, None | Some(Engine::Kvm)),
            kernel: None,
            container: None,
            control: None,
            role: Role::Balancer,
            vcpus: 1,
            nics: outside.chain(inside).collect(),
            routes: Vec::new(),
            neighbours: Vec::new(),
            forwarding: Forwarding::default(),
            ..self.pattern.clone()
        };
        // VLAN tags make frames longer, and a balancer has no VLANs that say so: its buffers need room for them.
        let has_vlans = !self.pattern.forwarding.interfaces.is_empty();
        for nic in router.nics.iter_mut().filter(|nic| has_vlans && is_jumbo(nic.mtu, true)) {
            nic.mtu = nic.mtu.max(PLAIN_MTU + 1);
        }
        router.memory = self.pattern.memory.max(memory::default(&router));
        self.deal_cpus_to_balancer(&mut router, number);
        router
    }

    /// Returns the inner NIC of a balancer, which leads to the members' NIC.
    fn inside_nic(&self, nic: &Nic, number: u32) -> Option<Nic> {
        let GroupKind::Multistage(stages) = &self.kind else { return None };
        let name = format!("{}{BEFORE_NUMBER}{INSIDE}", nic.name);
        let (attach, mac) =
            (self.inside(nic, &stages.interconnect), Mac::derived(&self.balancer(number), &name));
        Some(Nic { name, attach, mac, link: None, ..outside(nic) })
    }

    /// Assigns the CPUs for a balancer's threads: those that the file has for balancers, or else those of the group from their end (members
    /// have them from their beginning).
    pub(super) fn deal_cpus_to_balancer(&self, router: &mut Router, number: u32) {
        let GroupKind::Multistage(stages) = &self.kind else { return };
        let Pin { vcpu, vhost } = &self.pattern.pin;
        router.pin.vcpu = dealt((&stages.pin.vcpu, vcpu), number, router.vcpus as usize);
        router.pin.vhost = dealt((&stages.pin.vhost, vhost), number, router.vhost_threads());
    }
}

/// Returns the outer NIC of a balancer, which leads to the link of a group's NIC.
pub(super) fn outside(nic: &Nic) -> Nic {
    Nic {
        addresses: Vec::new(),
        six: Six::default(),
        vrf: None,
        reverse_path: ReversePath::Off,
        queues: 1,
        mtu: nic.mtu.max(LEAST_MTU),
        ..nic.clone()
    }
}

/// Returns the CPUs for this many threads of a balancer.
fn dealt((own, of_all): (&Option<CpuSet>, &Option<CpuSet>), number: u32, threads: usize) -> Option<CpuSet> {
    let first = number as usize * threads;
    let thread = |thread: usize| match (own, of_all) {
        (Some(own), _) => Some(own.deal(thread)),
        (None, of_all) => of_all.as_ref()?.cpus().iter().rev().cycle().nth(thread).copied(),
    };
    CpuSet::from_cpus((first..first + threads).filter_map(thread))
}
