//! A driver of an 82540EM that reads and writes registers, ports and configuration space at random, while its rings raise
//! interrupts and time passes: the device never panics, its effects contain everything that the VMM must know, a
//! timekeeper that checks the pin when told to misses no interrupt, and a reset restores the registers' power-on state.
//!
//! The input consists of an octet with the initial configuration, then steps of 11 octets: the action and its number of
//! octets, a place (16 bits), and 8 octets of data.

use nic::e1000::{Config, E1000, Effect, Interrupts, cause, register};
use nic::moderation::Moderation;
use nic::pci::BarWindow;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Address of BAR 0.
const PLACE: u32 = 0xe010_0000;
/// End of the registers that do more than hold a value.
const LAST: u64 = 0x6000;
/// Registers with side effects, which would seldom be hit by chance.
const BUSY: [u64; 32] = [
    register::CTRL,
    register::STATUS,
    register::EECD,
    register::EERD,
    register::CTRL_EXT,
    register::MDIC,
    register::VET,
    register::ICR,
    register::ITR,
    register::ICS,
    register::IMS,
    register::IMC,
    register::RCTL,
    register::TCTL,
    register::PBA,
    register::RDBAL,
    register::RDBAH,
    register::RDLEN,
    register::RDH,
    register::RDT,
    register::RDTR,
    register::RADV,
    register::CSBAL,
    register::CSBAH,
    register::TDBAL,
    register::TDLEN,
    register::TDH,
    register::TDT,
    register::TIDV,
    register::TADV,
    register::TXDCTL,
    register::RXCSUM,
];

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&kind, steps)) = input.split_first() else { return };
    let moderation = match kind >> 1 & 3 {
        0 => Moderation::Off,
        1 => Moderation::Every(u16::from(kind)),
        _ => Moderation::Adaptive,
    };
    let config = Config { block: kind & 1 != 0, moderation, ..Config::new(MAC) };
    let mut device = Device::new(&config);
    if kind & 0x80 != 0 {
        device.bring_up();
    }
    for step in steps.as_chunks::<11>().0 {
        device.step(step);
        device.check();
    }
    // Only for some inputs, because it takes longer than all the rest.
    if kind & 0x40 != 0 {
        device.reset(&config);
    }
}

/// The device, and the state that the VMM derives from its effects alone.
struct Device {
    nic: E1000,
    interrupts: Interrupts,
    now: u64,
    transmits: bool,
    receives: bool,
    bars: Vec<BarWindow>,
}

impl Device {
    fn new(config: &Config) -> Self {
        let nic = E1000::new(config).expect("a good configuration");
        let interrupts = Interrupts::new(config.moderation);
        Self { nic, interrupts, now: 0, transmits: false, receives: false, bars: Vec::new() }
    }

    fn read(&mut self, offset: u64) -> u32 {
        let mut data = [0; 4];
        self.nic.memory_read(offset, &mut data, &mut self.interrupts, self.now);
        u32::from_le_bytes(data)
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.nic.memory_write(offset, &value.to_le_bytes(), &mut self.interrupts, self.now);
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.nic.config_write(offset, data, &mut self.interrupts, self.now);
    }

    /// Sets up BARs, decoding, link, rings of 256 descriptors, and interrupts.
    fn bring_up(&mut self) {
        self.write_config(0x10, &PLACE.to_le_bytes());
        self.write_config(0x14, &0xc000_u32.to_le_bytes());
        self.write_config(0x04, &[7, 0]);
        for (offset, value) in [
            (register::CTRL, register::ctrl::SLU),
            (register::RDLEN, 4096),
            (register::TDLEN, 4096),
            (register::RCTL, register::rctl::EN),
            (register::TCTL, register::tctl::EN),
            (register::IMS, cause::ALL),
        ] {
            self.write(offset, value);
        }
        self.check();
        assert!(self.transmits && self.receives && self.interrupts.line(self.now).asserted);
    }

