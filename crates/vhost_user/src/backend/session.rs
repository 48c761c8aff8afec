//! State negotiated on a connection, and the handlers of all requests.
//!
//! A ring is served once its size, areas, doorbell and memory are known and it is enabled, until the peer
//! asks for its index (GET_VRING_BASE), disables it, or disconnects. No ring is served while the memory table
//! changes.
//!
//! The driver of a ring that is disabled while it sends waits for its buffers: they are returned, and its
//! frames are lost (vhost-user protocol, "Ring states"). A ring that was never enabled keeps its frames: these
//! are sent when it is, so that a peer that connects loses none.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nic::queue::{RxQueue, TxQueue};
use nic::virtio_net::{features, rx, tx};
use nic_port::NicQueues;
use ring::split::Broken;
use vhost::vhost_user::message::{
    FrontendReq, VhostUserMemory, VhostUserMemoryRegion, VhostUserProtocolFeatures as Protocol, VhostUserU64,
    VhostUserVirtioFeatures, VhostUserVringAddr, VhostUserVringState,
};
use vm_memory::ByteValued;

use super::Fault;
use super::message::{Message, answer, structure};
use super::ring::PeerRing;
use crate::memory::{PeerMemory, Table};

/// VHOST_USER_F_PROTOCOL_FEATURES: there are protocol features as well, and rings have to be enabled.
const PROTOCOL_FEATURES: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
/// VIRTIO_NET_F_GUEST_ANNOUNCE: the guest announces itself after a migration, which is up to its own VMM.
const GUEST_ANNOUNCE: u64 = 1 << 21;
/// Flag in the ring number of a request with a descriptor: there is none.
const NO_DESCRIPTOR: u64 = 1 << 8;
/// FEATURES_OK of the device status (virtio 1.2, section 2.1).
const FEATURES_OK: u64 = 8;

/// Protocol features offered.
const PROTOCOL: u64 = Protocol::MQ.bits() | Protocol::REPLY_ACK.bits() | Protocol::STATUS.bits();

/// Offer to a peer's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Number of queue pairs.
    pub pairs: usize,
    /// Maximum octets of a frame, without FCS.
    pub longest: usize,
    /// True if checksum and segmentation offloads are offered.
    pub offload: bool,
    /// Maximum octets of memory that the peer may share.
    pub memory_max: u64,
}

impl Offer {
    /// Returns the virtio-net features offered.
    pub const fn features(&self) -> u64 {
        let plain = features::VERSION_1
            | features::MRG_RXBUF
            | features::INDIRECT_DESC
            | features::EVENT_IDX
            | features::IN_ORDER
            | GUEST_ANNOUNCE
            | PROTOCOL_FEATURES;
        let several = if self.pairs > 1 { features::MQ | features::CTRL_VQ } else { 0 };
        let offloads =
            if self.offload { features::OFFLOADS_OF_DRIVER | features::OFFLOADS_OF_DEVICE } else { 0 };
        plain | several | offloads
    }
}

/// A session with a peer, from its first message to its last.
pub struct Session {
    queues: Arc<NicQueues>,
    offer: Offer,
    memory: Option<PeerMemory>,
    rings: Vec<PeerRing>,
    features: u64,
    protocol: u64,
    status: u64,
    active: usize,
}

/// An invalid message.
#[derive(Debug)]
pub struct Refused {
    /// The answer to be sent before the connection is closed, if the peer waits for one.
    pub answer: Option<Vec<u8>>,
    /// The fault.
    pub fault: Fault,
}

/// Reply to a request: none but an acknowledgement, or the body of an answer.
enum Reply {
    Done,
    Body(Vec<u8>),
}

impl Reply {
    fn number(value: u64) -> Self {
        Self::Body(value.to_le_bytes().to_vec())
    }
}

impl Session {
    /// Starts a session with a new peer, for unused queues.
    pub fn new(queues: Arc<NicQueues>, offer: Offer) -> Self {
        let rings = (0..2 * offer.pairs).map(PeerRing::new).collect();
        Self { queues, offer, memory: None, rings, features: 0, protocol: 0, status: 0, active: 0 }
    }

    /// Returns the number of rings being served.
    pub fn running(&self) -> usize {
        self.rings.iter().filter(|ring| ring.running && ring.enabled).count()
    }

