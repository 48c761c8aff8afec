//! What a virtio-net device is built from.

use thiserror::Error;

use super::features;

/// Most pairs of queues of one device.
pub const MAX_QUEUE_PAIRS: u16 = 64;
/// Largest queue that a device offers.
pub const MAX_QUEUE_SIZE: u16 = 1024;
/// Smallest MTU that a device may tell (virtio 1.2, section 5.1.4.1).
pub const MIN_MTU: u16 = 68;

/// One virtio-net device.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet in octets, at least [`MIN_MTU`].
    pub mtu: u16,
    /// Pairs of a receive and a transmit queue, 1 to [`MAX_QUEUE_PAIRS`]. From 2 on, and with offloads, there is a control
    /// queue too.
    pub queue_pairs: u16,
    /// Entries of the largest queue that a driver may set up, a power of two up to [`MAX_QUEUE_SIZE`].
    pub queue_size_max: u16,
    /// Offer IN_ORDER. Only where one producer fills each receive ring: several would have to wait for each other.
    pub in_order: bool,
    /// Offer mergeable receive buffers.
    pub mergeable: bool,
    /// Offer notification suppression by event index.
    pub event_idx: bool,
    /// Offer indirect descriptors.
    pub indirect: bool,
    /// Offer checksums and segments to be left to the other side, both ways.
    pub offloads: bool,
    /// Features that whoever serves the queues can do: of those that are about frames and rings, only these are offered.
    pub servable: u64,
}

impl NicConfig {
    /// One pair of queues of 1024 entries, MTU 1500, all features but IN_ORDER and offloads.
    pub const fn new(mac: [u8; 6]) -> Self {
        Self {
            mac,
            mtu: 1500,
            queue_pairs: 1,
            queue_size_max: MAX_QUEUE_SIZE,
            in_order: false,
            mergeable: true,
            event_idx: true,
            indirect: true,
            offloads: false,
            servable: u64::MAX,
        }
    }

    /// Says what is wrong, if anything is.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.mac[0] & 1 != 0 || self.mac == [0; 6] {
            return Err(ConfigError::Mac(self.mac));
        }
        if self.mtu < MIN_MTU {
            return Err(ConfigError::Mtu(self.mtu));
        }
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return Err(ConfigError::QueuePairs(self.queue_pairs));
        }
        if !self.queue_size_max.is_power_of_two() || self.queue_size_max > MAX_QUEUE_SIZE {
            return Err(ConfigError::QueueSize(self.queue_size_max));
        }
        Ok(())
    }

    pub(super) fn has_control_queue(&self) -> bool {
        self.queue_pairs > 1 || self.offloads
    }

    /// Queues: two a pair and, where there is something to control, the control queue.
    pub(super) fn queues(&self) -> u16 {
        2 * self.queue_pairs + u16::from(self.has_control_queue())
    }

    /// Features that the device offers.
    pub(super) fn offered(&self) -> u64 {
        self.own() & (self.servable | features::OF_MODEL)
    }

    /// Those that this device model can do.
    fn own(&self) -> u64 {
        let when = |wanted: bool, feature| if wanted { feature } else { 0 };
        features::VERSION_1
            | features::MAC
            | features::MTU
            | features::STATUS
            | when(self.in_order, features::IN_ORDER)
            | when(self.mergeable, features::MRG_RXBUF)
            | when(self.event_idx, features::EVENT_IDX)
            | when(self.indirect, features::INDIRECT_DESC)
            | when(self.has_control_queue(), features::CTRL_VQ)
            | when(self.queue_pairs > 1, features::MQ)
            | when(self.offloads, features::OFFLOADS)
    }
}

/// Why a device cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The address is not one station's.
    #[error("Ethernet address {0:02x?} is zero or a group address: a NIC needs one of its own")]
    Mac([u8; 6]),
    /// The MTU is too small.
    #[error("MTU {0} is below {MIN_MTU}")]
    Mtu(u16),
    /// No queue or too many.
    #[error("{0} queue pairs: a virtio-net device has 1 to {MAX_QUEUE_PAIRS}")]
    QueuePairs(u16),
    /// The queue size is not a size.
    #[error("queue size {0} is not a power of two up to {MAX_QUEUE_SIZE}")]
    QueueSize(u16),
}
