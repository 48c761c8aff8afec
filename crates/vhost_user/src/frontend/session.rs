//! What is said to a peer that serves a NIC's rings, in order (vhost-user specification, "Communication").
//!
//! ```text
//! greet   owner, features, protocol features, number of queue pairs      the device model offers what the peer can do
//! start   features, memory, and for each ring size, place, index, call, kick; enable
//! stop    for each ring: disable, get its index back                     the peer lets go of it
//! ```
//!
//! All of it waits for the peer's answers without end: somebody else keeps the time and shuts the socket down. Doorbells that the peer has
//! as well may make it wait, too: somebody else looks for that ([`nic_port::NicQueues::look_after_bells`]).

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nic::virtio_net::features;
use nic_port::{HandedQueue, SetUp};
use thiserror::Error;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

use super::event;

/// Bit of the feature word that is the protocol's own.
const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
/// Most queues that any device has: what the crate is told before the peer was asked.
const MOST_QUEUES: u64 = 0x100;

/// What a peer can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Feature bits of virtio.
    pub features: u64,
    /// Pairs of queues.
    pub pairs: u64,
}

impl Offer {
    /// What every peer that is worth its name can do: for drivers that start before theirs is there.
    pub const LEAST: Self =
        Self { features: features::VERSION_1 | features::MRG_RXBUF | features::INDIRECT_DESC, pairs: 1 };
}

/// Why a peer is not used.
#[derive(Debug, Error)]
pub enum Refused {
    /// It has gone, breaks the protocol, or says no.
    #[error("{asked}: {answer}")]
    Answer {
        /// What it was asked.
        asked: &'static str,
        /// What came of it.
        answer: vhost::Error,
    },
    /// It speaks the legacy interface only.
    #[error("it does not offer VIRTIO_F_VERSION_1; ringroad needs virtio 1.0 or later")]
    Legacy,
    /// The driver was offered more by who was there before.
    #[error(
        "it does not offer features {missing:#x}, which the driver has settled on; restart the router, so that it settles anew"
    )]
    Features {
        /// The bits.
        missing: u64,
    },
    /// It has too few queues.
    #[error(
        "it serves {has} pairs of queues and the NIC has {wanted}; give it more (often `queues=`) or the router fewer vCPUs"
    )]
    Pairs {
        /// How many it serves.
        has: u64,
        /// How many the NIC has.
        wanted: u64,
    },
    /// The rings are not all there.
    #[error("the NIC has nothing to hand over")]
    Nothing,
    /// A doorbell that it was given made a thread of ours wait that rang it.
    #[error("it does not take the doorbell of a ring, and made a thread of ours wait")]
    Waited,
    /// Nobody would survive what a peer can do to the memory.
    #[error("the router's memory cannot be handed over: {0}")]
    Memory(io::Error),
}

/// A conversation with a peer.
pub struct Session {
    frontend: Frontend,
    offer: Offer,
    /// Whether it knows protocol features; then rings are enabled one by one.
    has_protocol: bool,
}

fn asking<T>(asked: &'static str, answer: vhost::Result<T>) -> Result<T, Refused> {
    answer.map_err(|answer| Refused::Answer { asked, answer })
}

impl Session {
    /// Begins to speak with a peer.
    ///
    /// # Errors
    /// It does not answer as it should, or cannot be used at all.
    pub fn greet(stream: UnixStream) -> Result<Self, Refused> {
        let second = stream.try_clone().map_err(|_| Refused::Nothing)?;
        let mut frontend = Frontend::from_stream(stream, MOST_QUEUES);
        asking("VHOST_USER_SET_OWNER", frontend.set_owner())?;
        let features = asking("VHOST_USER_GET_FEATURES", frontend.get_features())?;
        if features & features::VERSION_1 == 0 {
            return Err(Refused::Legacy);
        }
        let mut pairs = 1;
        if features & PROTOCOL != 0 {
            let picked = pick_protocol(&mut frontend)?;
            if picked.contains(VhostUserProtocolFeatures::MQ) {
                // The crate takes the answer for queues; peers give pairs. So somebody else asks.
                pairs = ask_for_pairs(second)?;
            }
            if picked.contains(VhostUserProtocolFeatures::REPLY_ACK) {
                frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
            }
        }
        let offer = Offer { features: features & !PROTOCOL, pairs };
        Ok(Self { frontend, offer, has_protocol: features & PROTOCOL != 0 })
    }

