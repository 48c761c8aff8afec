//! virtio-net over PCI (virtio 1.2, sections 4.1 and 5.1).
//!
//! The registers ([`VirtioNet`]) are a state machine without access to queue memory: each access yields [`Effect`]s,
//! requests that the VMM takes and handles before the guest continues. The data path ([`rx`], [`tx`]) works in other
//! threads, on the queues that an [`Effect::Started`] describes.
//!
//! Life of a device:
//! 1. The VMM places BAR 0 by writing to configuration space, as a firmware would.
//! 2. The driver enables memory decoding: [`Effect::BarsMoved`]; the VMM registers an ioeventfd at each
//!    [`VirtioNet::doorbell`].
//! 3. It fills the MSI-X table: [`Effect::VectorChanged`]; the VMM routes each vector's irqfd.
//! 4. It negotiates features and sets queues up, without effects, until DRIVER_OK: [`Effect::Started`].
//! 5. Reset, FAILED or [`VirtioNet::fail`]: [`Effect::Stopped`].
//!
//! There is no INTx: without MSI-X a driver has to poll, and the ISR register reports configuration changes only.

mod common_config;
mod config;
mod control_queue;
mod device_config;
mod effect;
pub mod features;
pub mod registers;
pub mod rx;
#[cfg(test)]
mod test_guest;
pub mod tx;

pub use common_config::{LEN as COMMON_CONFIG_LEN, NO_VECTOR, register, status};
pub use config::{ConfigError, MAX_QUEUE_PAIRS, MAX_QUEUE_SIZE, MIN_MTU, NicConfig};
pub use control_queue::{
    Ack, CLASS_GUEST_OFFLOADS, CLASS_MQ, COMMAND_LEN_MAX, ControlQueue, GUEST_OFFLOADS_SET, MQ_VQ_PAIRS_SET,
};
pub use device_config::{LEN as DEVICE_CONFIG_LEN, LINK_UP};
pub use effect::{Effect, QueueRole, QueueSetup, Start};

use common_config::{CommonConfig, Event};
use control_queue::Command;
use device_config::DeviceConfig;
use registers::Places;

use crate::pci::{BarWindow, ConfigSpace, Message, Msix, PciFunction, read_registers};

/// Bit of the ISR register: the device configuration has changed.
const ISR_CONFIG: u8 = 2;

/// The register model of a virtio-net device.
#[derive(Clone, Debug)]
pub struct VirtioNet {
    pci: ConfigSpace,
    places: Places,
    msix: Msix,
    common: CommonConfig,
    device: DeviceConfig,
    isr: u8,
    active_pairs: u16,
    queues: u16,
    effects: Vec<Effect>,
}

impl VirtioNet {
    /// Creates a device at power-on: link up, BAR without an address.
    pub fn new(config: &NicConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let queues = config.queues();
        // One vector for each queue and one for configuration changes.
        let msix = Msix::new(queues + 1);
        let (pci, places) = registers::config_space(queues, &msix);
        Ok(Self {
            pci,
            places,
            common: CommonConfig::new(config.offered(), queues, config.queue_size_max, msix.len()),
            msix,
            device: DeviceConfig {
                mac: config.mac,
                link_up: true,
                queue_pairs: config.queue_pairs,
                mtu: config.mtu,
            },
            isr: 0,
            active_pairs: 1,
            queues,
            effects: Vec::new(),
        })
    }

    /// Returns the number of queues: receive and transmit alternating, then the control queue if there is one.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// Returns the number of MSI-X vectors.
    pub fn vectors(&self) -> u16 {
        self.msix.len()
    }

    /// Returns the requests made since the last call, in order. Must be called after each access.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns the guest-physical address of a queue's doorbell, which the driver writes after it made buffers
    /// available: any value, up to 4 octets. `None` while the BAR is not decoded, or if there is no such queue.
    pub fn doorbell(&self, queue: u16) -> Option<u64> {
        let bar = self.pci.bar(registers::BAR)?;
        let offset = registers::NOTIFY + u64::from(queue) * u64::from(registers::NOTIFY_MULTIPLIER);
        (queue < self.queues).then_some(bar.address + offset)
    }

    /// Returns the message of an MSI-X vector; `None` while it is masked or MSI-X is disabled.
    pub fn message(&self, vector: u16) -> Option<Message> {
        self.msix.message(vector)
    }

    /// Returns the interrupt vector of a queue, if the driver set one.
    pub fn queue_vector(&self, queue: u16) -> Option<u16> {
        self.common.queue_vector(queue)
    }

    /// Returns the features that the driver has accepted so far.
    pub fn picked_features(&self) -> u64 {
        self.common.picked()
    }

    /// Returns true if the queues are served: DRIVER_OK is set, and neither side has failed.
    pub fn running(&self) -> bool {
        self.common.running()
    }

