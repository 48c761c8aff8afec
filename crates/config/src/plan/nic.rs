//! A NIC of the plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Attach, NicModel, TransmitMode};
use crate::address::Address;
use crate::mac::Mac;

/// A NIC of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Name, unique in its router.
    pub name: String,
    /// Device model that the router sees.
    pub model: NicModel,
    /// Transmit mode of an e1000; [`TransmitMode::Csb`], without meaning, for another model.
    pub mode: TransmitMode,
    /// Least time between two of its interrupts.
    pub itr: Itr,
    /// For [`TransmitMode::SendCombining`]: number of frames that are sent before the interrupt that they
    /// wait for has come; 0: limited only by the ring.
    pub combine: u32,
    /// For [`TransmitMode::SendCombining`]: rate in frames/s above which frames are combined; 0: always.
    pub combine_above: u32,
    /// Attachment.
    pub attach: Attach,
    /// State of its cable; `None`: not specified, so it is plugged in.
    pub link: Option<LinkState>,
    /// Ethernet address, unique in the file.
    pub mac: Mac,
    /// Router's own IPv4 addresses on it.
    pub addresses: Vec<Address>,
    /// IPv6 addresses and router advertisements.
    pub six: crate::six::Six,
    /// Its VRF: NICs of the same name share a route table; `None`: NICs without a VRF share one, too.
    pub vrf: Option<String>,
    /// Filter of sources.
    pub reverse_path: crate::forwarding::ReversePath,
    /// Number of queue pairs among which frames towards the router are distributed: 1 to
    /// [`vcpus`](super::Router::vcpus), each with its own vCPU.
    pub queues: u32,
    /// Hash that distributes frames among them.
    pub hash: FlowHash,
    /// Length of its ingress queue if delivery is queued, or of the queue in the device that it is attached
    /// to.
    pub queue_len: QueueLen,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Thread that copies a frame from a switch into the router's receive ring.
    pub deliver: Deliver,
    /// Entries of each of its rings, a power of two from 256 to 1024.
    pub ring: u32,
    /// True if checksums and segmentation may be offloaded on both of its sides.
    pub offload: bool,
    /// Most memory in octets that another program's virtual machine at its other end may share; without
    /// meaning if there can be none.
    pub memory_max: u64,
}

impl Nic {
    /// Returns true if its cable is to be unplugged.
    pub fn is_pulled(&self) -> bool {
        self.link == Some(LinkState::Down)
    }
}

/// State of a NIC's cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkState {
    /// Plugged in.
    #[default]
    Up,
    /// Unplugged: no frame passes, and the driver sees no carrier.
    Down,
}

impl LinkState {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Least time between two interrupts of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Itr {
    /// So many units of 250 ns (82540EM manual, ITR); 0: no limit.
    Every(u16),
    /// Chosen by the device, depending on its traffic.
    Adaptive,
}

impl Default for Itr {
    fn default() -> Self {
        Self::Every(0)
    }
}

impl fmt::Display for Itr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(units) => write!(out, "{units}"),
            Self::Adaptive => out.write_str("adaptive"),
        }
    }
}

/// Length of a NIC's ingress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueLen {
    /// So many frames.
    Frames(u32),
    /// Tuned while the router runs, to what is useful for it.
    Auto,
}

impl QueueLen {
    /// Length of a TAP's own queue in Linux, so that both ends of an uplink hold the same burst.
    const DEFAULT: u32 = 1000;

    /// Most frames that can ever wait, for which the queue is allocated.
    pub const fn most(self) -> u32 {
        match self {
            Self::Frames(frames) => frames,
            Self::Auto => Self::DEFAULT,
        }
    }
}

impl Default for QueueLen {
    fn default() -> Self {
        Self::Frames(Self::DEFAULT)
    }
}

impl fmt::Display for QueueLen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(frames) => write!(out, "{frames}"),
            Self::Auto => out.write_str("auto"),
        }
    }
}

/// Thread that copies a frame from a switch into the router's receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deliver {
    /// The receiver's own vhost thread, from a bounded queue: the receiver's CPU pays.
    #[default]
    Queued,
    /// The sender's thread: fastest, for routers that trust each other's load.
    Direct,
}

/// How frames towards a router are distributed among the queue pairs of a NIC; in both cases a flow keeps its
/// pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowHash {
    /// By the flow's addresses and ports.
    #[default]
    Flow,
    /// By addresses and ports such that both directions of a flow use one pair.
    Symmetric,
}
