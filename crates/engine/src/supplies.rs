//! What an instance is given instead of opening it itself: by a supervisor that may what it may not, or by a test.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use attach::{Attachment, Handed};
use sandbox::Confinement;
use vmm::{Kvm, Spawn};

use crate::counts::Counts;
use crate::guest::Images;
use crate::kernel_vhost::KernelThreads;

/// What NICs are plugged into instead of what their files say, by `router.nic`.
pub type Plugs = HashMap<String, Arc<dyn Attachment>>;

/// What an instance need not open. What NICs are plugged into outside it never opens, nor devices of vhost-net; whatever else is missing
/// it opens itself when it needs it, which a confined process cannot: then it says what it was refused.
#[derive(Default)]
pub struct Supplies {
    /// These go before what the file says, and stay with their NIC.
    pub plugs: Plugs,
    /// What NICs are plugged into outside, by `router.nic`. The instance keeps it while their NICs exist, also while the
    /// router is stopped.
    pub opened: HashMap<String, Handed>,
    /// Where the processes of routers that are apart come to their NICs, by `router.nic`.
    pub doors: HashMap<String, Handed>,
    /// What Linux guests are made of, by router.
    pub images: HashMap<String, Images>,
    /// KVM, for routers that are virtual machines.
    pub kvm: Option<Arc<Kvm>>,
    /// Starts the processes of routers that are processes.
    pub spawner: Option<Arc<dyn Spawn>>,
    /// Devices of vhost-net, by `router.nic`, that nobody owns yet.
    pub vhost_nets: HashMap<String, Vec<OwnedFd>>,
    /// Finds and places threads of the kernel.
    pub threads: Option<Arc<dyn KernelThreads>>,
    /// Where an instance that starts notes what counts in it.
    pub counts: Counts,
    /// Whether the instance's threads are confined.
    pub confinement: Confinement,
}

impl From<Plugs> for Supplies {
    fn from(plugs: Plugs) -> Self {
        Self { plugs, ..Self::default() }
    }
}
