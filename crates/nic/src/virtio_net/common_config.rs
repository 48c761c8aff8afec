//! The common configuration structure (virtio 1.2, section 4.1.4.3): features, status, queues.
//!
//! A read of any size and offset returns the octets that exist. A write changes the registers that it covers
//! completely, in the order of their offsets (a 64-bit address counts as two 32-bit registers); a register that is only
//! partly covered keeps its value, so a partial access never has a partial effect. One 8-octet write can set queue
//! size, vector and enable together.

use ring::split;

use super::features;
use crate::pci::read_registers;

/// Size of the structure in octets. `queue_notify_data` and `queue_reset` would follow; their features are not offered.
pub const LEN: usize = 56;
/// Value for "no vector" (section 4.1.5.1.2).
pub const NO_VECTOR: u16 = 0xffff;

/// Bits of the device status register (section 2.1).
pub mod status {
    /// The driver has found the device.
    pub const ACKNOWLEDGE: u8 = 1;
    /// The driver knows how to drive it.
    pub const DRIVER: u8 = 2;
    /// The driver is ready.
    pub const DRIVER_OK: u8 = 4;
    /// Feature negotiation is complete.
    pub const FEATURES_OK: u8 = 8;
    /// The device has failed and needs a reset.
    pub const DEVICE_NEEDS_RESET: u8 = 64;
    /// The driver has given up the device.
    pub const FAILED: u8 = 128;
    /// Bits that a driver may set.
    pub(super) const OF_DRIVER: u8 = ACKNOWLEDGE | DRIVER | DRIVER_OK | FEATURES_OK | FAILED;
}

/// Offsets of the registers.
pub mod register {
    /// Selects the half of the offered features that `DEVICE_FEATURE` shows; 32 bits.
    pub const DEVICE_FEATURE_SELECT: usize = 0x00;
    /// Offered features; 32 bits, read-only.
    pub const DEVICE_FEATURE: usize = 0x04;
    /// Selects the half of the accepted features that `DRIVER_FEATURE` accesses; 32 bits.
    pub const DRIVER_FEATURE_SELECT: usize = 0x08;
    /// Features accepted by the driver; 32 bits.
    pub const DRIVER_FEATURE: usize = 0x0c;
    /// Vector of configuration changes; 16 bits.
    pub const CONFIG_MSIX_VECTOR: usize = 0x10;
    /// Number of queues of the device; 16 bits, read-only.
    pub const NUM_QUEUES: usize = 0x12;
    /// Device status, bits of [`super::status`]; 8 bits, writing 0 resets.
    pub const DEVICE_STATUS: usize = 0x14;
    /// Changes with each change of the device configuration; 8 bits, read-only.
    pub const CONFIG_GENERATION: usize = 0x15;
    /// Selects the queue that the registers below belong to; 16 bits.
    pub const QUEUE_SELECT: usize = 0x16;
    /// Number of entries; 16 bits.
    pub const QUEUE_SIZE: usize = 0x18;
    /// Vector of the queue's interrupts; 16 bits.
    pub const QUEUE_MSIX_VECTOR: usize = 0x1a;
    /// 1 enables the queue; 16 bits.
    pub const QUEUE_ENABLE: usize = 0x1c;
    /// Number of the queue's doorbell; 16 bits, read-only.
    pub const QUEUE_NOTIFY_OFF: usize = 0x1e;
    /// Address of the descriptor table; 64 bits.
    pub const QUEUE_DESC: usize = 0x20;
    /// Address of the available ring; 64 bits.
    pub const QUEUE_DRIVER: usize = 0x28;
    /// Address of the used ring; 64 bits.
    pub const QUEUE_DEVICE: usize = 0x30;
}
use register::*;

/// Offset and size in octets of each writable register.
const WRITABLE: [(usize, usize); 15] = [
    (DEVICE_FEATURE_SELECT, 4),
    (DRIVER_FEATURE_SELECT, 4),
    (DRIVER_FEATURE, 4),
    (CONFIG_MSIX_VECTOR, 2),
    (DEVICE_STATUS, 1),
    (QUEUE_SELECT, 2),
    (QUEUE_SIZE, 2),
    (QUEUE_MSIX_VECTOR, 2),
    (QUEUE_ENABLE, 2),
    (QUEUE_DESC, 4),
    (QUEUE_DESC + 4, 4),
    (QUEUE_DRIVER, 4),
    (QUEUE_DRIVER + 4, 4),
    (QUEUE_DEVICE, 4),
    (QUEUE_DEVICE + 4, 4),
];

/// Consequence of a write for the rest of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// DRIVER_OK: serve the enabled queues.
    Started,
    /// Serve no queue from now on.
    Stopped,
    /// The device is in its power-on state.
    Reset,
    /// The interrupt vector of a queue has changed.
    QueueVector(u16),
}

