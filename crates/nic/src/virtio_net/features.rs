//! Feature bits (virtio 1.2, sections 5.1.3 and 6) and which sets of them a driver may pick.

use ring::split;

/// VIRTIO_NET_F_MTU: the device tells the largest IP packet.
pub const MTU: u64 = 1 << 3;
/// VIRTIO_NET_F_MAC: the device has an address.
pub const MAC: u64 = 1 << 5;
/// VIRTIO_NET_F_MRG_RXBUF: a frame may fill several receive buffers.
pub const MRG_RXBUF: u64 = 1 << 15;
/// VIRTIO_NET_F_STATUS: the device tells whether its link is up.
pub const STATUS: u64 = 1 << 16;
/// VIRTIO_NET_F_CTRL_VQ: there is a control queue.
pub const CTRL_VQ: u64 = 1 << 17;
/// VIRTIO_NET_F_MQ: there are several pairs of queues.
pub const MQ: u64 = 1 << 22;
/// VIRTIO_F_INDIRECT_DESC: see [`split::Features::indirect`].
pub const INDIRECT_DESC: u64 = 1 << 28;
/// VIRTIO_F_EVENT_IDX: see [`split::Features::event_idx`].
pub const EVENT_IDX: u64 = 1 << 29;
/// VIRTIO_F_VERSION_1: virtio 1.0 or later, not the legacy interface.
pub const VERSION_1: u64 = 1 << 32;
/// VIRTIO_F_IN_ORDER: see [`split::Features::in_order`].
pub const IN_ORDER: u64 = 1 << 35;

/// Features for which only the device model is needed, whoever serves its queues.
pub const OF_MODEL: u64 = VERSION_1 | MAC | MTU | STATUS | CTRL_VQ;

/// Features that make no sense without another one (section 5.1.3.1).
const NEEDS: [(u64, u64); 1] = [(MQ, CTRL_VQ)];

/// Whether a device that offers `offered` accepts the driver's choice: nothing that was not offered, VERSION_1, and
/// with each feature those that it needs.
pub fn acceptable(offered: u64, picked: u64) -> bool {
    picked & !offered == 0
        && picked & VERSION_1 != 0
        && NEEDS.iter().all(|(feature, needed)| picked & feature == 0 || picked & needed == *needed)
}

/// What the picked features mean for a ring.
pub fn ring_features(picked: u64) -> split::Features {
    split::Features {
        event_idx: picked & EVENT_IDX != 0,
        indirect: picked & INDIRECT_DESC != 0,
        in_order: picked & IN_ORDER != 0,
    }
}
