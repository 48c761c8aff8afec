//! "EEPROM Interface", "EEPROM Address Map", "Software Access": EECD pin by pin, EERD, contents of the words.

use super::*;
use crate::e1000::eeprom::{CHECKSUM, CS, DI, DO, DONE, GRANT, PRESENT, REQUEST, SK, START, WORDS};

/// The driver's side of the Microwire protocol.
struct Microwire<'a> {
    slot: &'a mut Slot,
    pins: u32,
}

impl<'a> Microwire<'a> {
    fn acquire(slot: &'a mut Slot) -> Self {
        slot.write(r::EECD, REQUEST);
        assert_ne!(slot.read(r::EECD) & GRANT, 0, "granted");
        Self { slot, pins: REQUEST }
    }

    fn set(&mut self, pins: u32) {
        self.pins = pins;
        self.slot.write(r::EECD, pins);
    }

    /// Resets the part's state, with the clock running as drivers do.
    fn select(&mut self) {
        self.set(self.pins & !(CS | SK | DI));
        self.set(self.pins | SK);
        self.set(self.pins | CS);
        self.set(self.pins & !SK);
    }

    fn out(&mut self) -> bool {
        self.slot.read(r::EECD) & DO != 0
    }

    fn put(&mut self, value: u16, bits: u32) {
        for bit in (0..bits).rev() {
            self.set(self.pins & !DI | if value >> bit & 1 != 0 { DI } else { 0 });
            self.set(self.pins | SK);
            self.set(self.pins & !SK);
        }
        self.set(self.pins & !DI);
    }

    fn get(&mut self) -> u16 {
        (0..16).fold(0, |word, _| {
            self.set(self.pins | SK);
            let bit = self.out();
            self.set(self.pins & !SK);
            word << 1 | u16::from(bit)
        })
    }

    fn word(&mut self, address: u16) -> u16 {
        self.select();
        self.put(0b110, 3);
        self.put(address, 6);
        assert!(!self.out(), "the dummy bit");
        self.get()
    }

    fn command(&mut self, operation: u16, address: u16, data: Option<u16>) {
        self.select();
        self.put(operation, 3);
        self.put(address, 6);
        if let Some(data) = data {
            self.put(data, 16);
        }
        self.select();
        assert!(self.out(), "ready");
    }

    fn release(mut self) {
        self.set(self.pins & !(CS | SK | DI));
        self.set(0);
    }
}

fn by_eerd(slot: &mut Slot, address: u32) -> u16 {
    slot.write(r::EERD, address << 8 | START);
    let value = slot.read(r::EERD);
    assert_ne!(value & DONE, 0, "done");
    (value >> 16) as u16
}

#[test]
fn both_ways_read_the_same_words_and_they_add_up() {
    let mut slot = Slot::new();
    let words: Vec<u16> = (0..WORDS as u32).map(|n| by_eerd(&mut slot, n)).collect();
    let mut wire = Microwire::acquire(&mut slot);
    let same: Vec<u16> = (0..WORDS as u16).map(|n| wire.word(n)).collect();
    wire.release();
    assert_eq!(words, same);
    assert_eq!(words.iter().fold(0_u16, |sum, word| sum.wrapping_add(*word)), CHECKSUM);
    assert_eq!(words[..3], [0x1102, 0x3322, 0x5544], "the address");
    assert_eq!(words[0x0a] >> 14, 0b01, "the signature");
    assert_eq!(words[0x0b..0x0f], [0x0000, 0x8086, 0x100e, 0x8086], "identity");
}

#[test]
fn the_sum_is_right_for_every_device() {
    for n in 0..=255 {
        let block = n & 1 != 0;
        let mut slot = Slot::with(&Config { block, ..Config::new([2, n, 255 - n, 7, n, n]) });
        let sum = (0..64).map(|n| by_eerd(&mut slot, n)).fold(0_u16, u16::wrapping_add);
        assert_eq!(sum, 0xbaba);
    }
}

#[test]
fn a_read_goes_on_with_the_next_word_while_the_clock_runs() {
    let mut slot = Slot::new();
    let mut wire = Microwire::acquire(&mut slot);
    let first = wire.word(0);
    assert_eq!([first, wire.get(), wire.get()], [0x1102, 0x3322, 0x5544]);
    let last = wire.word(63);
    let wrapped = wire.get();
    assert_eq!((last, wrapped), (wire.word(63), 0x1102));
}

