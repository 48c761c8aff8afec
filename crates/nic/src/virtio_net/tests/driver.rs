//! A driver written from the specification: it uses only the information that it reads from the device, and
//! counts its accesses.

use std::collections::BTreeMap;

use ring::split::Layout;

use super::*;
use crate::pci::msix;
use register::*;

/// Location of a structure behind BAR 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
}

pub(super) struct Driver {
    pub(super) nic: VirtioNet,
    /// Effects not examined yet.
    pub(super) effects: Vec<Effect>,
    /// Number of register accesses so far.
    pub(super) accesses: usize,
    /// Structures by `cfg_type`.
    pub(super) places: BTreeMap<u8, Place>,
    pub(super) notify_multiplier: u64,
    pub(super) msix_at: u16,
    pub(super) msix_table: u64,
}

impl Driver {
    /// Finds the device (section 4.1.4.1) after a firmware has placed its BAR.
    pub(super) fn probe(mut nic: VirtioNet) -> Self {
        nic.config_write(0x10, &(BAR_AT as u32).to_le_bytes());
        let (places, effects) = (BTreeMap::new(), Vec::new());
        let mut driver =
            Self { nic, effects, accesses: 0, places, notify_multiplier: 0, msix_at: 0, msix_table: 0 };
        let [vendor, device] = [0, 16].map(|shift| (driver.config(0) >> shift) as u16);
        assert_eq!((vendor, device), (0x1af4, 0x1041));
        driver.walk_capabilities();
        // Memory space and bus master.
        driver.set_config(0x04, &[6, 0]);
        driver.set_config(driver.msix_at + msix::CONTROL, &msix::CONTROL_ENABLE.to_le_bytes());
        driver
    }

    fn walk_capabilities(&mut self) {
        let mut at = self.config(0x34) as u16 & 0xff;
        while at != 0 {
            let [id, next, _, kind, bar, ..] = self.config(at).to_le_bytes();
            let second = self.config(at + 8);
            if id == msix::CAPABILITY {
                self.msix_at = at;
                self.msix_table = (self.config(at) >> 32) & !7;
            } else if id == registers::VENDOR_CAPABILITY && bar == 0 {
                let place = Place { offset: second & 0xffff_ffff, len: second >> 32 };
                self.places.entry(kind).or_insert(place);
                if kind == registers::cfg_type::NOTIFY {
                    self.notify_multiplier = self.config(at + 16) & 0xffff_ffff;
                }
            }
            at = u16::from(next);
        }
    }

    pub(super) fn config(&mut self, offset: u16) -> u64 {
        let mut data = [0; 8];
        self.accesses += 1;
        self.nic.config_read(offset, &mut data);
        u64::from_le_bytes(data)
    }

    pub(super) fn set_config(&mut self, offset: u16, data: &[u8]) {
        self.accesses += 1;
        self.nic.config_write(offset, data);
        self.effects.append(&mut self.nic.take_effects());
    }

    pub(super) fn read<const N: usize>(&mut self, offset: u64) -> [u8; N] {
        let mut data = [0xee; N];
        self.accesses += 1;
        self.nic.bar_read(0, offset, &mut data);
        data
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.accesses += 1;
        self.nic.bar_write(0, offset, data);
        self.effects.append(&mut self.nic.take_effects());
    }

    fn common(&self, register: usize) -> u64 {
        self.places[&registers::cfg_type::COMMON].offset + register as u64
    }

    pub(super) fn get16(&mut self, register: usize) -> u16 {
        u16::from_le_bytes(self.read(self.common(register)))
    }

    pub(super) fn get32(&mut self, register: usize) -> u32 {
        u32::from_le_bytes(self.read(self.common(register)))
    }

    pub(super) fn set16(&mut self, register: usize, value: u16) {
        self.write(self.common(register), &value.to_le_bytes());
    }

    pub(super) fn set32(&mut self, register: usize, value: u32) {
        self.write(self.common(register), &value.to_le_bytes());
    }

    pub(super) fn set64(&mut self, register: usize, value: u64) {
        self.write(self.common(register), &value.to_le_bytes());
    }

