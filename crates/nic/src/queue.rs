//! Queues of either NIC model, for data path code that is independent of the model.
//!
//! The model is dispatched once a burst. Interrupt requests are `causes`: 0 for none, bits of its ICR for an e1000, and
//! [`MESSAGE`] for virtio-net.

use ledger::NicDirection;
use port::{Frame, Offloads};
use ring::split::Broken;

use crate::{e1000, virtio_net};

/// Interrupt cause of virtio-net: the queue's message is due.
pub const MESSAGE: u32 = 1;

/// Result of one call of [`TxQueue::drain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Number of frames that left the queue: those shown, and those dropped.
    pub frames: usize,
    /// Causes for interrupting the driver; 0: no interrupt.
    pub causes: u32,
}

/// Result of one call of [`RxQueue::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Number of frames, from the first of the slice on, that were handled: copied, or counted as dropped. There was no
    /// room for the next one; it is not counted here, because its owner may keep it for later.
    pub taken: usize,
    /// Causes for interrupting the driver; 0: no interrupt.
    pub causes: u32,
}

/// A transmit queue.
#[derive(Debug)]
pub enum TxQueue {
    /// Queue of a virtio-net device.
    VirtioNet(Box<virtio_net::tx::TxQueue>),
    /// Queue of an e1000.
    E1000(Box<e1000::tx::TxQueue>),
}

impl TxQueue {
    /// Shows up to `budget` frames to `take`, in order and in one call, then returns them to the driver; see
    /// [`virtio_net::tx::TxQueue::drain`].
    #[inline]
    pub fn drain(
        &mut self,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        match self {
            Self::VirtioNet(queue) => {
                let drained = queue.drain(budget, ledger, take);
                Drained { frames: drained.frames, causes: message(drained.interrupt) }
            }
            Self::E1000(queue) => queue.drain(budget, ledger, take),
        }
    }

    /// Sets the offloads that the next port accepts from now on. Has no effect for virtio-net: its driver negotiated
    /// offloads when it started, and work that the port does not accept is done on the way.
    pub fn set_sink_offloads(&mut self, takes: Offloads) {
        match self {
            Self::VirtioNet(_) => {}
            Self::E1000(queue) => queue.set_sink_offloads(takes),
        }
    }

    /// Returns true if frames wait; false on a broken ring.
    pub fn has_frames(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.has_frames(),
            Self::E1000(queue) => queue.has_frames(),
        }
    }

    /// Asks for a kick when the next frame arrives; returns true if one waits already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.arm(),
            Self::E1000(queue) => queue.arm(),
        }
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        match self {
            Self::VirtioNet(queue) => queue.disarm(),
            Self::E1000(queue) => queue.disarm(),
        }
    }

    /// Returns the available index of virtio-net's next chain, at which another backend can continue.
    pub fn index(&self) -> Option<u16> {
        match self {
            Self::VirtioNet(queue) => Some(queue.index()),
            Self::E1000(_) => None,
        }
    }

    /// Returns the reason why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        match self {
            Self::VirtioNet(queue) => queue.broken(),
            Self::E1000(queue) => queue.broken(),
        }
    }
}

/// A receive queue.
#[derive(Debug)]
pub enum RxQueue {
    /// Queue of a virtio-net device.
    VirtioNet(Box<virtio_net::rx::RxQueue>),
    /// Queue of an e1000.
    E1000(Box<e1000::rx::RxQueue>),
}

/// Room reserved for certain frames by one thread. Reused for each burst. Has a lease of each model; the one of the
/// other model stays empty.
#[derive(Debug, Default)]
pub struct Lease {
    virtio_net: virtio_net::rx::Lease,
    e1000: e1000::rx::Lease,
}

impl Lease {
    /// Returns true if the lease was too small for frames for which there may be room: after the commit, plan again for
    /// the frames that were not handled.
    pub fn is_full(&self) -> bool {
        self.virtio_net.is_full() || self.e1000.is_full()
    }

    /// Copies the frames for which the lease was reserved; `frames` must be the same slice.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        self.virtio_net.copy(frames);
        self.e1000.copy(frames);
    }
}

impl RxQueue {
    /// Copies frames (at most a burst of them) into posted buffers; see [`virtio_net::rx::RxQueue::fill`].
    #[inline]
    pub fn fill(&mut self, frames: &[Frame<'_>], ledger: &NicDirection) -> Filled {
        match self {
            Self::VirtioNet(queue) => {
                let filled = queue.fill(frames, ledger);
                Filled { taken: filled.taken, causes: message(filled.interrupt) }
            }
            Self::E1000(queue) => queue.fill(frames, ledger),
        }
    }

    /// Returns how many buffers are posted (counts up to a burst); 0 on a broken ring.
    #[inline]
    pub fn room(&mut self) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.room(),
            Self::E1000(queue) => queue.room(),
        }
    }

    /// Reserves room for as many of the first frames as there is; returns how many frames were handled. The lease must
    /// then be filled from the same slice and committed.
    #[inline]
    pub fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.plan(frames, &mut lease.virtio_net, ledger),
            Self::E1000(queue) => queue.plan(frames, &mut lease.e1000, ledger),
        }
    }

    /// Returns for how many frames of the largest size there are buffers.
    pub fn large_room(&mut self) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.large_room(),
            Self::E1000(queue) => queue.room(),
        }
    }

    /// Returns the offloads that frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        match self {
            Self::VirtioNet(queue) => queue.offloads(),
            Self::E1000(queue) => queue.offloads(),
        }
    }

    /// Restricts the offloads that the driver accepts from now on; an e1000 driver sets them in registers instead.
    pub fn take_offloads(&mut self, takes: Offloads) {
        if let Self::VirtioNet(queue) = self {
            queue.take_offloads(takes);
        }
    }

    /// Returns true if a lease was reserved from this queue, and not from one that a reset has since replaced.
    pub fn owns(&self, lease: &Lease) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.owns(&lease.virtio_net),
            Self::E1000(queue) => queue.owns(&lease.e1000),
        }
    }

    /// Commits the frames of a lease to the driver; returns the causes for an interrupt. A lease of another queue (the
    /// device was reset in the meantime) is only cleared.
    #[inline]
    pub fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> u32 {
        match self {
            Self::VirtioNet(queue) => message(queue.commit(&mut lease.virtio_net, ledger)),
            Self::E1000(queue) => queue.commit(&mut lease.e1000, ledger),
        }
    }

    /// Asks for a kick when buffers are posted; returns true if there are some already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.arm(),
            Self::E1000(queue) => queue.arm(),
        }
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        match self {
            Self::VirtioNet(queue) => queue.disarm(),
            Self::E1000(queue) => queue.disarm(),
        }
    }

    /// Returns the available index of virtio-net's next chain, at which another backend can continue.
    pub fn index(&self) -> Option<u16> {
        match self {
            Self::VirtioNet(queue) => Some(queue.index()),
            Self::E1000(_) => None,
        }
    }

    /// Returns the reason why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        match self {
            Self::VirtioNet(queue) => queue.broken(),
            Self::E1000(queue) => queue.broken(),
        }
    }
}

#[inline(always)]
const fn message(interrupt: bool) -> u32 {
    if interrupt { MESSAGE } else { 0 }
}
