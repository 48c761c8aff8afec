//! The device from a driver's view, chapter by chapter of virtio 1.2.

mod driver;
mod interrupts;
mod life;
mod offloads;
mod properties;
mod queues;
mod structures;

use super::*;
use driver::Driver;

const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 7];
const BAR_AT: u64 = 0xe010_0000;

/// Creates a device with one pair of queues and all features.
fn nic() -> VirtioNet {
    VirtioNet::new(&NicConfig { in_order: true, ..NicConfig::new(MAC) }).unwrap()
}

/// Creates a device with this many pairs of queues.
fn nic_with_pairs(queue_pairs: u16) -> VirtioNet {
    VirtioNet::new(&NicConfig { queue_pairs, ..NicConfig::new(MAC) }).unwrap()
}

#[test]
fn a_device_that_makes_no_sense_is_refused_with_a_reason() {
    let good = NicConfig::new(MAC);
    let cases = [
        (NicConfig { mac: [0; 6], ..good.clone() }, "is zero or a group address"),
        (NicConfig { mac: [1, 0, 0, 0, 0, 1], ..good.clone() }, "is zero or a group address"),
        (NicConfig { mtu: 67, ..good.clone() }, "MTU 67 is below 68"),
        (NicConfig { queue_pairs: 0, ..good.clone() }, "0 queue pairs"),
        (NicConfig { queue_pairs: 65, ..good.clone() }, "65 queue pairs"),
        (NicConfig { queue_size_max: 0, ..good.clone() }, "queue size 0"),
        (NicConfig { queue_size_max: 48, ..good.clone() }, "queue size 48"),
        (NicConfig { queue_size_max: 2048, ..good }, "queue size 2048"),
    ];
    for (config, reason) in cases {
        let error = VirtioNet::new(&config).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_largest_device_fits_its_registers() {
    let nic = nic_with_pairs(MAX_QUEUE_PAIRS);
    assert_eq!((nic.queues(), nic.vectors()), (129, 130));
    let doorbells = u64::from(nic.queues()) * u64::from(registers::NOTIFY_MULTIPLIER);
    assert!(registers::NOTIFY + doorbells <= registers::MSIX_TABLE);
    let entries = u64::from(nic.vectors()) * crate::pci::msix::ENTRY_LEN;
    assert!(registers::MSIX_TABLE + entries <= registers::MSIX_PENDING);
}
