//! Misuse of an e1000 behind its driver's back: its registers tell the locations of its rings and its status block (82540EM manual,
//! chapter "Register Descriptions"; `ring::e1000::csb` for the block).

use core::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed, Ordering::Release};

use arrayvec::ArrayVec;
use bootinfo::{BootInfo, MAX_NICS, map};

use super::random::Random;
use crate::pci::{Device, Registers};
use crate::process::{self, Bell};

const VENDOR: u16 = 0x8086;
const DEVICE: u16 = 0x100e;
/// Registers: control, EEPROM and PHY, receive and transmit control, the status block's address, the bases of the rings, and
/// offsets within a ring's registers.
const CTRL: u64 = 0x0000;
const EERD: u64 = 0x0014;
const MDIC: u64 = 0x0020;
const RCTL: u64 = 0x0100;
const TCTL: u64 = 0x0400;
const CSBAL: u64 = 0x2830;
const CSBAH: u64 = 0x2834;
const RX_RING: u64 = 0x2800;
const TX_RING: u64 = 0x3800;
const BASE_LOW: u64 = 0x00;
const BASE_HIGH: u64 = 0x04;
const LENGTH: u64 = 0x08;
const HEAD: u64 = 0x10;
const TAIL: u64 = 0x18;
/// Longest ring that its length register can express, in octets.
const LONGEST: u32 = 0xf_ff80;
/// Offsets in the status block: the driver's tails of both rings.
const BLOCK_TX_TAIL: u64 = 0;
const BLOCK_RX_TAIL: u64 = 64;
/// Octets of an otherwise valid buffer.
const LEN: u64 = 128;
/// Bits in a transmit descriptor's second word: end of packet, TCP segmentation, extended (non-legacy) descriptor, and data
/// descriptor.
const EOP: u64 = 1 << 24;
const TSE: u64 = 1 << 26;
const DEXT: u64 = 1 << 29;
const DATA: u64 = 1 << 20;
/// CTRL: set link up, reset. EERD: start. MDIC: write to register 0 (control) of the PHY, whose address is 1.
const SLU: u32 = 1 << 6;
const RST: u32 = 1 << 26;
const START: u32 = 1;
const PHY_WRITE: u32 = 1 << 26 | 1 << 21;

/// An e1000 that its driver has set up.
pub(super) struct RawE1000 {
    registers: Registers,
    /// Values of RCTL and TCTL left by the driver.
    switched_on: [u32; 2],
    pub(super) rings: [Ring; 2],
}

/// One of its rings.
pub(super) struct Ring {
    /// Registers of the ring.
    registers: Registers,
    base: u64,
    entries: u16,
    /// Address of the driver's tail in the status block, if there is one.
    block_tail: Option<u64>,
    bell: Option<Bell>,
    /// Tail value left by the driver.
    tail: u32,
    /// Size of the RAM in octets.
    ram: u64,
}

/// Finds the e1000s among the NICs.
pub(super) fn find(info: &BootInfo) -> ArrayVec<RawE1000, MAX_NICS> {
    let nics = info.nics.iter().take(info.nic_count as usize);
    nics.filter_map(|nic| RawE1000::find(nic.slot, info.ram)).collect()
}

impl RawE1000 {
    fn find(slot: u32, ram: u64) -> Option<Self> {
        let card = Device::find(slot, VENDOR, DEVICE)?.bar(0);
        let word = |low, high| u64::from(card.read::<u32>(low)) | u64::from(card.read::<u32>(high)) << 32;
        let block = Some(word(CSBAL, CSBAH)).filter(|at| *at != 0);
        let ring = |at: u64, queue, tail| {
            let octets: u32 = card.read(at + LENGTH);
            let ring = Ring {
                registers: Registers::at(card.address(at)),
                base: word(at + BASE_LOW, at + BASE_HIGH),
                entries: (octets / 16) as u16,
                block_tail: block.map(|block| block + tail),
                bell: block.and_then(|_| process::doorbell(slot, queue)),
                tail: card.read(at + TAIL),
                ram,
            };
            (ring.entries > 0).then_some(ring)
        };
        let rings = [ring(RX_RING, 0, BLOCK_RX_TAIL)?, ring(TX_RING, 1, BLOCK_TX_TAIL)?];
        Some(Self { registers: card, switched_on: [RCTL, TCTL].map(|at| card.read(at)), rings })
    }

    /// Resets and reinitialises it, without a status block, with buffers in one ring and a packet of zeros in the other.
    pub(super) fn renew(&mut self) {
        self.registers.write(CTRL, RST);
        self.registers.write(CTRL, SLU);
        self.rings.iter_mut().for_each(Ring::begin);
        for (at, value) in [RCTL, TCTL].into_iter().zip(self.switched_on) {
            self.registers.write(at, value);
        }
        let [receive, transmit] = &self.rings;
        receive.give_all();
        transmit.set_tail(1);
    }

