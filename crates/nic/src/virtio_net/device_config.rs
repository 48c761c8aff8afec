//! The device configuration structure (virtio 1.2, section 5.1.4). The driver cannot write any of it.

/// Size of the structure in octets: up to `mtu`; later fields belong to features that are not offered.
pub const LEN: usize = 12;
/// Bit of the `status` field: the link is up.
pub const LINK_UP: u16 = 1;

/// Values that the driver reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceConfig {
    pub(super) mac: [u8; 6],
    pub(super) link_up: bool,
    pub(super) queue_pairs: u16,
    pub(super) mtu: u16,
}

impl DeviceConfig {
    /// Encodes the fields in order: mac, status, max_virtqueue_pairs, mtu.
    pub(super) fn image(&self) -> [u8; LEN] {
        let status = if self.link_up { LINK_UP } else { 0 };
        let mut image = [0; LEN];
        image[..6].copy_from_slice(&self.mac);
        image[6..8].copy_from_slice(&status.to_le_bytes());
        image[8..10].copy_from_slice(&self.queue_pairs.to_le_bytes());
        image[10..].copy_from_slice(&self.mtu.to_le_bytes());
        image
    }
}
