//! What a register access asks the world around the device to do.

use port::Offloads;
use ring::split;

use super::features;
use crate::pci::Message;

/// An order to whoever runs the device, given by [`take_effects`](super::VirtioNet::take_effects). Orders are to be
/// carried out one after the other, before the guest's access returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The driver is ready (DRIVER_OK): serve the queues; of receive queues, that of pair 0 alone until
    /// [`Effect::PairsChanged`]. If one of them cannot be used, stop them all and call
    /// [`fail`](super::VirtioNet::fail).
    Started(Start),
    /// Touch no queue any more: the driver reset the device or gave it up, or the device failed.
    Stopped,
    /// A doorbell was rung by a register access of a running device: no ioeventfd took it.
    Kicked(u16),
    /// What MSI-X vector `n` sends, or whether it can be sent, has changed: ask
    /// [`message`](super::VirtioNet::message).
    VectorChanged(u16),
    /// A queue of a running device now interrupts by another vector: ask
    /// [`queue_vector`](super::VirtioNet::queue_vector).
    QueueVectorChanged(u16),
    /// Send this interrupt now.
    Interrupt {
        /// The MSI-X vector.
        vector: u16,
        /// What it sends.
        message: Message,
    },
    /// The driver will use so many pairs of queues: no frame may go to receive queues of later pairs.
    PairsChanged(u16),
    /// The driver takes only this from now on.
    OffloadsChanged(Offloads),
    /// [`bars`](crate::pci::PciFunction::bars) and [`doorbell`](super::VirtioNet::doorbell) have changed.
    BarsMoved,
}

/// A device as its driver set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Feature bits that the driver picked ([`features`]).
    pub features: u64,
    /// The queues that the driver enabled, by index.
    pub queues: Vec<QueueSetup>,
}

impl Start {
    /// What the features mean for the rings.
    pub fn ring(&self) -> split::Features {
        features::ring_features(self.features)
    }

    /// What the driver may leave to the device.
    pub fn offloads_of_driver(&self) -> Offloads {
        features::offloads_of_driver(self.features)
    }

    /// What the device may leave to the driver, until it says otherwise.
    pub fn offloads_of_device(&self) -> Offloads {
        features::offloads_of_device(self.features)
    }

    /// Whether a frame may fill several receive buffers.
    pub fn mergeable(&self) -> bool {
        self.features & features::MRG_RXBUF != 0
    }
}

/// One queue as the driver set it up. The addresses are the driver's word: check them before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSetup {
    /// Its number: the doorbell's, too.
    pub index: u16,
    /// What it is for.
    pub role: QueueRole,
    /// Where it lies.
    pub layout: split::Layout,
    /// What the features mean for its ring.
    pub features: split::Features,
    /// The MSI-X vector by which it interrupts, if any.
    pub vector: Option<u16>,
}

/// What a queue is for (virtio 1.2, section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRole {
    /// Frames to the driver, of this pair.
    Receive(u16),
    /// Frames from the driver, of this pair.
    Transmit(u16),
    /// Commands.
    Control,
}