    pub(super) fn status(&mut self) -> u8 {
        let [status] = self.read(self.common(DEVICE_STATUS));
        status
    }

    pub(super) fn set_status(&mut self, status: u8) {
        self.write(self.common(DEVICE_STATUS), &[status]);
    }

    /// Returns the effects since the last call.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn offered(&mut self) -> u64 {
        let halves = [0, 1].map(|select| {
            self.set32(DEVICE_FEATURE_SELECT, select);
            u64::from(self.get32(DEVICE_FEATURE))
        });
        halves[0] | halves[1] << 32
    }

    pub(super) fn pick(&mut self, features: u64) {
        for select in [0, 1_u64] {
            // Writes select and value by one access.
            self.set64(DRIVER_FEATURE_SELECT, select | (features >> (32 * select)) << 32);
        }
    }

    /// Performs steps 1 to 6 of section 3.1.1; returns true if the device accepted the features.
    pub(super) fn negotiate(&mut self, features: u64) -> bool {
        self.set_status(0);
        while self.status() != 0 {}
        self.set_status(status::ACKNOWLEDGE);
        self.set_status(status::ACKNOWLEDGE | status::DRIVER);
        self.pick(features);
        let settled = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;
        self.set_status(settled);
        self.status() == settled
    }

    pub(super) fn set_vector(&mut self, vector: u16, message: Message) {
        let entry = self.msix_table + 16 * u64::from(vector);
        self.write(entry, &message.address.to_le_bytes());
        self.write(entry + 8, &u64::from(message.data).to_le_bytes());
    }

    /// Sets a queue up (section 4.1.5.1.3) with vector `queue + 1`; returns the offset of its doorbell behind
    /// the BAR.
    pub(super) fn set_queue_up(&mut self, queue: u16, layout: &Layout) -> u64 {
        self.set16(QUEUE_SELECT, queue);
        let [max, _, _, notify_off] = self.read_words(QUEUE_SIZE);
        assert!(max >= layout.size, "queue {queue} exists");
        self.set64(QUEUE_DESC, layout.descriptors);
        self.set64(QUEUE_DRIVER, layout.available);
        self.set64(QUEUE_DEVICE, layout.used);
        // Writes size, vector and enable by one access.
        self.set64(QUEUE_SIZE, u64::from(layout.size) | u64::from(queue + 1) << 16 | 1 << 32);
        let notify = self.places[&registers::cfg_type::NOTIFY];
        let doorbell = u64::from(notify_off) * self.notify_multiplier;
        assert!(doorbell + 2 <= notify.len);
        notify.offset + doorbell
    }

    pub(super) fn read_words(&mut self, register: usize) -> [u16; 4] {
        let value = u64::from_le_bytes(self.read(self.common(register)));
        [0, 16, 32, 48].map(|shift| (value >> shift) as u16)
    }

    /// Performs steps 7 and 8: sets up `queues` queues of 256 entries, and DRIVER_OK.
    pub(super) fn start(&mut self, queues: u16) {
        self.set16(CONFIG_MSIX_VECTOR, 0);
        for queue in 0..queues {
            self.set_queue_up(queue, &layout(queue));
        }
        self.set_status(0x0f);
    }

    /// Creates a driver whose device runs with all the features and queues that it offers.
    pub(super) fn running(nic: VirtioNet) -> Self {
        let mut driver = Self::probe(nic);
        let features = driver.offered();
        assert!(driver.negotiate(features));
        for vector in 0..driver.nic.vectors() {
            driver.set_vector(vector, message(vector));
        }
        driver.start(driver.nic.queues());
        assert_eq!(driver.status(), 0x0f);
        driver.take_effects();
        driver
    }
}

/// Returns the location of a queue in the tests.
pub(super) fn layout(queue: u16) -> Layout {
    Layout::contiguous(256, 0x80_0000 + 0x1_0000 * u64::from(queue))
}

/// Returns the message of a vector in the tests.
pub(super) fn message(vector: u16) -> Message {
    Message { address: 0xfee0_0000, data: 0x30 + u32::from(vector) }
}
