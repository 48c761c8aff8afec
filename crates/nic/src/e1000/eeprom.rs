//! The EEPROM of 64 words and its two interfaces (82540EM manual, "EEPROM Interface", "EEPROM/Flash Control & Data
//! Register", "EEPROM Read Register").
//!
//! Through EECD the driver drives the pins of a Microwire part itself: with CS high, each rising edge of SK shifts a
//! bit in at DI and a bit out at DO.
//!
//! ```text
//! read   1 10 AAAAAA          -> 0 D15..D0, then the next word, while the clock runs
//! write  1 01 AAAAAA D15..D0     done when CS falls     erase  1 11 AAAAAA     enable   1 00 11xxxx
//! fill   1 00 01xxxx D15..D0     done when CS falls     clear  1 00 10xxxx     disable  1 00 00xxxx
//! ```
//!
//! Programming takes no time: DO reports ready as soon as CS is high again. A driver that changes words affects only
//! its own device, until that is built again.

use super::Config;

/// Number of words of the EEPROM.
pub(super) const WORDS: usize = 64;
/// Required sum of all words.
pub(super) const CHECKSUM: u16 = 0xbaba;

/// EECD: clock.
pub(super) const SK: u32 = 1 << 0;
/// EECD: chip select.
pub(super) const CS: u32 = 1 << 1;
/// EECD: data to the EEPROM.
pub(super) const DI: u32 = 1 << 2;
/// EECD: data from the EEPROM.
pub(super) const DO: u32 = 1 << 3;
/// EECD: flash write protected.
const FLASH_LOCKED: u32 = 1 << 4;
/// EECD: the two bits that control writes to the flash.
const FLASH: u32 = 3 << 4;
/// EECD: software requests the EEPROM.
pub(super) const REQUEST: u32 = 1 << 6;
/// EECD: access granted to software.
pub(super) const GRANT: u32 = 1 << 7;
/// EECD: EEPROM present.
pub(super) const PRESENT: u32 = 1 << 8;
/// EERD: read the word.
pub(super) const START: u32 = 1 << 0;
/// EERD: the read is complete, the word is in the upper half.
pub(super) const DONE: u32 = 1 << 4;

/// Length of a command: start bit, two bits of operation code, six of address.
const COMMAND_BITS: u32 = 9;
const ADDRESS: u16 = WORDS as u16 - 1;
/// Address of the word that completes the checksum.
const CHECKSUM_WORD: usize = 0x3f;

/// State of the Microwire part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Receiving a command, `bits` of which have arrived; 0 before the start bit.
    Command { bits: u32, value: u16 },
    /// Sending words from `address` on; `bits` of the current word are out.
    Read { address: u16, bits: u32 },
    /// Receiving a word for this address (`None`: for all addresses).
    Write { address: Option<u16>, bits: u32, value: u16 },
    /// The command is complete: clocks are ignored until CS falls.
    Over,
}

const IDLE: Phase = Phase::Command { bits: 0, value: 0 };

#[derive(Clone, Debug)]
pub(super) struct Eeprom {
    words: [u16; WORDS],
    /// Bits of EECD that software has set.
    pins: u32,
    out: bool,
    phase: Phase,
    writable: bool,
    eerd: u32,
}

impl Eeprom {
    pub(super) fn new(config: &Config, subsystem: u16) -> Self {
        Self {
            words: image(config, subsystem),
            pins: FLASH_LOCKED,
            out: true,
            phase: IDLE,
            writable: false,
            eerd: 0,
        }
    }

    /// Resets the registers; the words stay.
    pub(super) fn reset(&mut self) {
        (self.pins, self.out, self.phase, self.eerd) = (FLASH_LOCKED, true, IDLE, 0);
    }

    /// Returns the Ethernet address stored in the first three words.
    pub(super) fn mac(&self) -> [u8; 6] {
        let [a, b, c, ..] = self.words;
        let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        [a[0], a[1], b[0], b[1], c[0], c[1]]
    }

    pub(super) fn read_eecd(&self) -> u32 {
        let grant = if self.pins & REQUEST != 0 { GRANT } else { 0 };
        let out = if self.out { DO } else { 0 };
        self.pins | out | grant | PRESENT
    }

    pub(super) fn write_eecd(&mut self, value: u32) {
        let before = self.pins;
        self.pins = value & (SK | CS | DI | FLASH | REQUEST);
        // Without the grant, software does not control the pins.
        let selected = |pins: u32| pins & CS != 0 && pins & REQUEST != 0;
        match (selected(before), selected(self.pins)) {
            (true, false) => self.deselect(),
            (false, true) => (self.phase, self.out) = (IDLE, true),
            (true, true) if before & SK == 0 && self.pins & SK != 0 => self.clock(value & DI != 0),
            _ => {}
        }
    }

