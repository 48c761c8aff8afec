//! Host bridge in slot 0 of a PC's PCI bus, by which a kernel recognises that there is such a bus: Intel's
//! 440FX, which needs no driver.

use nic::pci::{ConfigSpace, Identity};

use crate::bus::BusDevice;

const BRIDGE: u32 = 0x06_0000;

/// The bridge.
pub(super) struct HostBridge(ConfigSpace);

impl HostBridge {
    pub(super) fn new() -> Self {
        Self(ConfigSpace::new(&Identity {
            vendor: 0x8086,
            device: 0x1237,
            revision: 2,
            class: BRIDGE,
            subsystem_vendor: 0,
            subsystem: 0,
        }))
    }
}

impl BusDevice for HostBridge {
    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.0.read(offset, data);
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) {
        self.0.write(offset, data);
    }

    fn memory_read(&mut self, _address: u64, _data: &mut [u8]) -> bool {
        false
    }

    fn memory_write(&mut self, _address: u64, _data: &[u8]) -> bool {
        false
    }
}