    /// What the peer can do.
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Hands over what the driver has set up; of its pairs, the first `pairs` are used. Where an interrupt cannot be the peer's
    /// to send, it writes to the queue's event of `calls`, by number.
    ///
    /// # Errors
    /// The peer cannot serve it, or says no.
    pub fn start(&mut self, set_up: &SetUp, pairs: usize, calls: &[EventFd]) -> Result<(), Refused> {
        self.check(set_up)?;
        set_up.welcome();
        // Another peer may have left it full.
        for kick in set_up.queues.iter().filter_map(HandedQueue::kick) {
            event::take(kick);
        }
        let picked = set_up.features & self.offer.features | features::VERSION_1;
        let picked = if self.has_protocol { picked | PROTOCOL } else { picked };
        asking("VHOST_USER_SET_FEATURES", self.frontend.set_features(picked))?;
        self.tell_memory(set_up)?;
        for queue in &set_up.queues {
            self.tell_ring(set_up, queue, calls)?;
        }
        self.enable(set_up, pairs)?;
        // What came before it was there: it looks, and so does the driver.
        for queue in &set_up.queues {
            queue.ring();
            queue.interrupt();
        }
        if set_up.is_deaf() { Err(Refused::Waited) } else { Ok(()) }
    }

    fn check(&self, set_up: &SetUp) -> Result<(), Refused> {
        let wanted = set_up.queues.iter().map(|queue| u64::from(queue.index) / 2 + 1).max().unwrap_or(1);
        if wanted > self.offer.pairs {
            return Err(Refused::Pairs { has: self.offer.pairs, wanted });
        }
        // With pairs enough there is nothing to it.
        let missing = set_up.features & !(features::OF_MODEL | features::MQ) & !self.offer.features;
        if missing != 0 {
            return Err(Refused::Features { missing });
        }
        Ok(())
    }

    /// The guest's addresses are given as those of this process, too: they are only told apart by the peer's own tables, and
    /// where our memory lies is nobody's business.
    fn tell_memory(&self, set_up: &SetUp) -> Result<(), Refused> {
        let (file, octets) = set_up.memory().map_err(Refused::Memory)?;
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: octets,
            userspace_addr: 0,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        asking("VHOST_USER_SET_MEM_TABLE", self.frontend.set_mem_table(&[region]))?;
        Ok(())
    }

    fn tell_ring(&self, set_up: &SetUp, queue: &HandedQueue, calls: &[EventFd]) -> Result<(), Refused> {
        let (number, layout) = (usize::from(queue.index), queue.layout);
        let call = queue.call().or_else(|| calls.get(number)).ok_or(Refused::Nothing)?;
        let kick = queue.kick().ok_or(Refused::Nothing)?;
        let place = VringConfigData {
            queue_max_size: layout.size,
            queue_size: layout.size,
            flags: 0,
            desc_table_addr: layout.descriptors,
            used_ring_addr: layout.used,
            avail_ring_addr: layout.available,
            log_addr: None,
        };
        let frontend = &self.frontend;
        asking("VHOST_USER_SET_VRING_NUM", frontend.set_vring_num(number, layout.size))?;
        // What was given back last is where the peer goes on, be it the first one or one that comes after another.
        asking("VHOST_USER_SET_VRING_BASE", frontend.set_vring_base(number, set_up.served(queue)))?;
        asking("VHOST_USER_SET_VRING_ADDR", frontend.set_vring_addr(number, &place))?;
        asking("VHOST_USER_SET_VRING_CALL", frontend.set_vring_call(number, call))?;
        asking("VHOST_USER_SET_VRING_KICK", frontend.set_vring_kick(number, kick))
    }

    /// Enables the rings of the first pairs, and no others.
    ///
    /// # Errors
    /// The peer says no.
    pub fn enable(&mut self, set_up: &SetUp, pairs: usize) -> Result<(), Refused> {
        if !self.has_protocol {
            return Ok(());
        }
        for queue in &set_up.queues {
            let used = usize::from(queue.index / 2) < pairs;
            let answer = self.frontend.set_vring_enable(usize::from(queue.index), used);
            asking("VHOST_USER_SET_VRING_ENABLE", answer)?;
        }
        Ok(())
    }

    /// Takes the rings back.
    ///
    /// # Errors
    /// The peer does not answer as it should; whether it has let go is not known then.
    pub fn stop(self, set_up: &SetUp) -> Result<(), Refused> {
        for queue in &set_up.queues {
            asking("VHOST_USER_GET_VRING_BASE", self.frontend.get_vring_base(usize::from(queue.index)))?;
        }
        Ok(())
    }
}

fn pick_protocol(frontend: &mut Frontend) -> Result<VhostUserProtocolFeatures, Refused> {
    let offered = asking("VHOST_USER_GET_PROTOCOL_FEATURES", frontend.get_protocol_features())?;
    let picked = offered & (VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK);
    asking("VHOST_USER_SET_PROTOCOL_FEATURES", frontend.set_protocol_features(picked))?;
    Ok(picked)
}

/// Pairs of queues that the peer serves.
fn ask_for_pairs(stream: UnixStream) -> Result<u64, Refused> {
    let mut frontend = Frontend::from_stream(stream, MOST_QUEUES);
    asking("VHOST_USER_GET_FEATURES", frontend.get_features())?;
    pick_protocol(&mut frontend)?;
    asking("VHOST_USER_GET_QUEUE_NUM", frontend.get_queue_num())
}
