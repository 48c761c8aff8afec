//! Queues that somebody else serves: the device model is here, its rings are in another program's hands (vhost-user).
//!
//! ```text
//! driver --DRIVER_OK--> model --begin(SetUp)--> Receiver --> the peer: memory, rings, a kick and a call for each queue
//! driver --reset------> model --end()---------> Receiver --> the peer lets go of the rings
//! ```
//!
//! The doorbell of a queue is the event that the peer waits for. Its interrupt is an event that KVM waits for, and where there
//! is no KVM one that somebody here has to pass on.
//!
//! From then on the doorbell's event is the peer's as well, which may make a write wait ([`super::ringing`]). A process writes to it by
//! itself, and KVM never waits. Who else rings is looked after: the thread that has handed the rings over ([`HandedQueue::ring`]),
//! and vCPUs whose kick came by a register access, which ring when they hold no device any more ([`Kicks`]). A peer that is gone
//! may have kept the event, and fill it again: that is held against the next one, until the router is restarted.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nic::virtio_net::QueueSetup;
use ring::Region;
use ring::split::Layout;
use vmm_sys_util::eventfd::EventFd;

use super::foreign::Ringers;
use super::ringing::Entered;
use super::{NicQueues, borrow};
use crate::irq::Line;

/// A guest's memory, from guest-physical address 0. It is there as long as anybody has this.
pub trait Memory: Send + Sync {
    /// Where rings and frames lie.
    fn region(&self) -> Region;

    /// Octets.
    fn octets(&self) -> usize;

    /// The file behind it, for somebody who may do with it what he likes: should he take pages away, this process reads zeros from
    /// then on.
    ///
    /// # Errors
    /// That cannot be provided for.
    fn hand_out(&self) -> io::Result<&File>;
}

/// A receiver of the rings of a NIC, which passes them on.
pub trait Receiver: Send + Sync {
    /// The driver is ready: these queues are to be served from now on.
    fn begin(&self, set_up: SetUp);
    /// The driver uses so many pairs of queues, the first ones.
    fn use_pairs(&self, pairs: usize);
    /// The driver is about to take its queues back: asks for them, and waits for nobody. [`Receiver::end`] follows.
    fn recall(&self) {}
    /// The driver takes its queues back. When this returns nobody touches them any more, as far as that is in our power.
    fn end(&self);
}

/// What a driver has set up.
pub struct SetUp {
    /// Features that the driver picked.
    pub features: u64,
    /// The queues, without the control queue.
    pub queues: Vec<HandedQueue>,
    ram: Arc<dyn Memory>,
}

/// One queue.
pub struct HandedQueue {
    /// Its number, as both virtio and vhost-user count: 2 n receives and 2 n + 1 sends for pair n.
    pub index: u16,
    /// Where it lies.
    pub layout: Layout,
    queues: Arc<NicQueues>,
    line: Option<Arc<dyn Line>>,
}

impl SetUp {
    /// What a driver that picked these features has set up in this memory.
    pub fn new(features: u64, queues: Vec<HandedQueue>, ram: Arc<dyn Memory>) -> Self {
        Self { features, queues, ram }
    }

    /// The file behind the guest's memory, which lies in it from its begin and for the guest from address 0, and its octets.
    /// The guest's memory. A peer that gets it may take pages out of it: that is the end of the guest, and of nobody else.
    ///
    /// # Errors
    /// That cannot be provided for.
    pub fn memory(&self) -> io::Result<(&File, u64)> {
        Ok((self.ram.hand_out()?, self.ram.octets() as u64))
    }

    /// Where the guest's memory is mapped into this process, and its octets. It stays there as long as this value does.
    pub fn mapping(&self) -> Option<(u64, u64)> {
        let octets = self.ram.octets() as u64;
        Some((self.ram.region().translate(0, octets)? as u64, octets))
    }

    /// A peer begins, to which nothing is held that another one did.
    pub fn welcome(&self) {
        self.queues.iter().for_each(|queue| queue.queues.forget_waits());
    }

    /// Whether the peer kept one of our threads waiting. It is rung no more.
    pub fn is_deaf(&self) -> bool {
        self.queues.iter().any(|queue| queue.queues.is_deaf())
    }

    /// The queues of the NIC, which [`NicQueues::look_after_bells`] is for.
    pub fn nic(&self) -> Option<&Arc<NicQueues>> {
        self.queues.first().map(|queue| &queue.queues)
    }

    /// How far a queue has been served: the index of its used ring, as the memory has it now.
    pub fn served(&self, queue: &HandedQueue) -> u16 {
        // `flags`, then `idx` (virtio 1.2, section 2.7.8).
        let index = self.ram.region().bytes(queue.layout.used, 4).and_then(|head| head.read::<2>(2));
        index.map_or(0, u16::from_le_bytes)
    }
}

impl HandedQueue {
    /// One of these queues, which interrupts by this line, if any. Makes no descriptor: a vCPU may not.
    pub fn new(setup: &QueueSetup, queues: &Arc<NicQueues>, line: Option<Arc<dyn Line>>) -> Self {
        Self { index: setup.index, layout: setup.layout, queues: queues.clone(), line }
    }

    /// What its doorbell rings.
    pub fn kick(&self) -> Option<&EventFd> {
        self.queues.bells_of(self.index).map(|(kick, _)| kick)
    }

    /// Rings its doorbell, for the one thread that speaks with the peer.
    pub fn ring(&self) {
        if let Some((kick, ringers)) = self.queues.bells_of(self.index)
            && let Some(speaker) = ringers.speaker.try_enter()
        {
            speaker.ring(borrow(kick));
        }
    }

    /// What a peer writes to for an interrupt; none where it is to be passed on by [`HandedQueue::interrupt`].
    pub fn call(&self) -> Option<&EventFd> {
        self.line.as_ref()?.event()
    }

    /// Interrupts the driver, from here.
    pub fn interrupt(&self) {
        if let Some(line) = &self.line {
            line.signal();
        }
    }
}

impl NicQueues {
    /// The doorbell of a queue, by its number, and who rings it.
    fn bells_of(&self, index: u16) -> Option<(&EventFd, &Ringers)> {
        let pair = usize::from(index / 2);
        if index.is_multiple_of(2) {
            self.rx.queues.get(pair).map(|served| (&served.kick, &served.ringers))
        } else {
            self.tx.queues.get(pair).map(|served| (&served.kick, &served.ringers))
        }
    }
}

/// Kicks of queues that are in a peer's hands, to be rung by a vCPU's thread that holds nothing others wait for.
pub struct Kicks {
    queues: Arc<NicQueues>,
    /// A bit for each queue.
    which: u128,
}

/// Any order of [`Ringers::kicks`].
const RING: u32 = 1;

impl Kicks {
    /// Of none of these queues yet.
    pub fn new(queues: Arc<NicQueues>) -> Self {
        Self { queues, which: 0 }
    }

    /// That of the queue of this number as well.
    pub fn add(&mut self, index: u16) {
        self.which |= 1_u128.checked_shl(index.into()).unwrap_or(0);
    }

    /// Rings them. Where another vCPU is in the middle of that, it rings once more, and nobody waits for it.
    pub fn ring(self) {
        let wanted = (0..u128::BITS as u16).filter(|index| self.which >> index & 1 != 0);
        for (kick, ringers) in wanted.filter_map(|index| self.queues.bells_of(index)) {
            let server = ringers.server();
            let ring = |vcpu: &mut Entered<'_>, _| vcpu.ring(borrow(kick));
            ringers.kicks.post(RING, || server.try_enter(), ring);
        }
    }
}
