//! What an instance is given instead of opening it itself: by a supervisor that may what it may not, or by a test.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use port::{Sink, Source};
use sandbox::Confinement;
use uplink::{Door, Opened};
use vmm::{Kvm, Spawn};

use crate::counts::Counts;
use crate::guest::Images;
use crate::kernel_vhost::KernelThreads;

/// What a NIC is plugged into instead of what its file says.
pub enum Plug {
    /// This port.
    Port {
        /// Frames towards the router.
        source: Box<dyn Source>,
        /// Frames from it.
        sink: Arc<dyn Sink>,
    },
    /// Nothing yet: somebody will serve the NIC's queues by a thread of his own, both ways: who serves what the router sends
    /// keeps the time of its interrupts, and without him they are not moderated.
    Later,
}

/// Plugs by NIC, as `router.nic`.
pub type Plugs = HashMap<String, Plug>;

/// What an instance need not open. Whatever is missing it opens itself when it needs it, which a confined process
/// cannot: then it says what it was refused.
#[derive(Default)]
pub struct Supplies {
    /// Ports for NICs, by `router.nic`; they go before what the file says, and stay with their NIC.
    pub plugs: Plugs,
    /// What NICs are plugged into outside, by `router.nic`. The instance keeps it while their NICs exist, also while the
    /// router is stopped.
    pub opened: HashMap<String, Opened>,
    /// Where the processes of routers that are apart come to their NICs, by `router.nic`.
    pub doors: HashMap<String, Door>,
    /// What Linux guests are made of, by router.
    pub images: HashMap<String, Images>,
    /// KVM, for routers that are virtual machines.
    pub kvm: Option<Arc<Kvm>>,
    /// Starts the processes of routers that are processes.
    pub spawner: Option<Arc<dyn Spawn>>,
    /// Devices of vhost-net, by `router.nic`, that nobody owns yet.
    pub vhost_nets: HashMap<String, Vec<OwnedFd>>,
    /// Finds and places threads of the kernel; who may himself needs none.
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
