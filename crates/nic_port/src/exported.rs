//! Queues served by another program: the device model is here, the backend of its rings is there (vhost-user).
//!
//! ```text
//! driver --DRIVER_OK--> model --begin(SetUp)--> Receiver --> the peer: memory, rings, a kick and a call for each queue
//! driver --reset------> model --end()---------> Receiver --> the peer releases the rings
//! ```
//!
//! The doorbell of a queue is the event descriptor that the peer waits for. Its interrupt is an event descriptor that
//! KVM waits for, or, without KVM, one that a thread of ours has to pass on.
//!
//! From then on the doorbell's event descriptor is shared with the peer, which may make a write block
//! ([`super::guarded_doorbell`]). A firmware process writes to it itself, and KVM never blocks. All other threads that ring are
//! supervised: the thread that has handed the rings over ([`ExportedQueue::ring`]), and vCPUs whose kick was a register
//! access, which ring after they have released the device ([`Kicks`]). A peer that is gone may have kept the descriptor
//! and fill it again: that is blamed on the next peer, until the router is restarted.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nic::virtio_net::QueueSetup;
use ring::Region;
use ring::split::Layout;
use vmm_sys_util::eventfd::EventFd;

use super::guarded_doorbell::DoorbellPermit;
use super::remote_driver::WriterStates;
use super::{NicQueues, borrow};
use crate::irq::Line;

/// A guest's memory, from guest-physical address 0. It stays mapped as long as a reference to this exists.
pub trait Memory: Send + Sync {
    /// Returns the region in which rings and frames lie.
    fn region(&self) -> Region;

    /// Returns the size in octets.
    fn octets(&self) -> usize;

    /// Returns the file behind the memory, for a recipient that may do anything with it: if the recipient removes
    /// pages, this process reads zeros from then on.
    ///
    /// # Errors
    /// Protection against that cannot be set up.
    fn share_file(&self) -> io::Result<&File>;
}

/// Recipient of the rings of a NIC, which passes them on to a peer.
pub trait Receiver: Send + Sync {
    /// The driver is ready: start serving these queues.
    fn begin(&self, set_up: SetUp);
    /// The driver uses this many pairs of queues, the first ones.
    fn use_pairs(&self, pairs: usize);
    /// The driver is about to take its queues back: request them from the peer, without waiting. [`Receiver::end`]
    /// follows.
    fn recall(&self) {}
    /// The driver takes its queues back. When this returns no thread accesses them any more, as far as we can enforce
    /// that.
    fn end(&self);
}

/// Queues that a driver has set up.
pub struct SetUp {
    /// Features that the driver accepted.
    pub features: u64,
    /// The queues, without the control queue.
    pub queues: Vec<ExportedQueue>,
    ram: Arc<dyn Memory>,
}

/// One queue that is handed on.
pub struct ExportedQueue {
    /// Number of the queue, which is equal in virtio and vhost-user: 2 n receives and 2 n + 1 sends for pair n.
    pub index: u16,
    /// Location of the queue.
    pub layout: Layout,
    queues: Arc<NicQueues>,
    line: Option<Arc<dyn Line>>,
}

impl SetUp {
    /// Collects the queues that a driver with these features has set up in this memory.
    pub fn new(features: u64, queues: Vec<ExportedQueue>, ram: Arc<dyn Memory>) -> Self {
        Self { features, queues, ram }
    }

    /// Returns the file behind the guest's memory, and its size in octets. The memory starts at offset 0 of the file,
    /// and at guest-physical address 0. A peer that gets the file may remove pages from it: that ends the guest, and
    /// affects no other.
    ///
    /// # Errors
    /// Protection against that cannot be set up.
    pub fn memory(&self) -> io::Result<(&File, u64)> {
        Ok((self.ram.share_file()?, self.ram.octets() as u64))
    }

    /// Returns the address of the guest's memory in this process, and its size in octets. It stays mapped as long as
    /// this value exists.
    pub fn mapping(&self) -> Option<(u64, u64)> {
        let octets = self.ram.octets() as u64;
        Some((self.ram.region().translate(0, octets)? as u64, octets))
    }