    pub(super) fn read_eerd(&self) -> u32 {
        self.eerd
    }

    /// Writes EERD: START reads a word at once, unless software controls the pins.
    pub(super) fn write_eerd(&mut self, value: u32) {
        self.eerd = value & 0xff00;
        if value & START != 0 && self.pins & REQUEST == 0 {
            let word = self.word((value >> 8 & 0xff) as u16);
            self.eerd |= u32::from(word) << 16 | DONE;
        }
    }

    fn word(&self, address: u16) -> u16 {
        self.words.get(usize::from(address)).copied().unwrap_or(u16::MAX)
    }

    fn clock(&mut self, bit: bool) {
        match self.phase {
            // Zeros before the start bit are ignored.
            Phase::Command { bits: 0, .. } if !bit => {}
            Phase::Command { bits, value } => self.command(bits + 1, value << 1 | u16::from(bit)),
            Phase::Read { address, bits } => {
                self.out = self.word(address) << bits & 0x8000 != 0;
                let last = bits == 15;
                let next = if last { (address + 1) & ADDRESS } else { address };
                self.phase = Phase::Read { address: next, bits: if last { 0 } else { bits + 1 } };
            }
            Phase::Write { address, bits, value } if bits < 16 => {
                self.phase = Phase::Write { address, bits: bits + 1, value: value << 1 | u16::from(bit) };
            }
            Phase::Write { .. } | Phase::Over => {}
        }
    }

    fn command(&mut self, bits: u32, value: u16) {
        if bits < COMMAND_BITS {
            self.phase = Phase::Command { bits, value };
            return;
        }
        let address = value & ADDRESS;
        self.phase = match (value >> 6 & 3, address >> 4) {
            (0b10, _) => {
                // The dummy bit that precedes the data.
                self.out = false;
                Phase::Read { address, bits: 0 }
            }
            (0b01, _) => Phase::Write { address: Some(address), bits: 0, value: 0 },
            (0b11, _) => self.program(Some(address), u16::MAX),
            (_, 0b01) => Phase::Write { address: None, bits: 0, value: 0 },
            (_, 0b10) => self.program(None, u16::MAX),
            (_, enable) => {
                self.writable = enable == 0b11;
                Phase::Over
            }
        };
    }

    /// Handles the falling edge of CS: programs a word that was received completely.
    fn deselect(&mut self) {
        if let Phase::Write { address, bits: 16, value } = self.phase {
            self.program(address, value);
        }
        (self.phase, self.out) = (IDLE, true);
    }

    fn program(&mut self, address: Option<u16>, value: u16) -> Phase {
        if self.writable {
            match address {
                None => self.words.fill(value),
                Some(address) => {
                    if let Some(word) = self.words.get_mut(usize::from(address)) {
                        *word = value;
                    }
                }
            }
        }
        Phase::Over
    }
}

/// Returns the initial contents: the words that the manual defines ("EEPROM Address Map"); all others are as erased.
fn image(config: &Config, subsystem: u16) -> [u16; WORDS] {
    let mut words = [0xffff; WORDS];
    let [a, b, c, d, e, f] = config.mac;
    let mac = [[a, b], [c, d], [e, f]];
    for (word, octets) in words.iter_mut().zip(mac) {
        *word = u16::from_le_bytes(octets);
    }
    // Compatibility word: a NIC, not a server adapter; LEDs and board have no special numbers.
    (words[0x03], words[0x04], words[0x08], words[0x09]) = (0, 0xffff, 0xffff, 0xffff);
    // Initialization control 1: signature (01 in the upper bits), full duplex, load subsystem and device ids from here.
    words[0x0a] = 0x4403;
    (words[0x0b], words[0x0c]) = (subsystem, super::VENDOR);
    (words[0x0d], words[0x0e]) = (super::DEVICE_ID, super::VENDOR);
    // Initialization control 2 and 3: no pause frames, no wake-up, no management.
    (words[0x0f], words[0x24], words[0x14], words[0x13]) = (0, 0, 0, 0);
    let sum = words[..CHECKSUM_WORD].iter().fold(0_u16, |sum, word| sum.wrapping_add(*word));
    words[CHECKSUM_WORD] = CHECKSUM.wrapping_sub(sum);
    words
}
