//! virtio-net over PCI (virtio 1.2, sections 4.1 and 5.1).
//!
//! The registers ([`VirtioNet`]) are a state machine that knows no queue memory: each access ends in [`Effect`]s,
//! orders to the VMM, which takes them and carries them out before the guest goes on. The data path ([`rx`], [`tx`])
//! works on queues that an [`Effect::Started`] describes, in other threads.
//!
//! Life of a device:
//! 1. The VMM places BAR 0 by writing to configuration space, as a firmware would.
//! 2. The driver enables memory decoding: [`Effect::BarsMoved`]; the VMM puts an ioeventfd at each
//!    [`VirtioNet::doorbell`].
//! 3. It fills the MSI-X table: [`Effect::VectorChanged`]; the VMM routes each vector's irqfd.
//! 4. It negotiates and sets queues up, which is nobody else's business, until DRIVER_OK: [`Effect::Started`].
//! 5. Reset, FAILED or [`VirtioNet::fail`]: [`Effect::Stopped`].
//!
//! There is no INTx: without MSI-X a driver has to poll, and the ISR register tells configuration changes only.

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

/// A virtio-net device.
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
    /// A device at power-on, its link up, its BAR not placed.
    pub fn new(config: &NicConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let queues = config.queues();
        // One vector a queue and one for configuration changes.
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

    /// Queues that the device has: receive and transmit in turn, then the control queue if there is one.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// MSI-X vectors that the device has.
    pub fn vectors(&self) -> u16 {
        self.msix.len()
    }

    /// The orders since the last call, in their order. To be called after each access.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Guest-physical address that a queue's driver writes to after it made buffers available: any value, up to 4
    /// octets. `None` while the BAR is not decoded, or if there is no such queue.
    pub fn doorbell(&self, queue: u16) -> Option<u64> {
        let bar = self.pci.bar(registers::BAR)?;
        let offset = registers::NOTIFY + u64::from(queue) * u64::from(registers::NOTIFY_MULTIPLIER);
        (queue < self.queues).then_some(bar.address + offset)
    }

    /// What an MSI-X vector sends; `None` while it is masked or MSI-X is disabled.
    pub fn message(&self, vector: u16) -> Option<Message> {
        self.msix.message(vector)
    }

    /// The vector by which a queue interrupts, if the driver gave it one.
    pub fn queue_vector(&self, queue: u16) -> Option<u16> {
        self.common.queue_vector(queue)
    }

    /// Features that the driver picked so far.
    pub fn picked_features(&self) -> u64 {
        self.common.picked()
    }

    /// Whether the queues are served: the driver said DRIVER_OK, and neither side has given up.
    pub fn running(&self) -> bool {
        self.common.running()
    }

    /// Pairs of queues that the driver uses: frames go to receive queues of these pairs only.
    pub fn active_pairs(&self) -> u16 {
        self.active_pairs
    }

    /// Pulls the cable out or plugs it in. The driver is told by a configuration interrupt.
    pub fn set_link(&mut self, up: bool) {
        if std::mem::replace(&mut self.device.link_up, up) != up {
            self.common.next_generation();
            if self.common.picked() & features::STATUS != 0 {
                self.notify_config();
            }
        }
    }

    /// The device cannot go on, because a queue is broken (section 2.1.2): the driver sees DEVICE_NEEDS_RESET.
    pub fn fail(&mut self) {
        let was_running = self.common.running();
        if self.common.set_needs_reset() {
            if was_running {
                self.effects.push(Effect::Stopped);
            }
            self.notify_config();
        }
    }

    /// Interrupts the driver for a queue, where the caller has no irqfd at hand: an [`Effect::Interrupt`] now, or
    /// when the vector is unmasked.
    pub fn signal_queue(&mut self, queue: u16) {
        if let Some(vector) = self.common.queue_vector(queue) {
            self.signal(vector);
        }
    }

    /// Executes a command of the control queue: the octets that the driver made readable
    /// ([`ControlQueue::serve`] gathers them).
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

    /// Only what was agreed on can be switched off and on (section 5.1.6.5.6.1).
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

    /// What a queue is for. The control queue follows the pairs that the driver knows of: one without MQ
    /// (section 5.1.2).
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

    /// A configuration change notification (section 4.1.5.4), which only a live driver gets.
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

    /// The address names the queue; the value is not looked at. Queues that are not served have no bell.
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

    /// Whether an access to configuration space touches the window's data register.
    fn touches_window(&self, offset: u16, len: usize) -> bool {
        let data = usize::from(self.places.window) + registers::WINDOW_DATA;
        let offset = usize::from(offset);
        offset < data + 4 && data < offset.saturating_add(len)
    }

    /// BAR, offset and length that the window shows (section 4.1.4.9.1): 1, 2 or 4 octets at a multiple of that.
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