    fn step(&mut self, step: &[u8; 11]) {
        let [what, low, high, data @ ..] = step;
        let place = u16::from_le_bytes([*low, *high]);
        let busy = BUSY[usize::from(*low) % BUSY.len()];
        let anywhere = u64::from(place) << (what >> 7);
        let value = u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
        let mut data = *data;
        let data = &mut data[..usize::from(what >> 4).min(8)];
        match what & 0xf {
            0 => self.nic.config_read(place & 0xfff, data),
            1 => self.write_config(place & 0x7f, data),
            2 => self.write_config(place, data),
            3 => self.nic.memory_read(anywhere, data, &mut self.interrupts, self.now),
            4 => self.nic.memory_write(anywhere, data, &mut self.interrupts, self.now),
            5 => self.nic.memory_read(u64::MAX - u64::from(*high), data, &mut self.interrupts, self.now),
            6 => self.nic.memory_write(u64::MAX - u64::from(*high), data, &mut self.interrupts, self.now),
            7 => self.nic.port_read(u64::from(place & 0x4f), data, &mut self.interrupts, self.now),
            8 => self.nic.port_write(u64::from(place & 0x4f), data, &mut self.interrupts, self.now),
            9 => self.nic.set_link(low & 1 != 0, &mut self.interrupts, self.now),
            10 => self.interrupts.raise(value, u32::from(*high), self.now),
            11 => self.pass(u64::from(value >> 8)),
            12 if low & 1 != 0 => self.nic.fail_transmit(),
            12 => self.nic.fail_receive(),
            13 => drop(self.read(busy)),
            _ => self.write(busy, value),
        }
    }

    /// Lets time pass; the timekeeper checks the pin whenever it is due.
    fn pass(&mut self, nanoseconds: u64) {
        let until = self.now + nanoseconds;
        for _ in 0..64 {
            match self.interrupts.line(self.now).next {
                Some(next) if next <= until => {
                    assert!(next > self.now, "what was due has been done");
                    self.now = next;
                }
                _ => break,
            }
        }
        self.now = until;
    }

    /// Processes the effects and compares the states.
    fn check(&mut self) {
        for effect in self.nic.take_effects() {
            self.follow(effect);
        }
        assert_eq!((self.transmits, self.receives), (self.nic.transmits(), self.nic.receives()));
        assert_eq!(self.bars, self.nic.bars());
        let before = self.interrupts.counts();
        let line = self.interrupts.line(self.now);
        assert_eq!(line, self.interrupts.line(self.now), "looking twice changes nothing");
        assert!(line.next.is_none_or(|next| next > self.now && !line.asserted));
        assert!(self.interrupts.counts().raised - before.raised <= 1);
    }

    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::TransmitStarted(setup) => {
                assert!(!std::mem::replace(&mut self.transmits, true));
                assert!(setup.ends.head().max(setup.ends.tail()) < setup.layout.entries);
                assert_eq!(setup.block, self.nic.block());
            }
            Effect::ReceiveStarted(setup) => {
                assert!(!std::mem::replace(&mut self.receives, true));
                assert!(setup.ends.head().max(setup.ends.tail()) < setup.layout.entries);
                assert!((256..=16384).contains(&setup.settings.buffer_len));
                setup.settings.filters.pass(MAC, Some(0xffff));
            }
            Effect::TransmitStopped => assert!(std::mem::take(&mut self.transmits)),
            Effect::ReceiveStopped => assert!(std::mem::take(&mut self.receives)),
            Effect::TransmitTail | Effect::TransmitChanged(_) => assert!(self.transmits),
            Effect::ReceiveTail | Effect::ReceiveChanged(_) => assert!(self.receives),
            Effect::BarsMoved => self.bars = self.nic.bars(),
            Effect::LineChanged => {}
        }
    }

    /// Checks that all registers are as in a fresh device, except the words of the EEPROM and what is derived from them.
    fn reset(&mut self, config: &Config) {
        self.write(register::CTRL, register::ctrl::RST | register::ctrl::PHY_RST);
        self.check();
        assert!(!self.transmits && !self.receives);
        let mut fresh = Self::new(config);
        for offset in (0..LAST).step_by(4) {
            // STATUS depends on whether the cable is plugged in.
            let other = [register::RAL, register::RAH, register::STATUS];
            let (now, then) = (self.read(offset), fresh.read(offset));
            assert!(now == then || other.contains(&offset), "register {offset:#x}: {now:#x}, not {then:#x}");
        }
    }
}