    /// Checks the peer's health: its rings are valid, its memory is there, its event descriptors do not
    /// block.
    ///
    /// # Errors
    /// The fault that was found.
    pub fn look(&self) -> Result<(), Fault> {
        if self.memory.as_ref().is_some_and(PeerMemory::is_broken) {
            return Err(Fault::CutOff);
        }
        if self.queues.has_blocked_us() {
            return Err(Fault::Waited);
        }
        let broken: Option<Broken> = self.queues.rx_broken().or_else(|| self.queues.tx_broken());
        broken.map_or(Ok(()), |broken| Err(Fault::Ring(broken)))
    }

    /// Handles a message; returns the octets of the answer, if there is one.
    ///
    /// # Errors
    /// The message is invalid. The answer is to be sent if there is one, and the connection to be closed.
    pub fn handle(&mut self, mut message: Message) -> Result<Option<Vec<u8>>, Refused> {
        let request = message.request;
        let done = expect_descriptors(&message).and_then(|()| self.carry_out(&mut message));
        // A request that changes the negotiated features is acknowledged according to the new ones.
        let acknowledged = message.need_reply && self.has(Protocol::REPLY_ACK);
        let ack = |code: u64| acknowledged.then(|| answer(request, &code.to_le_bytes()));
        match done {
            Ok(Reply::Done) => Ok(ack(0)),
            Ok(Reply::Body(body)) => Ok(Some(answer(request, &body))),
            Err(fault) => Err(Refused { answer: ack(1), fault }),
        }
    }

    fn has(&self, feature: Protocol) -> bool {
        self.protocol & feature.bits() != 0
    }

    fn carry_out(&mut self, message: &mut Message) -> Result<Reply, Fault> {
        use FrontendReq as Request;
        match message.request {
            Request::GET_FEATURES => message.expect_empty().map(|()| Reply::number(self.offer.features())),
            Request::GET_PROTOCOL_FEATURES => message.expect_empty().map(|()| Reply::number(PROTOCOL)),
            Request::GET_QUEUE_NUM => message.expect_empty().map(|()| Reply::number(self.offer.pairs as u64)),
            Request::GET_STATUS => message.expect_empty().map(|()| Reply::number(self.status)),
            Request::GET_VRING_BASE => self.get_base(message),
            other => self.change(other, message).map(|()| Reply::Done),
        }
    }

    /// Handles requests without an answer of their own.
    fn change(&mut self, request: FrontendReq, message: &mut Message) -> Result<(), Fault> {
        use FrontendReq as Request;
        match request {
            Request::SET_OWNER => message.expect_empty(),
            Request::RESET_OWNER => message.expect_empty().map(|()| self.stop_all()),
            Request::SET_FEATURES => self.set_features(number(message)?),
            Request::SET_PROTOCOL_FEATURES => self.set_protocol(number(message)?),
            Request::SET_STATUS => self.set_status(number(message)?),
            Request::SET_MEM_TABLE => self.set_memory(message),
            Request::SET_VRING_NUM => {
                let (ring, entries) = self.ring_state(message)?;
                self.stopped(ring)?.set_entries(entries)
            }
            Request::SET_VRING_BASE => {
                let (ring, base) = self.ring_state(message)?;
                self.stopped(ring)?.set_base(base)
            }
            Request::SET_VRING_ADDR => self.set_places(message.body_as()?),
            Request::SET_VRING_ENABLE => self.set_enable(message),
            Request::SET_VRING_KICK => self.set_kick(message),
            Request::SET_VRING_CALL => self.set_call(message),
            // Accepted, but never used.
            Request::SET_VRING_ERR => self.ring_of_descriptor(message).map(drop),
            _ => Err(Fault::NotAgreed(request)),
        }
    }

    fn set_features(&mut self, picked: u64) -> Result<(), Fault> {
        let offered = self.offer.features();
        if picked & !offered != 0 {
            return Err(Fault::Features(picked & !offered));
        }
        let before = std::mem::replace(&mut self.features, picked);
        if picked & PROTOCOL_FEATURES == 0 {
            (0..self.rings.len()).for_each(|ring| self.set_enabled(ring, true));
        }
        if before != picked && self.rings.iter().any(|ring| ring.running) {
            self.pause();
        }
        self.start_ready()
    }

    fn set_protocol(&mut self, picked: u64) -> Result<(), Fault> {
        if picked & !PROTOCOL != 0 {
            return Err(Fault::Features(picked & !PROTOCOL));
        }
        self.protocol = picked;
        Ok(())
    }

