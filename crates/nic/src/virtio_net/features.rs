//! Feature bits (virtio 1.2, sections 5.1.3 and 6) and the valid combinations of them.

use port::Offloads;
use ring::split;

/// VIRTIO_NET_F_CSUM: the driver may leave a checksum to the device.
pub const CSUM: u64 = 1 << 0;
/// VIRTIO_NET_F_GUEST_CSUM: the device may leave a checksum to the driver.
pub const GUEST_CSUM: u64 = 1 << 1;
/// VIRTIO_NET_F_CTRL_GUEST_OFFLOADS: the driver may change the offloads left to it at run time.
pub const CTRL_GUEST_OFFLOADS: u64 = 1 << 2;
/// VIRTIO_NET_F_MTU: the device reports its MTU.
pub const MTU: u64 = 1 << 3;
/// VIRTIO_NET_F_MAC: the device has an Ethernet address.
pub const MAC: u64 = 1 << 5;
/// VIRTIO_NET_F_GUEST_TSO4: the driver accepts large TCP packets over IPv4.
pub const GUEST_TSO4: u64 = 1 << 7;
/// VIRTIO_NET_F_GUEST_TSO6: the driver accepts large TCP packets over IPv6.
pub const GUEST_TSO6: u64 = 1 << 8;
/// VIRTIO_NET_F_GUEST_ECN: the driver accepts large TCP packets with CWR.
pub const GUEST_ECN: u64 = 1 << 9;
/// VIRTIO_NET_F_HOST_TSO4: the device accepts large TCP packets over IPv4.
pub const HOST_TSO4: u64 = 1 << 11;
/// VIRTIO_NET_F_HOST_TSO6: the device accepts large TCP packets over IPv6.
pub const HOST_TSO6: u64 = 1 << 12;
/// VIRTIO_NET_F_HOST_ECN: the device accepts large TCP packets with CWR.
pub const HOST_ECN: u64 = 1 << 13;
/// VIRTIO_NET_F_MRG_RXBUF: a frame may fill several receive buffers.
pub const MRG_RXBUF: u64 = 1 << 15;
/// VIRTIO_NET_F_STATUS: the device reports whether its link is up.
pub const STATUS: u64 = 1 << 16;
/// VIRTIO_NET_F_CTRL_VQ: there is a control queue.
pub const CTRL_VQ: u64 = 1 << 17;
/// VIRTIO_NET_F_MQ: there are several pairs of queues.
pub const MQ: u64 = 1 << 22;
/// VIRTIO_F_INDIRECT_DESC: see [`split::Features::indirect`].
pub const INDIRECT_DESC: u64 = 1 << 28;
/// VIRTIO_F_EVENT_IDX: see [`split::Features::event_idx`].
pub const EVENT_IDX: u64 = 1 << 29;
/// VIRTIO_NET_F_GUEST_USO4: the driver accepts large UDP packets over IPv4 (virtio 1.3).
pub const GUEST_USO4: u64 = 1 << 54;
/// VIRTIO_NET_F_GUEST_USO6: the driver accepts large UDP packets over IPv6 (virtio 1.3).
pub const GUEST_USO6: u64 = 1 << 55;
/// VIRTIO_NET_F_HOST_USO: the device accepts large UDP packets (virtio 1.3).
pub const HOST_USO: u64 = 1 << 56;
/// VIRTIO_F_VERSION_1: virtio 1.0 or later, not the legacy interface.
pub const VERSION_1: u64 = 1 << 32;
/// VIRTIO_F_IN_ORDER: see [`split::Features::in_order`].
pub const IN_ORDER: u64 = 1 << 35;

/// Features that only concern the device model, independent of the backend that serves its queues.
pub const OF_MODEL: u64 = VERSION_1 | MAC | MTU | STATUS | CTRL_VQ;

/// Offloads that a driver may leave to the device.
pub const OFFLOADS_OF_DRIVER: u64 = CSUM | HOST_TSO4 | HOST_TSO6 | HOST_ECN | HOST_USO;
/// Offloads that the device may leave to the driver; also the bits of CTRL_GUEST_OFFLOADS_SET (section 5.1.6.5.6.1).
pub const OFFLOADS_OF_DEVICE: u64 =
    GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | GUEST_USO4 | GUEST_USO6;

/// All features that concern offloads.
pub const OFFLOADS: u64 = OFFLOADS_OF_DRIVER | OFFLOADS_OF_DEVICE | CTRL_GUEST_OFFLOADS;

/// Dependencies: each feature requires at least one of others (section 5.1.3.1).
const NEEDS: [(u64, u64); 11] = [
    (MQ, CTRL_VQ),
    (CTRL_GUEST_OFFLOADS, CTRL_VQ),
    (GUEST_TSO4, GUEST_CSUM),
    (GUEST_TSO6, GUEST_CSUM),
    (GUEST_USO4, GUEST_CSUM),
    (GUEST_USO6, GUEST_CSUM),
    (GUEST_ECN, GUEST_TSO4 | GUEST_TSO6),
    (HOST_TSO4, CSUM),
    (HOST_TSO6, CSUM),
    (HOST_USO, CSUM),
    (HOST_ECN, HOST_TSO4 | HOST_TSO6),
];

/// Returns true if a device that offers `offered` accepts the driver's choice: only offered features, VERSION_1, and
/// for each feature those that it requires.
pub fn acceptable(offered: u64, picked: u64) -> bool {
    picked & !offered == 0
        && picked & VERSION_1 != 0
        && NEEDS.iter().all(|(feature, needed)| picked & feature == 0 || picked & needed != 0)
}

/// Returns the offloads that a driver with these features may leave to the device.
pub fn offloads_of_driver(picked: u64) -> Offloads {
    sum(
        picked,
        [
            (CSUM, Offloads::CSUM),
            (HOST_TSO4, Offloads::TSO4),
            (HOST_TSO6, Offloads::TSO6),
            (HOST_ECN, Offloads::ECN),
            (HOST_USO, Offloads::USO),
        ],
    )
}

/// Returns the offloads that the device may leave to a driver with these features, or to one that set these bits by
/// CTRL_GUEST_OFFLOADS_SET. Large UDP is a single offload here, over IPv4 and IPv6.
pub fn offloads_of_device(picked: u64) -> Offloads {
    let uso =
        if picked & GUEST_USO4 != 0 && picked & GUEST_USO6 != 0 { Offloads::USO } else { Offloads::NONE };
    uso | sum(
        picked,
        [
            (GUEST_CSUM, Offloads::CSUM),
            (GUEST_TSO4, Offloads::TSO4),
            (GUEST_TSO6, Offloads::TSO6),
            (GUEST_ECN, Offloads::ECN),
        ],
    )
}

fn sum<const N: usize>(picked: u64, meanings: [(u64, Offloads); N]) -> Offloads {
    let set = meanings.into_iter().filter(|(feature, _)| picked & feature != 0);
    set.fold(Offloads::NONE, |all, (_, offload)| all | offload).consistent()
}

/// Returns the ring features among the accepted features.
pub fn ring_features(picked: u64) -> split::Features {
    split::Features {
        event_idx: picked & EVENT_IDX != 0,
        indirect: picked & INDIRECT_DESC != 0,
        in_order: picked & IN_ORDER != 0,
    }
}
