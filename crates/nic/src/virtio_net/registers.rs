//! Where the structures lie in BAR 0, and the capabilities that tell the driver (virtio 1.2, section 4.1.4).
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
//! Every access costs the guest an exit. So all lies behind one BAR, all capabilities can be read by 8 octets at a
//! time, and those that a driver needs come first: common, doorbells, device, MSI-X; then ISR and the window.

use super::{common_config, device_config};
use crate::pci::{ConfigSpace, Identity, Msix, msix};

/// The BAR.
pub const BAR: u8 = 0;
/// Its octets.
pub const BAR_LEN: u32 = 0x4000;
/// Where the common configuration lies.
pub const COMMON: u64 = 0x0000;
/// Where the ISR status lies.
pub const ISR: u64 = 0x0080;
/// Where the device configuration lies.
pub const DEVICE: u64 = 0x0100;
/// Where the doorbells lie.
pub const NOTIFY: u64 = 0x1000;
/// Octets from one doorbell to the next.
pub const NOTIFY_MULTIPLIER: u32 = 4;
/// Where the MSI-X table lies.
pub const MSIX_TABLE: u64 = 0x2000;
/// Where the MSI-X pending bits lie.
pub const MSIX_PENDING: u64 = 0x3000;

/// Where the BAR ends.
pub const END: u64 = BAR_LEN as u64;

/// Identifier of a vendor's capability.
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
    /// The window onto the BAR in configuration space.
    pub const PCI: u8 = 5;
}

/// Red Hat, as virtio demands (section 4.1.2).
pub const VENDOR: u16 = 0x1af4;
/// virtio-net, not transitional: 0x1040 + device type 1.
pub const DEVICE_ID: u16 = 0x1041;
const ETHERNET: u32 = 0x02_0000;

/// Octet of the window's capability that names a BAR.
pub const WINDOW_BAR: u16 = 4;
/// Where the offset behind that BAR lies in the window's capability; 32 bits.
pub const WINDOW_OFFSET: u16 = 8;
/// Where the number of octets lies: 1, 2 or 4; 32 bits.
pub const WINDOW_LENGTH: u16 = 12;
/// Where the data lie; 32 bits.
pub const WINDOW_DATA: usize = 16;

/// Where the capabilities that change at run time ended up in configuration space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Control register of MSI-X.
    pub(super) msix_control: u16,
    /// First octet of the window's capability.
    pub(super) window: u16,
}

/// Configuration space of a device with so many queues.
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

/// Appends a `virtio_pci_cap` and what follows it.
fn add(space: &mut ConfigSpace, kind: u8, offset: u64, len: u32, more: &[u8]) {
    let mut octets = vec![16 + more.len() as u8, kind, BAR, 0, 0, 0];
    octets.extend((offset as u32).to_le_bytes());
    octets.extend(len.to_le_bytes());
    octets.extend(more);
    space.add_capability(VENDOR_CAPABILITY, &octets, &[]);
}

/// The window's capability (section 4.1.4.9) from its third octet on: bar, offset, length and data are the driver's.
const WINDOW: [u8; 18] = [20, cfg_type::PCI, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const WINDOW_WRITABLE: [u8; 18] = {
    let mut mask = [0xff; 18];
    (mask[0], mask[1], mask[3], mask[4], mask[5]) = (0, 0, 0, 0, 0);
    mask
};
