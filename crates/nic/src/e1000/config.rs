//! Configuration of an 82540EM.

use thiserror::Error;

use crate::moderation::Moderation;

/// Smallest MTU of a NIC.
pub const MIN_MTU: u16 = 68;
/// Largest MTU: 16 KiB frames (82540EM manual, "RCTL.LPE"), less header, VLAN tag and FCS.
pub const MAX_MTU: u16 = 16384 - 14 - 4 - 4;

/// Configuration of one 82540EM.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ethernet address, stored in the EEPROM.
    pub mac: [u8; 6],
    /// Largest IP packet in octets, [`MIN_MTU`] to [`MAX_MTU`].
    pub mtu: u16,
    /// Offer the status block: subsystem device id [`SUBSYSTEM_BLOCK`](super::SUBSYSTEM_BLOCK), CSBAL and CSBAH.
    pub block: bool,
    /// Interrupt moderation by the host, in addition to the driver's by ITR.
    pub moderation: Moderation,
}

impl Config {
    /// Creates a configuration with MTU 1500, no status block, and only the driver's interrupt moderation.
    pub const fn new(mac: [u8; 6]) -> Self {
        Self { mac, mtu: 1500, block: false, moderation: Moderation::Off }
    }

    /// Checks the configuration.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.mac[0] & 1 != 0 || self.mac == [0; 6] {
            return Err(ConfigError::Mac(self.mac));
        }
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        Ok(())
    }
}

/// Reason why a device cannot be built from a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The address is zero or a group address.
    #[error("Ethernet address {0:02x?} is zero or a group address: a NIC needs one of its own")]
    Mac([u8; 6]),
    /// The MTU is outside the range of an 82540EM.
    #[error("MTU {0}: an 82540EM has {MIN_MTU} to {MAX_MTU}")]
    Mtu(u16),
}