    /// Sets the device status. A driver that requests unsupported features is refused as by a device:
    /// FEATURES_OK is cleared.
    fn set_status(&mut self, status: u64) -> Result<(), Fault> {
        if !self.has(Protocol::STATUS) {
            return Err(Fault::NotAgreed(FrontendReq::SET_STATUS));
        }
        self.status = status & 0xff;
        if self.status == 0 {
            self.stop_all();
        } else if self.features & features::VERSION_1 == 0 {
            self.status &= !FEATURES_OK;
        }
        Ok(())
    }

    fn set_memory(&mut self, message: &mut Message) -> Result<(), Fault> {
        let size = message.body.len();
        let wrong = || Fault::Size { request: FrontendReq::SET_MEM_TABLE, size };
        let (head, places) = message.body.split_at_checked(size_of::<VhostUserMemory>()).ok_or_else(wrong)?;
        let head: VhostUserMemory = structure(head).ok_or_else(wrong)?;
        let each = size_of::<VhostUserMemoryRegion>();
        let ranges = head.num_regions as usize;
        if ranges.checked_mul(each) != Some(places.len()) {
            return Err(wrong());
        }
        let places: Vec<VhostUserMemoryRegion> = places.chunks_exact(each).filter_map(structure).collect();
        let files = std::mem::take(&mut message.descriptors);
        let table = Table::new(&places, files, self.offer.memory_max)?;
        self.pause();
        // The old memory is unmapped first, so that never more is mapped than one table may have.
        self.memory = None;
        self.memory = Some(PeerMemory::map(table)?);
        self.start_ready()
    }

    fn ring_state(&self, message: &Message) -> Result<(usize, u32), Fault> {
        let state: VhostUserVringState = message.body_as()?;
        Ok((self.number_of(state.index)?, state.num))
    }

    fn number_of(&self, ring: u32) -> Result<usize, Fault> {
        let rings = self.rings.len();
        if (ring as usize) < rings { Ok(ring as usize) } else { Err(Fault::NoRing { ring, rings }) }
    }

    fn ring(&mut self, number: usize) -> Result<&mut PeerRing, Fault> {
        let rings = self.rings.len();
        self.rings.get_mut(number).ok_or(Fault::NoRing { ring: number as u32, rings })
    }

    /// Returns a ring after stopping it, because it must not run while its layout changes.
    fn stopped(&mut self, number: usize) -> Result<&mut PeerRing, Fault> {
        self.leave(number);
        self.ring(number)
    }

    fn set_places(&mut self, places: VhostUserVringAddr) -> Result<(), Fault> {
        let number = self.number_of(places.index)?;
        self.stopped(number)?.set_places(places);
        self.start(number)
    }

    fn set_enable(&mut self, message: &Message) -> Result<(), Fault> {
        // QEMU sends this before it has negotiated anything.
        let (number, state) = self.ring_state(message)?;
        if state > 1 {
            return Err(Fault::Value {
                ring: number,
                what: "neither enabled nor disabled, but",
                value: state.into(),
            });
        }
        self.set_enabled(number, state == 1);
        self.start(number)
    }

    fn set_enabled(&mut self, number: usize, enabled: bool) {
        let Some(ring) = self.rings.get_mut(number) else { return };
        ring.enabled = enabled;
        match pair_of(number) {
            (pair, false) => {
                ring.discards = !enabled && ring.running;
                self.queues.discard_transmit(pair, ring.discards);
            }
            (_, true) if !enabled => {
                self.leave(number);
                self.count_pairs();
            }
            (_, true) => {}
        }
    }

    /// Returns the ring of a request that has a descriptor, or says that it has none.
    fn ring_of_descriptor(&mut self, message: &mut Message) -> Result<(usize, Option<OwnedFd>), Fault> {
        let word = number(message)?;
        let ring = self.number_of((word & 0xff) as u32)?;
        Ok((ring, message.one_descriptor()))
    }

    fn set_kick(&mut self, message: &mut Message) -> Result<(), Fault> {
        let (ring, doorbell) = self.ring_of_descriptor(message)?;
        let polled = || Fault::Bells { ring, why: "no doorbell, and nobody polls here for ever".to_owned() };
        let doorbell = doorbell.ok_or_else(polled)?;
        self.stopped(ring)?.set_doorbell(doorbell)?;
        self.start(ring)
    }