    /// Returns true if the driver has set DRIVER_OK since its last reset, even if a side has failed since: then it
    /// may be interrupted.
    pub fn driver_ok(&self) -> bool {
        self.common.driver_ok()
    }

    /// Returns how many queue pairs the driver uses: frames may go to receive queues of these pairs only.
    pub fn active_pairs(&self) -> u16 {
        self.active_pairs
    }

    /// Unplugs or plugs the cable. The driver gets a configuration interrupt.
    pub fn set_link(&mut self, up: bool) {
        if std::mem::replace(&mut self.device.link_up, up) != up {
            self.common.next_generation();
            if self.common.picked() & features::STATUS != 0 {
                self.notify_config();
            }
        }
    }

    /// Marks the device as failed because a queue is broken (section 2.1.2): the driver sees DEVICE_NEEDS_RESET.
    pub fn fail(&mut self) {
        let was_running = self.common.running();
        if self.common.set_needs_reset() {
            if was_running {
                self.effects.push(Effect::Stopped);
            }
            self.notify_config();
        }
    }

    /// Interrupts the driver for a queue, for a caller without an irqfd: yields an [`Effect::Interrupt`] now, or when
    /// the vector is unmasked.
    pub fn signal_queue(&mut self, queue: u16) {
        if let Some(vector) = self.common.queue_vector(queue) {
            self.signal(vector);
        }
    }

    /// Executes a command of the control queue, given the octets that the driver made readable ([`ControlQueue::serve`]
    /// gathers them).
    pub fn control(&mut self, command: &[u8]) -> Ack {
        match Command::parse(command) {
            Some(Command::UsePairs(pairs)) if self.may_use(pairs) => {
                self.use_pairs(pairs);
                Ack::Ok
            }
            Some(Command::LeaveToDriver(bits)) if self.may_leave(bits) => {
                self.effects.push(Effect::OffloadsChanged(features::offloads_of_device(bits)));
                Ack::Ok
            }
            _ => Ack::Error,
        }
    }

    fn may_use(&self, pairs: u16) -> bool {
        self.common.running()
            && self.common.picked() & features::MQ != 0
            && (1..=self.device.queue_pairs).contains(&pairs)
    }

    /// Returns true if these offloads may be set: only negotiated ones can be switched (section 5.1.6.5.6.1).
    fn may_leave(&self, bits: u64) -> bool {
        let picked = self.common.picked();
        self.common.running()
            && picked & features::CTRL_GUEST_OFFLOADS != 0
            && bits & !(picked & features::OFFLOADS_OF_DEVICE) == 0
    }

    fn use_pairs(&mut self, pairs: u16) {
        if std::mem::replace(&mut self.active_pairs, pairs) != pairs {
            self.effects.push(Effect::PairsChanged(pairs));
        }
    }

    /// Returns the purpose of a queue. The control queue follows the pairs that the driver knows of: one pair without
    /// MQ (section 5.1.2).
    fn role(&self, queue: u16) -> Option<QueueRole> {
        let picked = self.common.picked();
        let pairs = if picked & features::MQ != 0 { self.device.queue_pairs } else { 1 };
        match queue {
            _ if queue < 2 * pairs && queue.is_multiple_of(2) => Some(QueueRole::Receive(queue / 2)),
            _ if queue < 2 * pairs => Some(QueueRole::Transmit(queue / 2)),
            _ if queue == 2 * pairs && picked & features::CTRL_VQ != 0 => Some(QueueRole::Control),
            _ => None,
        }
    }

    fn start(&self) -> Start {
        let picked = self.common.picked();
        let features = features::ring_features(picked);
        let queues = self.common.enabled().filter_map(|(index, layout, vector)| {
            self.role(index).map(|role| QueueSetup { index, role, layout, features, vector })
        });
        Start { features: picked, queues: queues.collect() }
    }

    fn signal(&mut self, vector: u16) {
        if let Some(message) = self.msix.signal(vector) {
            self.effects.push(Effect::Interrupt { vector, message });
        }
    }

    /// Sends a configuration change notification (section 4.1.5.4), if the driver has set DRIVER_OK.
    fn notify_config(&mut self) {
        if self.common.driver_ok() {
            self.isr |= ISR_CONFIG;
            if let Some(vector) = self.common.config_vector() {
                self.signal(vector);
            }
        }
    }

    fn write_common(&mut self, offset: u64, data: &[u8]) {
        let mut events = Vec::new();
        self.common.write(offset, data, &mut events);
        for event in events {
            match event {
                Event::Started => {
                    let start = self.start();
                    self.effects.push(Effect::Started(start));
                }
                Event::Stopped => self.effects.push(Effect::Stopped),
                Event::Reset => {
                    self.isr = 0;
                    self.active_pairs = 1;
                }
                Event::QueueVector(queue) if self.common.running() => {
                    self.effects.push(Effect::QueueVectorChanged(queue));
                }
                Event::QueueVector(_) => {}
            }
        }
    }