    /// Makes it read a word of its EEPROM and reset its PHY.
    pub(super) fn command(&self) {
        self.registers.write(EERD, START);
        self.registers.write(MDIC, PHY_WRITE | 1 << 15);
    }
}

impl Ring {
    /// Fills every descriptor with random words, and makes all available.
    pub(super) fn random_descriptors(&self, random: &mut Random) {
        for index in 0..self.entries {
            self.put(index, random.next(), random.next());
        }
        self.give_all();
    }

    /// Builds packets without an end: the descriptor after the last one is the first.
    pub(super) fn loops(&self, way: u32) {
        let endless = match way % 4 {
            0 | 3 => LEN,
            // The largest length of a data descriptor, in a packet to be segmented.
            1 => DEXT | DATA | TSE | 0xf_ffff,
            // Only context descriptors, for packets that never follow.
            _ => DEXT | TSE | 0xf_ffff,
        };
        for index in 0..self.entries {
            self.put(index, map::POOL, endless);
        }
        if way % 4 == 3 {
            // A long chain that leads to a buffer outside memory.
            (0..self.entries).rev().take(2).for_each(|index| self.put(index, self.ram, endless));
        }
        self.give_all();
    }

    /// Builds packets of as many pieces as there are descriptors, each of one octet or none.
    pub(super) fn longest_chains(&self, way: u32) {
        for index in 0..self.entries {
            let last = if index + 1 == self.entries { EOP } else { 0 };
            self.put(index, map::POOL, u64::from(way % 2) | last);
        }
        self.give_all();
    }

    /// Builds buffers outside memory.
    pub(super) fn addresses(&self, way: u32) {
        let ways = [self.ram, self.ram - 1, u64::MAX - 15, map::ECAM, map::APIC, map::FIB, 1 << 63];
        let address = ways[way as usize % ways.len()];
        for index in 0..self.entries {
            self.put(index, address, LEN | EOP);
        }
        self.give_all();
    }

    /// Sets tails and heads that are out of range, and a ring that extends beyond memory.
    pub(super) fn indices(&self, way: u32, random: &mut Random) {
        match way % 4 {
            0 => self.set_tail(self.entries),
            1 => self.set_tail(u16::MAX),
            2 => {
                self.registers.write(HEAD, u32::from(self.entries));
                self.set_tail(random.next() as u16);
            }
            _ => {
                self.registers.write(BASE_LOW, (self.ram - 4096) as u32);
                self.registers.write(LENGTH, LONGEST);
                self.set_tail(random.next() as u16 % self.entries);
            }
        }
    }

    /// Sets the ring up as after a reset, with a receive buffer or a packet in each descriptor.
    fn begin(&mut self) {
        (self.block_tail, self.bell) = (None, None);
        let octets = 16 * u32::from(self.entries);
        let words = [(BASE_LOW, self.base as u32), (BASE_HIGH, (self.base >> 32) as u32), (LENGTH, octets)];
        for (at, value) in words.into_iter().chain([(HEAD, 0), (TAIL, 0)]) {
            self.registers.write(at, value);
        }
        (0..self.entries).for_each(|index| self.put(index, map::POOL, LEN | EOP));
    }

    /// Rings the doorbell without new work: the tail keeps the driver's value.
    pub(super) fn kick(&self) {
        match self.bell {
            Some(bell) => bell.ring(),
            None => self.registers.write(TAIL, self.tail),
        }
    }

    /// Makes all descriptors available but the one that a ring cannot hold.
    fn give_all(&self) {
        let head: u32 = self.registers.read(HEAD);
        let entries = u32::from(self.entries);
        self.set_tail(((head + entries - 1) % entries) as u16);
    }

    fn set_tail(&self, tail: u16) {
        if let Some(at) = self.block_tail {
            // SAFETY: in the status block, which is RAM of the driver that is accessed by atomics only.
            unsafe { &*(at as *const AtomicU16) }.store(tail, Release);
            return self.kick();
        }
        self.registers.write(TAIL, u32::from(tail));
    }

    fn put(&self, index: u16, first: u64, second: u64) {
        let at = self.base + 16 * u64::from(index);
        for (word, value) in [(at, first), (at + 8, second)] {
            // SAFETY: inside the ring, which is RAM of the driver that is accessed by atomics only.
            unsafe { &*(word as *const AtomicU64) }.store(value, Relaxed);
        }
    }
}
