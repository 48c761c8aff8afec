//! Configuration of a virtio-net device.

use thiserror::Error;

use super::features;

/// Maximum number of queue pairs of one device.
pub const MAX_QUEUE_PAIRS: u16 = 64;
/// Maximum queue size that a device offers.
pub const MAX_QUEUE_SIZE: u16 = 1024;
/// Minimum MTU that a device may report (virtio 1.2, section 5.1.4.1).
pub const MIN_MTU: u16 = 68;

/// Configuration of one virtio-net device.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet in octets, at least [`MIN_MTU`].
    pub mtu: u16,
    /// Number of pairs of a receive and a transmit queue, 1 to [`MAX_QUEUE_PAIRS`]. With 2 or more pairs, and with
    /// offloads, there is a control queue too.
    pub queue_pairs: u16,
    /// Maximum size of a queue in entries, a power of two up to [`MAX_QUEUE_SIZE`].
    pub queue_size_max: u16,
    /// Offer IN_ORDER. Only suitable if one producer fills each receive ring: several would have to wait for one
    /// another.
    pub in_order: bool,
    /// Offer mergeable receive buffers.
    pub mergeable: bool,
    /// Offer notification suppression by event index.
    pub event_idx: bool,
    /// Offer indirect descriptors.
    pub indirect: bool,
    /// Offer checksum and segmentation offloads in both directions.
    pub offloads: bool,
    /// Features that the backend supports: of the features about frames and rings, only these are offered.
    pub servable: u64,
}

impl NicConfig {
    /// Creates a configuration of one pair of queues of 1024 entries, MTU 1500, all features but IN_ORDER and offloads.
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

    /// Checks the configuration.
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

    /// Returns the number of queues: two a pair and, if a feature needs it, the control queue.
    pub(super) fn queues(&self) -> u16 {
        2 * self.queue_pairs + u16::from(self.has_control_queue())
    }

    /// Returns the features that the device offers.
    pub(super) fn offered(&self) -> u64 {
        self.own() & (self.servable | features::OF_MODEL)
    }

    /// Returns the features that the configuration and this device model allow.
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

/// Reason why a device cannot be built from a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The address is zero or a group address.
    #[error("Ethernet address {0:02x?} is zero or a group address: a NIC needs one of its own")]
    Mac([u8; 6]),
    /// The MTU is too small.
    #[error("MTU {0} is below {MIN_MTU}")]
    Mtu(u16),
    /// The number of queue pairs is out of range.
    #[error("{0} queue pairs: a virtio-net device has 1 to {MAX_QUEUE_PAIRS}")]
    QueuePairs(u16),
    /// The queue size is no power of two, or too large.
    #[error("queue size {0} is not a power of two up to {MAX_QUEUE_SIZE}")]
    QueueSize(u16),
}
