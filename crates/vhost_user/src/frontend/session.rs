//! Messages to a peer that serves a NIC's rings, in order (vhost-user specification, "Communication").
//!
//! ```text
//! greet   owner, features, protocol features, number of queue pairs      the device model offers the peer's features
//! start   features, memory, and for each ring size, addresses, index, call, kick; enable
//! stop    for each ring: get its index back (which stops it)             the peer releases it
//! ```
//!
//! All of these wait for the peer's answers without a limit: another thread watches the time and shuts the
//! socket down. Doorbells shared with the peer may block as well: another thread checks for that
//! ([`nic_port::NicQueues::interrupt_blocked_writers`]).

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nic::virtio_net::features;
use nic_port::{ExportedQueue, SetUp};
use thiserror::Error;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

use super::event;

/// Bit of the feature word that belongs to the protocol itself.
const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
/// Maximum number of queues of any device: given to the crate before the peer was asked.
const MOST_QUEUES: u64 = 0x100;

/// Features of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Feature bits of virtio.
    pub features: u64,
    /// Number of queue pairs.
    pub pairs: u64,
}

impl Offer {
    /// Minimum features of every usable peer, for drivers that start before their peer is connected.
    pub const LEAST: Self =
        Self { features: features::VERSION_1 | features::MRG_RXBUF | features::INDIRECT_DESC, pairs: 1 };
}

/// Reason why a peer is not used.
#[derive(Debug, Error)]
pub enum Refused {
    /// It has closed the connection, violates the protocol, or refuses.
    #[error("{asked}: {answer}")]
    Answer {
        /// The request.
        asked: &'static str,
        /// The result.
        answer: vhost::Error,
    },
    /// It supports only the legacy interface.
    #[error("it does not offer VIRTIO_F_VERSION_1; ringroad needs virtio 1.0 or later")]
    Legacy,
    /// An earlier peer offered the driver more features.
    #[error(
        "it does not offer features {missing:#x}, which the driver has settled on; restart the router, so that it settles anew"
    )]
    Features {
        /// The missing feature bits.
        missing: u64,
    },
    /// It has too few queues.
    #[error(
        "it serves {has} pairs of queues and the NIC has {wanted}; give it more (often `queues=`) or the router fewer vCPUs"
    )]
    Pairs {
        /// Number of queue pairs that it serves.
        has: u64,
        /// Number of queue pairs of the NIC.
        wanted: u64,
    },
    /// Not all rings are set up.
    #[error("the NIC has nothing to hand over")]
    Nothing,
    /// A doorbell that it was given blocked a thread of ours.
    #[error("it does not take the doorbell of a ring, and made a thread of ours wait")]
    Waited,
    /// We could not survive what a peer can do to the memory (SIGBUS).
    #[error("the router's memory cannot be handed over: {0}")]
    Memory(io::Error),
}

/// A session with a peer.
pub struct Session {
    frontend: Frontend,
    offer: Offer,
    /// True if it supports protocol features; rings then have to be enabled one by one.
    has_protocol: bool,
}

fn asking<T>(asked: &'static str, answer: vhost::Result<T>) -> Result<T, Refused> {
    answer.map_err(|answer| Refused::Answer { asked, answer })
}

impl Session {
    /// Starts a session with a peer.
    ///
    /// # Errors
    /// It does not answer correctly, or cannot be used at all.
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
                // The crate takes the answer as a number of queues, while peers send pairs. So a second front
                // end asks.
                pairs = ask_for_pairs(second)?;
            }
            if picked.contains(VhostUserProtocolFeatures::REPLY_ACK) {
                frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
            }
        }
        let offer = Offer { features: features & !PROTOCOL, pairs };
        Ok(Self { frontend, offer, has_protocol: features & PROTOCOL != 0 })
    }

    /// Returns the peer's features.
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Hands over what the driver has set up; of its queue pairs the first `pairs` are used. If the peer
    /// cannot send an interrupt itself, it signals the queue's eventfd in `calls` instead.
    ///
    /// # Errors
    /// The peer cannot serve it, or refuses.
    pub fn start(&mut self, set_up: &SetUp, pairs: usize, calls: &[EventFd]) -> Result<(), Refused> {
        self.check(set_up)?;
        set_up.begin_peer();
        // An earlier peer may have left it full.
        for kick in set_up.queues.iter().filter_map(ExportedQueue::kick) {
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
        // Notify both sides once, for what was queued before: the peer checks the rings, and so does the
        // driver.
        for queue in &set_up.queues {
            queue.ring();
            queue.interrupt();
        }
        if set_up.has_blocked_us() { Err(Refused::Waited) } else { Ok(()) }
    }

    fn check(&self, set_up: &SetUp) -> Result<(), Refused> {
        let wanted = set_up.queues.iter().map(|queue| u64::from(queue.index) / 2 + 1).max().unwrap_or(1);
        if wanted > self.offer.pairs {
            return Err(Refused::Pairs { has: self.offer.pairs, wanted });
        }
        // MQ is not required if there are enough pairs.
        let missing = set_up.features & !(features::OF_MODEL | features::MQ) & !self.offer.features;
        if missing != 0 {
            return Err(Refused::Features { missing });
        }
        Ok(())
    }

    /// Sends the memory table. Guest addresses are also given as the addresses of this process: the peer uses
    /// these only as keys of its own tables, and the real ones are not disclosed.
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

    fn tell_ring(&self, set_up: &SetUp, queue: &ExportedQueue, calls: &[EventFd]) -> Result<(), Refused> {
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
        // Every peer, the first one or a later one, continues at the index that was last returned.
        asking("VHOST_USER_SET_VRING_BASE", frontend.set_vring_base(number, set_up.served(queue)))?;
        asking("VHOST_USER_SET_VRING_ADDR", frontend.set_vring_addr(number, &place))?;
        asking("VHOST_USER_SET_VRING_CALL", frontend.set_vring_call(number, call))?;
        asking("VHOST_USER_SET_VRING_KICK", frontend.set_vring_kick(number, kick))
    }

    /// Enables the rings of the first pairs, and disables all others.
    ///
    /// # Errors
    /// The peer refuses.
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
    /// The peer does not answer correctly; it is then unknown whether it has released them.
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

/// Returns the number of queue pairs that the peer serves.
fn ask_for_pairs(stream: UnixStream) -> Result<u64, Refused> {
    let mut frontend = Frontend::from_stream(stream, MOST_QUEUES);
    asking("VHOST_USER_GET_FEATURES", frontend.get_features())?;
    pick_protocol(&mut frontend)?;
    asking("VHOST_USER_GET_QUEUE_NUM", frontend.get_queue_num())
}
