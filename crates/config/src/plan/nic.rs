//! A NIC of the plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Attach, NicModel, TransmitMode};
use crate::address::Address;
use crate::mac::Mac;

/// One NIC of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name, unique in its router.
    pub name: String,
    /// Which device the router sees.
    pub model: NicModel,
    /// How frames leave by an e1000; [`TransmitMode::Csb`], which says nothing, for another model.
    pub mode: TransmitMode,
    /// Least time between two of its interrupts.
    pub itr: Itr,
    /// For [`TransmitMode::SendCombining`]: frames that are sent although the interrupt that they wait for has not come;
    /// 0: no limit but the ring.
    pub combine: u32,
    /// For the same: frames a second above which frames are combined; 0: always.
    pub combine_above: u32,
    /// What it is plugged into.
    pub attach: Attach,
    /// Whether its cable is plugged in; none: nothing is said, and it is.
    pub link: Option<LinkState>,
    /// Its Ethernet address, unique in the file.
    pub mac: Mac,
    /// The router's own addresses on it.
    pub addresses: Vec<Address>,
    /// Queue pairs that frames towards the router are spread over: 1 to [`vcpus`](super::Router::vcpus), each for a vCPU of its own.
    pub queues: u32,
    /// How frames are spread over them.
    pub hash: FlowHash,
    /// Frames that wait at most in its ingress queue where delivery is queued, or in the device that it is plugged into.
    pub queue_len: QueueLen,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Which thread copies a frame from a switch into the router's receive ring.
    pub deliver: Deliver,
    /// Entries of each of its rings, a power of two from 256 to 1024.
    pub ring: u32,
    /// Whether checksums and the cutting of large frames may be left to who can do it, on both of its sides.
    pub offload: bool,
    /// Octets of memory that a virtual machine of another program may share that is plugged in; says nothing where none can be.
    pub memory_max: u64,
}

impl Nic {
    /// Whether its cable is to be pulled out.
    pub fn is_pulled(&self) -> bool {
        self.link == Some(LinkState::Down)
    }
}

/// Whether the cable of a NIC is plugged in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkState {
    /// It is.
    #[default]
    Up,
    /// It was pulled out: no frame passes, and the driver sees no carrier.
    Down,
}

impl LinkState {
    /// Its name in files.
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
    /// This many units of 250 ns (82540EM manual, ITR); 0: none.
    Every(u16),
    /// Chosen by the device, from what it carries.
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

/// Frames that wait at most in the ingress queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueLen {
    /// So many.
    Frames(u32),
    /// As many as the router can take, found while it runs.
    Auto,
}

impl QueueLen {
    /// As long as a TAP's own queue in Linux, so that both ends of an uplink hold the same burst.
    const DEFAULT: u32 = 1000;

    /// The most frames that ever wait: what a queue is made for.
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

/// Which thread copies a frame from a switch into the router's receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deliver {
    /// The receiver's own vhost thread, from a bounded queue: the receiver's CPU pays.
    #[default]
    Queued,
    /// The sender's thread: fastest, for routers that trust each other's load.
    Direct,
}

/// How frames towards a router are spread over the queue pairs of a NIC; either way a flow keeps its pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowHash {
    /// By the flow's addresses and ports.
    #[default]
    Flow,
    /// By addresses and ports so that both directions of a flow have one pair.
    Symmetric,
}
