//! Resources passed to an instance by a supervisor with more privileges, or by a test, instead of being
//! opened by it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use attach::{Attachment, HandedOver};
use sandbox::Confinement;
use vmm::{Kvm, Spawn};

use crate::control::Learning;
use crate::counts::CounterRegistry;
use crate::guest::Images;
use crate::kernel_vhost::KernelThreads;
use crate::tables::Tables;

/// Attachments that replace those of the file, by `router.nic`.
pub type Plugs = HashMap<String, Arc<dyn Attachment>>;

/// Memory of groups, made by the supervisor. Where there is none for a member, it has tables of its own.
#[derive(Debug, Default)]
pub struct GroupSupplies {
    /// The route table of each group, read-only.
    pub routes: HashMap<String, OwnedFd>,
    /// The neighbour table of each group: by a read-only descriptor, and for the process that hears the network also by one to
    /// write it.
    pub neighbours: HashMap<String, Vec<OwnedFd>>,
    /// The desk of each member, by router.
    pub desks: HashMap<String, OwnedFd>,
}

/// Resources that an instance need not open itself. Attachments outside the run and vhost-net devices it
/// never opens; any other missing resource it opens when needed. A confined process cannot do that: it then
/// reports what was refused.
#[derive(Default)]
pub struct HostServices {
    /// They take precedence over the file, and stay with their NIC.
    pub plugs: Plugs,
    /// The opened attachments of NICs, by `router.nic`. The instance keeps them as long as their NICs exist,
    /// also while the router is stopped.
    pub opened: HashMap<String, HandedOver>,
    /// Sockets by which the processes of isolated routers connect to their NICs, by `router.nic`.
    pub doors: HashMap<String, HandedOver>,
    /// The shadows of NICs in the namespaces of control planes, by `router.nic`. The instance keeps them as long as their
    /// NICs exist.
    pub shadows: HashMap<String, HandedOver>,
    /// What routers have learned from their control planes.
    pub learning: Learning,
    /// Memory of groups.
    pub groups: GroupSupplies,
    /// The tables of groups, once they are mapped.
    pub tables: Tables,
    /// Files of Linux guests (kernel, initramfs, console), by router.
    pub images: HashMap<String, Images>,
    /// KVM handle, for routers that are virtual machines.
    pub kvm: Option<Arc<Kvm>>,
    /// Spawner, for routers that are processes.
    pub spawner: Option<Arc<dyn Spawn>>,
    /// vhost-net devices without an owner yet, by `router.nic`.
    pub vhost_nets: HashMap<String, Vec<OwnedFd>>,
    /// Finds and places kernel threads.
    pub threads: Option<Arc<dyn KernelThreads>>,
    /// Registry for the counters of a new instance.
    pub counts: CounterRegistry,
    /// Confinement (seccomp) of the instance's threads.
    pub confinement: Confinement,
}

impl From<Plugs> for HostServices {
    fn from(plugs: Plugs) -> Self {
        Self { plugs, ..Self::default() }
    }
}