/// Registers of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    layout: split::Layout,
    vector: u16,
    enabled: bool,
}

impl Queue {
    const fn at_reset(size: u16) -> Self {
        let layout = split::Layout { size, descriptors: 0, available: 0, used: 0 };
        Self { layout, vector: NO_VECTOR, enabled: false }
    }

    fn address(&mut self, register: usize) -> &mut u64 {
        match register & !4 {
            QUEUE_DESC => &mut self.layout.descriptors,
            QUEUE_DRIVER => &mut self.layout.available,
            _ => &mut self.layout.used,
        }
    }
}

/// State of the structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommonConfig {
    offered: u64,
    vectors: u16,
    size_max: u16,
    device_feature_select: u32,
    driver_feature_select: u32,
    picked: u64,
    config_vector: u16,
    status: u8,
    generation: u8,
    queue_select: u16,
    queues: Vec<Queue>,
}

impl CommonConfig {
    /// Creates the state at power-on: the device offers these features and has `queues` queues of at most `size_max`
    /// entries, and `vectors` MSI-X vectors.
    pub(super) fn new(offered: u64, queues: u16, size_max: u16, vectors: u16) -> Self {
        Self {
            offered,
            vectors,
            size_max,
            device_feature_select: 0,
            driver_feature_select: 0,
            picked: 0,
            config_vector: NO_VECTOR,
            status: 0,
            generation: 0,
            queue_select: 0,
            queues: vec![Queue::at_reset(size_max); usize::from(queues)],
        }
    }

    /// Returns the features that the driver accepted; final once FEATURES_OK is set.
    pub(super) fn picked(&self) -> u64 {
        self.picked
    }

    /// Returns true if the queues are served: DRIVER_OK is set, and neither side has failed.
    pub(super) fn running(&self) -> bool {
        let gone = status::FAILED | status::DEVICE_NEEDS_RESET;
        self.status & (status::DRIVER_OK | gone) == status::DRIVER_OK
    }

    /// Returns true if the driver has set DRIVER_OK.
    pub(super) fn driver_ok(&self) -> bool {
        self.status & status::DRIVER_OK != 0
    }