#[test]
fn zeros_before_the_start_bit_are_not_looked_at() {
    let mut slot = Slot::new();
    let mut wire = Microwire::acquire(&mut slot);
    wire.select();
    wire.put(0, 5);
    wire.put(0b110, 3);
    wire.put(1, 6);
    assert_eq!((wire.out(), wire.get()), (false, 0x3322));
}

#[test]
fn nothing_listens_without_the_grant_or_the_select() {
    let mut slot = Slot::new();
    assert_eq!(slot.read(r::EECD), PRESENT | DO | 1 << 4, "64 words, flash locked");
    for (pins, clocked) in [(CS, "without the grant"), (REQUEST, "without the select")] {
        for bit in [DI, DI, 0, 0, 0, 0, 0, 0, 0] {
            slot.write(r::EECD, pins | bit);
            slot.write(r::EECD, pins | bit | SK);
        }
        assert_ne!(slot.read(r::EECD) & DO, 0, "no dummy bit {clocked}");
        slot.write(r::EECD, 0);
    }
}

#[test]
fn eerd_waits_for_pins_that_software_holds_and_knows_no_word_beyond_the_end() {
    let mut slot = Slot::new();
    slot.write(r::EECD, REQUEST);
    slot.write(r::EERD, START);
    assert_eq!(slot.read(r::EERD) & DONE, 0);
    slot.write(r::EECD, 0);
    assert_eq!(by_eerd(&mut slot, 64), 0xffff);
    assert_eq!(by_eerd(&mut slot, 255), 0xffff);
    slot.write(r::EERD, 0x100);
    assert_eq!(slot.read(r::EERD), 0x100, "no START, nothing done");
}

#[test]
fn words_change_once_writing_is_enabled() {
    let mut slot = Slot::new();
    let mut wire = Microwire::acquire(&mut slot);
    wire.command(0b101, 5, Some(0x1234));
    assert_eq!(wire.word(5), 0xffff, "not enabled");
    wire.command(0b100, 0b11_0000, None);
    wire.command(0b101, 5, Some(0x1234));
    wire.command(0b101, 6, Some(0x5678));
    assert_eq!((wire.word(5), wire.word(6)), (0x1234, 0x5678));
    wire.command(0b111, 5, None);
    assert_eq!((wire.word(5), wire.word(6)), (0xffff, 0x5678), "erased");
    wire.command(0b100, 0b01_0000, Some(0xabcd));
    assert_eq!((wire.word(0), wire.word(63)), (0xabcd, 0xabcd), "all of them");
    wire.command(0b100, 0b10_0000, None);
    assert_eq!((wire.word(0), wire.word(63)), (0xffff, 0xffff), "all erased");
    wire.command(0b100, 0b00_0000, None);
    wire.command(0b101, 5, Some(0));
    assert_eq!(wire.word(5), 0xffff, "disabled again");
}

#[test]
fn a_write_that_is_cut_short_changes_nothing() {
    let mut slot = Slot::new();
    let mut wire = Microwire::acquire(&mut slot);
    wire.command(0b100, 0b11_0000, None);
    wire.select();
    wire.put(0b101, 3);
    wire.put(5, 6);
    wire.put(0, 15);
    wire.select();
    assert_eq!(wire.word(5), 0xffff);
}

#[test]
fn the_address_comes_from_the_words_at_reset_and_at_reload() {
    let mut slot = Slot::new();
    let mut wire = Microwire::acquire(&mut slot);
    wire.command(0b100, 0b11_0000, None);
    wire.command(0b101, 2, Some(0x6644));
    wire.release();
    assert_eq!((slot.read(r::RAL), slot.read(r::RAH)), (0x3322_1102, 0x8000_5544));
    slot.write(r::RAL, 0);
    slot.write(r::CTRL_EXT, 1 << 13);
    assert_eq!((slot.read(r::RAL), slot.read(r::RAH)), (0x3322_1102, 0x8000_6644));
    assert_eq!(slot.read(r::CTRL_EXT) & 1 << 13, 0, "clears itself");
    slot.write(r::RAL, 0);
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!((slot.read(r::RAL), slot.read(r::RAH)), (0x3322_1102, 0x8000_6644));
}
