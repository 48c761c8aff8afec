//! A driver that reads and writes registers at random: the device never panics, its effects contain everything that
//! the VMM must know, and a reset restores its power-on state.
//!
//! The input consists of an octet with the initial configuration, then steps of 11 octets: the action and its
//! number of octets, an offset (16 bits), and 8 octets of data.

use nic::pci::{BarWindow, Message, PciFunction};
use nic::virtio_net::{Effect, NicConfig, VirtioNet, register};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Length of the common configuration and the part behind it.
const COMMON_LEN: usize = 64;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&kind, steps)) = input.split_first() else { return };
    let config =
        NicConfig { queue_pairs: 1 + u16::from(kind & 3), in_order: kind & 4 != 0, ..NicConfig::new(MAC) };
    let mut device = Device::new(&config);
    if kind & 0x80 != 0 {
        device.bring_up();
    }
    for step in steps.as_chunks::<11>().0 {
        device.step(step);
        device.check();
    }
    device.reset(&config);
}

/// The device, and the state that the VMM derives from its effects alone.
struct Device {
    nic: VirtioNet,
    running: bool,
    pairs: u16,
    messages: Vec<Option<Message>>,
    bars: Vec<BarWindow>,
}

impl Device {
    fn new(config: &NicConfig) -> Self {
        let nic = VirtioNet::new(config).expect("a good configuration");
        let messages = vec![None; usize::from(nic.vectors())];
        Self { nic, running: false, pairs: 1, messages, bars: Vec::new() }
    }

    /// Sets up BAR, decoding, MSI-X, features, queue 0, and DRIVER_OK.
    fn bring_up(&mut self) {
        self.nic.config_write(0x10, &0xe010_0000_u32.to_le_bytes());
        self.nic.config_write(0x04, &[6, 0]);
        self.nic.config_write(0x7a, &[0, 0x80]);
        for select in [0_u32, 1] {
            self.nic.bar_write(0, register::DEVICE_FEATURE_SELECT as u64, &select.to_le_bytes());
            let mut features = [0; 4];
            self.nic.bar_read(0, register::DEVICE_FEATURE as u64, &mut features);
            self.nic.bar_write(0, register::DRIVER_FEATURE_SELECT as u64, &select.to_le_bytes());
            self.nic.bar_write(0, register::DRIVER_FEATURE as u64, &features);
        }
        self.nic.bar_write(0, register::QUEUE_ENABLE as u64, &[1, 0]);
        self.nic.bar_write(0, register::DEVICE_STATUS as u64, &[0x0f]);
        self.check();
        assert!(self.running);
    }

    fn step(&mut self, step: &[u8; 11]) {
        let [what, low, high, data @ ..] = step;
        let offset = u16::from_le_bytes([*low, *high]);
        let mut data = *data;
        let data = &mut data[..usize::from(what >> 4).min(8)];
        match what & 0xf {
            0 => self.nic.config_read(offset & 0xfff, data),
            1 | 2 => self.nic.config_write(offset & 0x1ff, data),
            3 => self.nic.config_write(offset, data),
            4 => self.nic.bar_read(0, u64::from(offset), data),
            5 => self.nic.bar_read(low & 7, u64::MAX - u64::from(*high), data),
            6 => self.nic.bar_write(low & 7, u64::MAX - u64::from(*high), data),
            7 => self.nic.bar_write(0, 0x2000 + u64::from(offset & 0xff), data),
            8 => self.nic.bar_write(0, 0x1000 + u64::from(*low), data),
            9 => self.nic.bar_write(0, u64::from(offset), data),
            10 => self.nic.set_link(low & 1 != 0),
            11 => drop(self.nic.control(data)),
            12 => self.nic.signal_queue(offset),
            13 => self.nic.fail(),
            _ => self.nic.bar_write(0, u64::from(low & 0x3f), data),
        }
    }

    /// Processes the effects and compares the states.
    fn check(&mut self) {
        for effect in self.nic.take_effects() {
            self.follow(effect);
        }
        assert_eq!(self.running, self.nic.running());
        assert_eq!(self.bars, self.nic.bars());
        assert_eq!(self.nic.doorbell(0).is_some(), !self.bars.is_empty());
        for (n, message) in (0..).zip(&self.messages) {
            assert_eq!(*message, self.nic.message(n));
        }
        if self.running {
            assert_eq!(self.pairs, self.nic.active_pairs());
        }
    }

    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::Started(start) => {
                assert!(!self.running);
                assert!(start.queues.iter().all(|queue| queue.index < self.nic.queues()));
                (self.running, self.pairs) = (true, 1);
            }
            Effect::Stopped => assert!(std::mem::replace(&mut self.running, false)),
            Effect::Kicked(queue) => assert!(self.running && queue < self.nic.queues()),
            Effect::VectorChanged(n) => self.messages[usize::from(n)] = self.nic.message(n),
            Effect::QueueVectorChanged(queue) => assert!(queue < self.nic.queues()),
            Effect::Interrupt { vector, message } => assert_eq!(self.nic.message(vector), Some(message)),
            Effect::PairsChanged(pairs) => self.pairs = pairs,
            Effect::OffloadsChanged(takes) => assert_eq!(takes, takes.consistent()),
            Effect::BarsMoved => self.bars = self.nic.bars(),
        }
    }

    fn reset(&mut self, config: &NicConfig) {
        self.nic.bar_write(0, register::DEVICE_STATUS as u64, &[0]);
        self.check();
        let mut fresh = VirtioNet::new(config).expect("a good configuration");
        let (mut now, mut then) = ([0; COMMON_LEN], [0; COMMON_LEN]);
        self.nic.bar_read(0, 0, &mut now);
        fresh.bar_read(0, 0, &mut then);
        now[register::CONFIG_GENERATION] = 0;
        assert_eq!(now, then);
    }
}