    /// Returns number, layout and vector of each enabled queue.
    pub(super) fn enabled(&self) -> impl Iterator<Item = (u16, split::Layout, Option<u16>)> + '_ {
        let enabled = (0_u16..).zip(&self.queues).filter(|(_, queue)| queue.enabled);
        enabled.map(|(index, queue)| (index, queue.layout, vector(queue.vector)))
    }

    /// Returns true if the queue exists and the driver has enabled it.
    pub(super) fn is_enabled(&self, queue: u16) -> bool {
        self.queues.get(usize::from(queue)).is_some_and(|queue| queue.enabled)
    }

    /// Returns the vector of a queue, if it has one.
    pub(super) fn queue_vector(&self, queue: u16) -> Option<u16> {
        vector(self.queues.get(usize::from(queue))?.vector)
    }

    /// Returns the vector for configuration changes, if there is one.
    pub(super) fn config_vector(&self) -> Option<u16> {
        vector(self.config_vector)
    }

    /// Records a change of the device configuration.
    pub(super) fn next_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Sets DEVICE_NEEDS_RESET; returns true if it was not set before.
    pub(super) fn set_needs_reset(&mut self) -> bool {
        let first = self.status & status::DEVICE_NEEDS_RESET == 0;
        self.status |= status::DEVICE_NEEDS_RESET;
        first
    }

    /// Reads any number of octets.
    pub(super) fn read(&self, offset: u64, data: &mut [u8]) {
        read_registers(&self.image(), offset, data);
    }

    /// Writes any number of octets, and appends the consequences to `events`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], events: &mut Vec<Event>) {
        let Ok(start) = usize::try_from(offset) else { return };
        for (register, width) in WRITABLE {
            let covered = register.checked_sub(start).and_then(|at| data.get(at..at + width));
            if let Some(octets) = covered {
                let mut value = [0; 4];
                value[..width].copy_from_slice(octets);
                self.set(register, u32::from_le_bytes(value), events);
            }
        }
    }

    fn image(&self) -> [u8; LEN] {
        let mut image = [0; LEN];
        let mut put = |at: usize, octets: &[u8]| image[at..at + octets.len()].copy_from_slice(octets);
        put(DEVICE_FEATURE_SELECT, &self.device_feature_select.to_le_bytes());
        put(DEVICE_FEATURE, &half(self.offered, self.device_feature_select).to_le_bytes());
        put(DRIVER_FEATURE_SELECT, &self.driver_feature_select.to_le_bytes());
        put(DRIVER_FEATURE, &half(self.picked, self.driver_feature_select).to_le_bytes());
        put(CONFIG_MSIX_VECTOR, &self.config_vector.to_le_bytes());
        put(NUM_QUEUES, &(self.queues.len() as u16).to_le_bytes());
        put(DEVICE_STATUS, &[self.status, self.generation]);
        put(QUEUE_SELECT, &self.queue_select.to_le_bytes());
        // A queue that does not exist has size 0 (section 4.1.4.3.1) and no other registers.
        if let Some(queue) = self.queues.get(usize::from(self.queue_select)) {
            put(QUEUE_SIZE, &queue.layout.size.to_le_bytes());
            put(QUEUE_MSIX_VECTOR, &queue.vector.to_le_bytes());
            put(QUEUE_ENABLE, &u16::from(queue.enabled).to_le_bytes());
            put(QUEUE_NOTIFY_OFF, &self.queue_select.to_le_bytes());
            put(QUEUE_DESC, &queue.layout.descriptors.to_le_bytes());
            put(QUEUE_DRIVER, &queue.layout.available.to_le_bytes());
            put(QUEUE_DEVICE, &queue.layout.used.to_le_bytes());
        }
        image
    }

    fn set(&mut self, register: usize, value: u32, events: &mut Vec<Event>) {
        match register {
            DEVICE_FEATURE_SELECT => self.device_feature_select = value,
            DRIVER_FEATURE_SELECT => self.driver_feature_select = value,
            DRIVER_FEATURE => self.pick(value),
            CONFIG_MSIX_VECTOR => self.config_vector = self.existing_vector(value as u16),
            DEVICE_STATUS => self.set_status(value as u8, events),
            QUEUE_SELECT => self.queue_select = value as u16,
            _ => self.set_queue(register, value, events),
        }
    }

    /// Sets accepted features. They cannot change after FEATURES_OK (section 3.1.1, step 5); bits beyond 63 are
    /// ignored.
    fn pick(&mut self, value: u32) {
        if self.status & status::FEATURES_OK == 0 && self.driver_feature_select < 2 {
            let shift = 32 * self.driver_feature_select;
            self.picked = self.picked & !(0xffff_ffff << shift) | u64::from(value) << shift;
        }
    }

    /// Returns the vector, or NO_VECTOR if there is no such vector (section 4.1.5.1.2.1).
    fn existing_vector(&self, value: u16) -> u16 {
        if value < self.vectors { value } else { NO_VECTOR }
    }

    /// Writes the status. Bits can only be added, except by a reset (section 2.1.1).
    fn set_status(&mut self, value: u8, events: &mut Vec<Event>) {
        if value == 0 {
            return self.reset(events);
        }
        let was_running = self.running();
        let added = value & status::OF_DRIVER & !self.status;
        self.status |= added & (status::ACKNOWLEDGE | status::DRIVER | status::FAILED);
        if added & status::FEATURES_OK != 0 && features::acceptable(self.offered, self.picked) {
            self.status |= status::FEATURES_OK;
        }
        if added & status::DRIVER_OK != 0 && self.status & status::FEATURES_OK != 0 {
            self.status |= status::DRIVER_OK;
        }
        match (was_running, self.running()) {
            (false, true) => events.push(Event::Started),
            (true, false) => events.push(Event::Stopped),
            _ => {}
        }
    }

    fn reset(&mut self, events: &mut Vec<Event>) {
        if self.running() {
            events.push(Event::Stopped);
        }
        let (queues, generation) = (self.queues.len() as u16, self.generation);
        *self = Self { generation, ..Self::new(self.offered, queues, self.size_max, self.vectors) };
        events.push(Event::Reset);
    }

    /// Writes a register of a queue. Once a queue is enabled, only its vector can change; a queue cannot be enabled
    /// while the device runs, and only a reset disables it (section 4.1.4.3.2).
    fn set_queue(&mut self, register: usize, value: u32, events: &mut Vec<Event>) {
        let (index, ready) = (self.queue_select, self.driver_ok());
        let vector = self.existing_vector(value as u16);
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        match register {
            QUEUE_MSIX_VECTOR => {
                if std::mem::replace(&mut queue.vector, vector) != vector {
                    events.push(Event::QueueVector(index));
                }
            }
            _ if queue.enabled || ready => {}
            QUEUE_ENABLE => queue.enabled = value == 1,
            QUEUE_SIZE => {
                if value.is_power_of_two() && value <= u32::from(self.size_max) {
                    queue.layout.size = value as u16;
                }
            }
            _ => {
                let shift = 8 * (register & 4);
                let address = queue.address(register);
                *address = *address & !(0xffff_ffff << shift) | u64::from(value) << shift;
            }
        }
    }
}

/// Returns the half of a feature word that a select register selects; 0 beyond bit 63.
fn half(bits: u64, select: u32) -> u32 {
    match select {
        0 => bits as u32,
        1 => (bits >> 32) as u32,
        _ => 0,
    }
}

fn vector(value: u16) -> Option<u16> {
    (value != NO_VECTOR).then_some(value)
}
