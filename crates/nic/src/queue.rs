//! The queues of either NIC model, for who serves them without knowing which it is.
//!
//! What differs is told apart once a burst. Interrupts are `causes`: 0 for none, for an e1000 the bits of its ICR, for
//! virtio-net [`MESSAGE`].

use ledger::NicDirection;
use port::{Frame, Offloads};
use ring::split::Broken;

use crate::{e1000, virtio_net};

/// Why virtio-net interrupts: the queue's message is due.
pub const MESSAGE: u32 = 1;

/// What one call of [`TxQueue::drain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Frames that left the queue: those shown, and those dropped.
    pub frames: usize,
    /// Why the driver is to be interrupted; 0: it is not.
    pub causes: u32,
}

/// What one call of [`RxQueue::fill`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The first so many frames of the slice were dealt with: copied, or counted as dropped. There was no room for the
    /// next one; it is not counted here, because its owner may keep it for later.
    pub taken: usize,
    /// Why the driver is to be interrupted; 0: it is not.
    pub causes: u32,
}

/// A transmit queue.
#[derive(Debug)]
pub enum TxQueue {
    /// Of virtio-net.
    VirtioNet(Box<virtio_net::tx::TxQueue>),
    /// Of an e1000.
    E1000(Box<e1000::tx::TxQueue>),
}

impl TxQueue {
    /// Shows up to `budget` frames to `take`, in order and in one call, then returns them to the driver; as
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

    /// From now on this may be left to whoever has the frames next. A driver of virtio-net was told when it started, and
    /// what it leaves is done on the way.
    pub fn settle(&mut self, takes: Offloads) {
        match self {
            Self::VirtioNet(_) => {}
            Self::E1000(queue) => queue.settle(takes),
        }
    }

    /// Whether frames wait; false on a broken ring.
    pub fn has_frames(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.has_frames(),
            Self::E1000(queue) => queue.has_frames(),
        }
    }

    /// Asks for a kick when the next frame comes; true if one waits already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.arm(),
            Self::E1000(queue) => queue.arm(),
        }
    }

    /// Asks for no kicks: we poll.
    pub fn disarm(&mut self) {
        match self {
            Self::VirtioNet(queue) => queue.disarm(),
            Self::E1000(queue) => queue.disarm(),
        }
    }

    /// Available index of the next chain of virtio-net: where somebody else can go on.
    pub fn index(&self) -> Option<u16> {
        match self {
            Self::VirtioNet(queue) => Some(queue.index()),
            Self::E1000(_) => None,
        }
    }

    /// Why the ring stopped, if it did.
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
    /// Of virtio-net.
    VirtioNet(Box<virtio_net::rx::RxQueue>),
    /// Of an e1000.
    E1000(Box<e1000::rx::RxQueue>),
}

/// Room that was reserved for certain frames by one thread. Reused for each burst. The part of the model that it is not
/// used with stays empty.
#[derive(Debug, Default)]
pub struct Lease {
    virtio_net: virtio_net::rx::Lease,
    e1000: e1000::rx::Lease,
}

impl Lease {
    /// Whether it was too small for frames for which there may be room: once it is committed, plan again for those that were
    /// not dealt with.
    pub fn is_full(&self) -> bool {
        self.virtio_net.is_full() || self.e1000.is_full()
    }

    /// Copies the frames for which the lease was reserved: the same slice again.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        self.virtio_net.copy(frames);
        self.e1000.copy(frames);
    }
}

impl RxQueue {
    /// Copies frames (at most a burst of them) into posted buffers; as [`virtio_net::rx::RxQueue::fill`].
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

    /// How many buffers (at most a burst is looked for) are posted; 0 on a broken ring.
    #[inline]
    pub fn room(&mut self) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.room(),
            Self::E1000(queue) => queue.room(),
        }
    }

    /// Reserves room for as many of the first frames as there is; returns how many frames were dealt with. The lease
    /// must then be filled from the same slice and committed.
    #[inline]
    pub fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.plan(frames, &mut lease.virtio_net, ledger),
            Self::E1000(queue) => queue.plan(frames, &mut lease.e1000, ledger),
        }
    }

    /// How many frames of the largest size find buffers.
    pub fn large_room(&mut self) -> usize {
        match self {
            Self::VirtioNet(queue) => queue.large_room(),
            Self::E1000(queue) => queue.room(),
        }
    }

    /// What frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        match self {
            Self::VirtioNet(queue) => queue.offloads(),
            Self::E1000(queue) => queue.offloads(),
        }
    }

    /// From now on the driver takes only this; an e1000's says so in its registers.
    pub fn take_offloads(&mut self, takes: Offloads) {
        if let Self::VirtioNet(queue) = self {
            queue.take_offloads(takes);
        }
    }

    /// Whether a lease was reserved from this queue, and not from one that a reset has taken away since.
    pub fn owns(&self, lease: &Lease) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.owns(&lease.virtio_net),
            Self::E1000(queue) => queue.owns(&lease.e1000),
        }
    }

    /// Gives the frames of a lease to the driver; returns why it is to be interrupted. A lease of another queue (the
    /// device was reset in the meantime) is only emptied.
    #[inline]
    pub fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> u32 {
        match self {
            Self::VirtioNet(queue) => message(queue.commit(&mut lease.virtio_net, ledger)),
            Self::E1000(queue) => queue.commit(&mut lease.e1000, ledger),
        }
    }

    /// Asks for a kick when buffers are posted; true if there are some already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::VirtioNet(queue) => queue.arm(),
            Self::E1000(queue) => queue.arm(),
        }
    }

    /// Asks for no kicks: we poll.
    pub fn disarm(&mut self) {
        match self {
            Self::VirtioNet(queue) => queue.disarm(),
            Self::E1000(queue) => queue.disarm(),
        }
    }

    /// Available index of the next chain of virtio-net: where somebody else can go on.
    pub fn index(&self) -> Option<u16> {
        match self {
            Self::VirtioNet(queue) => Some(queue.index()),
            Self::E1000(_) => None,
        }
    }

    /// Why the ring stopped, if it did.
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