    /// Handles a doorbell write. The address selects the queue; the value is ignored, and so are doorbells of queues
    /// that are not served.
    fn write_doorbell(&mut self, offset: u64) {
        let multiplier = u64::from(registers::NOTIFY_MULTIPLIER);
        let queue = u16::try_from(offset / multiplier).unwrap_or(u16::MAX);
        let served = self.common.running() && self.common.is_enabled(queue) && self.role(queue).is_some();
        if offset.is_multiple_of(multiplier) && served {
            self.effects.push(Effect::Kicked(queue));
        }
    }

    fn vector_changed(&mut self, vector: u16) {
        self.effects.push(Effect::VectorChanged(vector));
        if let Some(message) = self.msix.take_pending(vector) {
            self.effects.push(Effect::Interrupt { vector, message });
        }
    }

    fn control_vectors(&mut self) {
        let control = self.pci.word(self.places.msix_control);
        if self.msix.set_control(control, self.pci.bus_master()) {
            let unmasked: Vec<u16> = self.msix.unmasked().collect();
            unmasked.into_iter().for_each(|vector| self.vector_changed(vector));
        }
    }

    /// Returns true if an access to configuration space touches the window's data register.
    fn touches_window(&self, offset: u16, len: usize) -> bool {
        let data = usize::from(self.places.window) + registers::WINDOW_DATA;
        let offset = usize::from(offset);
        offset < data + 4 && data < offset.saturating_add(len)
    }

    /// Returns BAR, offset and length of the window's target (section 4.1.4.9.1): 1, 2 or 4 octets at a multiple of
    /// that.
    fn window(&self) -> Option<(u8, u64, usize)> {
        let at = self.places.window;
        let bar = self.pci.word(at + registers::WINDOW_BAR) as u8;
        let offset = self.pci.double_word(at + registers::WINDOW_OFFSET);
        let len = self.pci.double_word(at + registers::WINDOW_LENGTH);
        (matches!(len, 1 | 2 | 4) && offset.is_multiple_of(len)).then_some((
            bar,
            u64::from(offset),
            len as usize,
        ))
    }

    fn read_window(&mut self) {
        if let Some((bar, offset, len)) = self.window() {
            let mut data = [0; 4];
            self.bar_read(bar, offset, &mut data[..len]);
            self.pci.store(usize::from(self.places.window) + registers::WINDOW_DATA, &data[..len]);
        }
    }

    fn write_window(&mut self) {
        if let Some((bar, offset, len)) = self.window() {
            let data = self.pci.double_word(self.places.window + registers::WINDOW_DATA as u16).to_le_bytes();
            self.bar_write(bar, offset, &data[..len]);
        }
    }
}

impl PciFunction for VirtioNet {
    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        if self.touches_window(offset, data.len()) {
            self.read_window();
        }
        self.pci.read(offset, data);
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) {
        let before = self.pci.bar(registers::BAR);
        self.pci.write(offset, data);
        if self.pci.bar(registers::BAR) != before {
            self.effects.push(Effect::BarsMoved);
        }
        self.control_vectors();
        if self.touches_window(offset, data.len()) {
            self.write_window();
        }
    }

    fn bars(&self) -> Vec<BarWindow> {
        self.pci.bars()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if bar != registers::BAR {
            return;
        }
        match offset {
            registers::COMMON..registers::ISR => self.common.read(offset - registers::COMMON, data),
            // Reading the register clears it (section 4.1.4.5).
            registers::ISR => read_registers(&[std::mem::take(&mut self.isr)], 0, data),
            registers::DEVICE..registers::NOTIFY => {
                read_registers(&self.device.image(), offset - registers::DEVICE, data);
            }
            registers::MSIX_TABLE..registers::MSIX_PENDING => {
                self.msix.table_read(offset - registers::MSIX_TABLE, data);
            }
            registers::MSIX_PENDING..registers::END => {
                self.msix.pending_read(offset - registers::MSIX_PENDING, data);
            }
            _ => {}
        }
    }

    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8]) {
        if bar != registers::BAR || data.is_empty() {
            return;
        }
        match offset {
            registers::COMMON..registers::ISR => self.write_common(offset - registers::COMMON, data),
            registers::NOTIFY..registers::MSIX_TABLE => self.write_doorbell(offset - registers::NOTIFY),
            registers::MSIX_TABLE..registers::MSIX_PENDING => {
                if let Some(vector) = self.msix.table_write(offset - registers::MSIX_TABLE, data) {
                    self.vector_changed(vector);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
