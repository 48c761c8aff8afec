//! Layout of the structures in BAR 0, and the capabilities that describe it to the driver (virtio 1.2, section 4.1.4).
//!
//! ```text
//! 0x0000  common configuration            56 octets
//! 0x0080  ISR status                       1 octet
//! 0x0100  device configuration            12 octets
//! 0x1000  doorbells                        4 octets a queue, in a page of their own
//! 0x2000  MSI-X table                     16 octets a vector
//! 0x3000  MSI-X pending bits
//! 0x4000  end
//! ```
//!
//! Every access costs the guest a VM exit. So all structures lie behind one BAR, capabilities can be read 8 octets at a
//! time, and those that a driver needs come first: common, doorbells, device, MSI-X; then ISR and the window.

use super::{common_config, device_config};
use crate::pci::{ConfigSpace, Identity, Msix, msix};

/// Number of the BAR.
pub const BAR: u8 = 0;
/// Size of the BAR in octets.
pub const BAR_LEN: u32 = 0x4000;
/// Offset of the common configuration.
pub const COMMON: u64 = 0x0000;
/// Offset of the ISR status.
pub const ISR: u64 = 0x0080;
/// Offset of the device configuration.
pub const DEVICE: u64 = 0x0100;
/// Offset of the doorbells.
pub const NOTIFY: u64 = 0x1000;
/// Distance of two doorbells in octets.
pub const NOTIFY_MULTIPLIER: u32 = 4;
/// Offset of the MSI-X table.
pub const MSIX_TABLE: u64 = 0x2000;
/// Offset of the MSI-X pending bits.
pub const MSIX_PENDING: u64 = 0x3000;

/// End of the BAR.
pub const END: u64 = BAR_LEN as u64;

/// Identifier of a vendor-specific capability.
pub const VENDOR_CAPABILITY: u8 = 0x09;
/// `cfg_type` of the five kinds of virtio capabilities.
pub mod cfg_type {
    /// Common configuration.
    pub const COMMON: u8 = 1;
    /// Doorbells.
    pub const NOTIFY: u8 = 2;
    /// ISR status.
    pub const ISR: u8 = 3;
    /// Device configuration.
    pub const DEVICE: u8 = 4;
    /// Configuration space access: a window onto the BAR.
    pub const PCI: u8 = 5;
}

/// Vendor id of Red Hat, as virtio requires (section 4.1.2).
pub const VENDOR: u16 = 0x1af4;
/// Device id of virtio-net, not transitional: 0x1040 + device type 1.
pub const DEVICE_ID: u16 = 0x1041;
const ETHERNET: u32 = 0x02_0000;

/// Offset of the BAR number in the window's capability.
pub const WINDOW_BAR: u16 = 4;
/// Offset in the window's capability of the access's offset in the BAR; 32 bits.
pub const WINDOW_OFFSET: u16 = 8;
/// Offset of the access's length: 1, 2 or 4; 32 bits.
pub const WINDOW_LENGTH: u16 = 12;
/// Offset of the data; 32 bits.
pub const WINDOW_DATA: usize = 16;

/// Offsets in configuration space of the capabilities that change at run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Control register of MSI-X.
    pub(super) msix_control: u16,
    /// First octet of the window's capability.
    pub(super) window: u16,
}

/// Creates the configuration space of a device with this many queues.
pub(super) fn config_space(queues: u16, vectors: &Msix) -> (ConfigSpace, Places) {
    let mut space = ConfigSpace::new(&Identity {
        vendor: VENDOR,
        device: DEVICE_ID,
        revision: 1,
        class: ETHERNET,
        subsystem_vendor: VENDOR,
        subsystem: DEVICE_ID,
    });
    space.add_memory_bar(BAR, BAR_LEN);
    let doorbells = u32::from(queues) * NOTIFY_MULTIPLIER;
    add(&mut space, cfg_type::COMMON, COMMON, common_config::LEN as u32, &[]);
    add(&mut space, cfg_type::NOTIFY, NOTIFY, doorbells, &NOTIFY_MULTIPLIER.to_le_bytes());
    add(&mut space, cfg_type::DEVICE, DEVICE, device_config::LEN as u32, &[]);
    let (body, writable) = vectors.capability(BAR, MSIX_TABLE as u32, MSIX_PENDING as u32);
    let msix = space.add_capability(msix::CAPABILITY, &body, &writable);
    add(&mut space, cfg_type::ISR, ISR, 1, &[]);
    let window = space.add_capability(VENDOR_CAPABILITY, &WINDOW, &WINDOW_WRITABLE);
    (space, Places { msix_control: msix + msix::CONTROL, window })
}

/// Appends a `virtio_pci_cap` with additional octets.
fn add(space: &mut ConfigSpace, kind: u8, offset: u64, len: u32, more: &[u8]) {
    let mut octets = vec![16 + more.len() as u8, kind, BAR, 0, 0, 0];
    octets.extend((offset as u32).to_le_bytes());
    octets.extend(len.to_le_bytes());
    octets.extend(more);
    space.add_capability(VENDOR_CAPABILITY, &octets, &[]);
}

/// The window's capability (section 4.1.4.9) from its third octet on; the driver writes bar, offset, length and data.
const WINDOW: [u8; 18] = [20, cfg_type::PCI, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const WINDOW_WRITABLE: [u8; 18] = {
    let mut mask = [0xff; 18];
    (mask[0], mask[1], mask[3], mask[4], mask[5]) = (0, 0, 0, 0, 0);
    mask
};
