//! Requests that a register access makes to the device's environment.

use port::Offloads;
use ring::split;

use super::features;
use crate::pci::Message;

/// A request to the VMM, returned by [`take_effects`](super::VirtioNet::take_effects). The VMM must handle requests one
/// after the other, before the guest's access returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The driver is ready (DRIVER_OK): serve the queues; of the receive queues, only that of pair 0 until
    /// [`Effect::PairsChanged`]. If one of them cannot be used, stop them all and call
    /// [`fail`](super::VirtioNet::fail).
    Started(Start),
    /// Stop all access to the queues: the driver reset the device or gave it up, or the device failed.
    Stopped,
    /// The driver rang a doorbell of a running device by a register access that no ioeventfd handled.
    Kicked(u16),
    /// The message of MSI-X vector `n`, or whether it can be sent, has changed: query
    /// [`message`](super::VirtioNet::message).
    VectorChanged(u16),
    /// A queue of a running device has a different interrupt vector now: query
    /// [`queue_vector`](super::VirtioNet::queue_vector).
    QueueVectorChanged(u16),
    /// Send this interrupt now.
    Interrupt {
        /// The MSI-X vector.
        vector: u16,
        /// Message to send.
        message: Message,
    },
    /// The driver will use this many pairs of queues: deliver no frame to receive queues of later pairs.
    PairsChanged(u16),
    /// The driver accepts only these offloads from now on.
    OffloadsChanged(Offloads),
    /// [`bars`](crate::pci::PciFunction::bars) and [`doorbell`](super::VirtioNet::doorbell) have changed.
    BarsMoved,
}

/// Configuration of a device by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Feature bits that the driver accepted ([`features`]).
    pub features: u64,
    /// Queues that the driver enabled, by index.
    pub queues: Vec<QueueSetup>,
}

impl Start {
    /// Returns the features that concern the rings.
    pub fn ring(&self) -> split::Features {
        features::ring_features(self.features)
    }

    /// Returns the offloads that the driver may leave to the device.
    pub fn offloads_of_driver(&self) -> Offloads {
        features::offloads_of_driver(self.features)
    }

    /// Returns the offloads that the device may leave to the driver, until the driver changes them.
    pub fn offloads_of_device(&self) -> Offloads {
        features::offloads_of_device(self.features)
    }

    /// Returns true if a frame may fill several receive buffers.
    pub fn mergeable(&self) -> bool {
        self.features & features::MRG_RXBUF != 0
    }
}

/// Configuration of one queue by the driver. The addresses are the driver's and unchecked: check them before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSetup {
    /// Number of the queue and of its doorbell.
    pub index: u16,
    /// Purpose of the queue.
    pub role: QueueRole,
    /// Location of the queue.
    pub layout: split::Layout,
    /// Features of its ring.
    pub features: split::Features,
    /// MSI-X vector for its interrupts, if any.
    pub vector: Option<u16>,
}

/// Purpose of a queue (virtio 1.2, section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRole {
    /// Frames to the driver, of this queue pair.
    Receive(u16),
    /// Frames from the driver, of this queue pair.
    Transmit(u16),
    /// Commands of the control queue.
    Control,
}