    /// Prepares for a new peer, which is not blamed for blocked writes of an earlier one.
    pub fn begin_peer(&self) {
        self.queues.iter().for_each(|queue| queue.queues.forget_waits());
    }

    /// Returns true if the peer has blocked one of our threads. Its descriptors are not rung any more.
    pub fn has_blocked_us(&self) -> bool {
        self.queues.iter().any(|queue| queue.queues.has_blocked_us())
    }

    /// Returns the queues of the NIC, for [`NicQueues::interrupt_blocked_writers`].
    pub fn nic(&self) -> Option<&Arc<NicQueues>> {
        self.queues.first().map(|queue| &queue.queues)
    }

    /// Returns how far a queue has been served: the index of its used ring, as the memory has it now.
    pub fn served(&self, queue: &ExportedQueue) -> u16 {
        // The used ring starts with `flags`, then `idx` (virtio 1.2, section 2.7.8).
        let index = self.ram.region().bytes(queue.layout.used, 4).and_then(|head| head.read::<2>(2));
        index.map_or(0, u16::from_le_bytes)
    }
}

impl ExportedQueue {
    /// Creates one of these queues, which interrupts by this line, if any. Opens no descriptor, because a vCPU thread
    /// may not.
    pub fn new(setup: &QueueSetup, queues: &Arc<NicQueues>, line: Option<Arc<dyn Line>>) -> Self {
        Self { index: setup.index, layout: setup.layout, queues: queues.clone(), line }
    }

    /// Returns the event descriptor that its doorbell rings.
    pub fn kick(&self) -> Option<&EventFd> {
        self.queues.bells_of(self.index).map(|(kick, _)| kick)
    }

    /// Rings its doorbell; only for the thread that communicates with the peer.
    pub fn ring(&self) {
        if let Some((kick, writers)) = self.queues.bells_of(self.index)
            && let Some(peer_thread) = writers.peer_thread.try_enter()
        {
            peer_thread.ring(borrow(kick));
        }
    }

    /// Returns the descriptor that a peer writes to for an interrupt; none if interrupts must be passed on by
    /// [`ExportedQueue::interrupt`].
    pub fn call(&self) -> Option<&EventFd> {
        self.line.as_ref()?.event()
    }

    /// Interrupts the driver from this process.
    pub fn interrupt(&self) {
        if let Some(line) = &self.line {
            line.signal();
        }
    }
}

impl NicQueues {
    /// Returns the doorbell of a queue, by its number, and the states of the threads that ring it.
    fn bells_of(&self, index: u16) -> Option<(&EventFd, &WriterStates)> {
        let pair = usize::from(index / 2);
        if index.is_multiple_of(2) {
            self.rx.queues.get(pair).map(|served| (&served.kick, &served.writers))
        } else {
            self.tx.queues.get(pair).map(|served| (&served.kick, &served.writers))
        }
    }
}

/// Pending kicks of queues that a peer serves, to be rung by a vCPU thread after it has released everything that others
/// wait for.
pub struct Kicks {
    queues: Arc<NicQueues>,
    /// Bit set of queues.
    which: u128,
}

/// Value of an order in [`WriterStates::kicks`]; any number but 0 would do.
const RING: u32 = 1;

impl Kicks {
    /// Creates an empty set of kicks.
    pub fn new(queues: Arc<NicQueues>) -> Self {
        Self { queues, which: 0 }
    }

    /// Adds the kick of the queue of this number.
    pub fn add(&mut self, index: u16) {
        self.which |= 1_u128.checked_shl(index.into()).unwrap_or(0);
    }

    /// Rings all of them. If another vCPU is ringing at the same time, that one rings once more, and this one does not
    /// wait.
    pub fn ring(self) {
        let wanted = (0..u128::BITS as u16).filter(|index| self.which >> index & 1 != 0);
        for (kick, writers) in wanted.filter_map(|index| self.queues.bells_of(index)) {
            let server = writers.server();
            let ring = |vcpu: &mut DoorbellPermit<'_>, _| vcpu.ring(borrow(kick));
            writers.kicks.post(RING, || server.try_enter(), ring);
        }
    }
}
