//! Threads of a router.

use config::{Group, Router, VhostThreads};
use serde::{Deserialize, Serialize};

use crate::task::ThreadIdentity;

/// Class of a router's thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// vCPU with this number.
    Vcpu(u32),
    /// I/O thread, by what it serves; a field is `None` if it serves all (`vhost = "shared"`, the main loop
    /// of `"vmm"`).
    Vhost {
        /// Index of its NIC in the router: `"per-nic"`, `"split"`.
        nic: Option<u32>,
        /// Its direction: `"split"`.
        direction: Option<Direction>,
        /// Its queue pair: `"per-queue"`.
        pair: Option<u32>,
    },
    /// Kernel thread of vhost-net.
    KernelVhost {
        /// Index of its NIC in the router.
        nic: u32,
        /// Its queue pair.
        pair: u32,
    },
    /// NAPI thread of a kernel router: does the receive work of a NIC.
    Napi {
        /// Index of its NIC in the router.
        nic: u32,
        /// Index of its queue in the NIC. Only the kernel knows the number of queues: all threads have the placement of the first.
        queue: u32,
    },
    /// Balancer of a group that is a port of the run's switch, by its number.
    Balancer(u32),
    /// Other threads: clock, register accesses, peers. They are never placed.
    Other,
}

/// Direction of the frames that a thread moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards the router.
    Rx,
    /// Away from it.
    Tx,
}

/// A running thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Name of its router.
    pub router: String,
    /// Its class.
    pub class: Class,
    /// Its own name, e.g. `edge/vcpu0`.
    pub name: String,
    /// Its identity in the kernel.
    pub task: ThreadIdentity,
}

impl Class {
    /// Returns the class of the NAPI thread of another queue of the same NIC; `None` for other classes.
    pub fn of_queue(&self, queue: u32) -> Option<Self> {
        match self {
            Self::Napi { nic, .. } => Some(Self::Napi { nic: *nic, queue }),
            _ => None,
        }
    }
}

/// Splits the name of a NAPI thread into the name of the thread of the NIC's first queue and the number of its own queue:
/// `edge/wan-napi3` yields `edge/wan-napi0` and 3.
pub fn first_queue(name: &str) -> Option<(String, u32)> {
    let (nic, queue) = name.rsplit_once("-napi")?;
    Some((format!("{nic}-napi0"), queue.parse().ok()?))
}

/// Threads of a router that are placed, with their names, in the order in which each class is assigned CPUs.
pub(crate) fn of_router(router: &Router) -> Vec<(Class, String)> {
    // A kernel router has no vCPU.
    let vcpus = (0..router.vcpus).map(Class::Vcpu);
    let names = router.threads().into_iter().map(|(name, _)| name);
    vcpus.chain(vhosts(router)).zip(names).collect()
}

/// Threads of a group that move frames to its members: its balancers.
pub(crate) fn of_group(group: &Group) -> Vec<(Class, String)> {
    (0..).map(Class::Balancer).zip(group.balancer_threads()).collect()
}

fn vhosts(router: &Router) -> Vec<Class> {
    let nics = 0..u32::try_from(router.nics.len()).unwrap_or(u32::MAX);
    let thread = |nic, direction, pair| Class::Vhost { nic, direction, pair };
    if router.is_in_kernel() {
        let number = |nic| u32::try_from(nic).unwrap_or(u32::MAX);
        return router.threaded_nics().map(|(nic, _)| Class::Napi { nic: number(nic), queue: 0 }).collect();
    }
    match router.vhost {
        VhostThreads::Shared | VhostThreads::Vmm => vec![thread(None, None, None)],
        VhostThreads::PerNic => nics.map(|nic| thread(Some(nic), None, None)).collect(),
        VhostThreads::Split => nics
            .flat_map(|nic| [Direction::Rx, Direction::Tx].map(|way| thread(Some(nic), Some(way), None)))
            .collect(),
        VhostThreads::PerQueue => {
            (0..router.queue_pairs()).map(|pair| thread(None, None, Some(pair))).collect()
        }
        VhostThreads::Kernel => nics
            .flat_map(|nic| (0..router.queue_pairs()).map(move |pair| Class::KernelVhost { nic, pair }))
            .collect(),
    }
}