    fn set_call(&mut self, message: &mut Message) -> Result<(), Fault> {
        let (number, call) = self.ring_of_descriptor(message)?;
        let ring = self.ring(number)?;
        ring.set_call(call)?;
        if ring.running {
            let call = ring.call()?;
            match pair_of(number) {
                (pair, true) => self.queues.call_receive(pair, call),
                (pair, false) => self.queues.call_transmit(pair, call),
            }
        }
        Ok(())
    }

    fn get_base(&mut self, message: &Message) -> Result<Reply, Fault> {
        let (number, _) = self.ring_state(message)?;
        self.leave(number);
        let ring = self.ring(number)?;
        ring.stop();
        let base = VhostUserVringState::new(number as u32, ring.base.into());
        self.count_pairs();
        Ok(Reply::Body(base.as_slice().to_vec()))
    }

    /// Starts serving a ring, if everything needed is known.
    fn start(&mut self, number: usize) -> Result<(), Fault> {
        let Some(ring) = self.rings.get(number) else { return Ok(()) };
        let Some(memory) = self.memory.as_ref().filter(|_| ring.is_ready() && !ring.running) else {
            return Ok(());
        };
        if self.features & features::VERSION_1 == 0 {
            return Err(Fault::Legacy);
        }
        let queue = ring.queue(memory, features::ring_features(self.features))?;
        let bells = ring.bells()?;
        let started = match pair_of(ring.number()) {
            (pair, true) => {
                let mergeable = self.features & features::MRG_RXBUF != 0;
                let takes = features::offloads_of_device(self.features);
                let queue = rx::RxQueue::new(queue, mergeable).with_offloads(takes);
                self.queues.serve_receive(pair, RxQueue::VirtioNet(Box::new(queue)), bells)
            }
            (pair, false) => {
                let leaves = features::offloads_of_driver(self.features);
                let queue = tx::TxQueue::new(queue, self.offer.longest).with_offloads(leaves);
                self.queues.discard_transmit(pair, ring.discards);
                self.queues.serve_transmit(pair, TxQueue::VirtioNet(Box::new(queue)), bells)
            }
        };
        started.map_err(|why| Fault::Bells { ring: number, why: format!("{why:#}") })?;
        self.ring(number)?.running = true;
        self.count_pairs();
        Ok(())
    }

    fn start_ready(&mut self) -> Result<(), Fault> {
        (0..self.rings.len()).try_for_each(|ring| self.start(ring))
    }

    /// Stops serving a ring, and records its index.
    fn leave(&mut self, number: usize) {
        let index = match pair_of(number) {
            (pair, true) => self.queues.leave_receive(pair).and_then(|queue| queue.index()),
            (pair, false) => self.queues.leave_transmit(pair).and_then(|queue| queue.index()),
        };
        if let Some(ring) = self.rings.get_mut(number) {
            ring.base = index.unwrap_or(ring.base);
            ring.running = false;
        }
    }

    /// Stops serving all rings; their descriptions are kept.
    fn pause(&mut self) {
        (0..self.rings.len()).for_each(|ring| self.leave(ring));
    }

    fn stop_all(&mut self) {
        self.pause();
        self.rings.iter_mut().for_each(PeerRing::stop);
        self.count_pairs();
    }

    /// Spreads frames over the leading pairs whose receive rings are all being served.
    fn count_pairs(&mut self) {
        let active = self.rings.iter().step_by(2).take_while(|ring| ring.running).count();
        if active != self.active && active > 0 {
            self.queues.use_pairs(active);
        }
        self.active = active;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Before the memory is unmapped.
        self.queues.forget_driver();
    }
}

/// Returns the pair of a ring, and whether the peer receives by it (so that we deliver to it).
const fn pair_of(ring: usize) -> (usize, bool) {
    (ring / 2, ring.is_multiple_of(2))
}

fn number(message: &Message) -> Result<u64, Fault> {
    message.body_as::<VhostUserU64>().map(|body| body.value)
}

/// Checks the number of descriptors; those of a memory table are checked against its ranges.
fn expect_descriptors(message: &Message) -> Result<(), Fault> {
    use FrontendReq as Request;
    let expected = match message.request {
        Request::SET_MEM_TABLE => return Ok(()),
        Request::SET_VRING_KICK | Request::SET_VRING_CALL | Request::SET_VRING_ERR => {
            usize::from(number(message)? & NO_DESCRIPTOR == 0)
        }
        _ => 0,
    };
    let (request, found) = (message.request, message.descriptors.len());
    if found == expected { Ok(()) } else { Err(Fault::Descriptors { request, expected, found }) }
}

#[cfg(test)]
mod tests;
