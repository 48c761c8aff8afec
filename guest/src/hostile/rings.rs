//! Corruption of virtqueues behind the back of the driver, which keeps its own state of them.

use core::sync::atomic::{AtomicU16, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use bootinfo::map;
use ring::split::{Layout, MAX_DESCRIPTORS};

use super::random::Random;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Octets of an otherwise valid buffer.
const LEN: u32 = 128;

/// Memory of one queue.
pub(super) struct Ring {
    layout: Layout,
    /// Flags of a buffer in the queue's proper direction.
    direction: u16,
    /// Size of the RAM in octets.
    ram: u64,
}

impl Ring {
    /// Creates the access to the queue of this layout; `receives` if the device writes its buffers.
    pub(super) fn new(layout: &Layout, receives: bool, ram: u64) -> Self {
        Self { layout: *layout, direction: if receives { WRITE } else { 0 }, ram }
    }

    /// Fills every descriptor with random words, and makes all available.
    pub(super) fn random_descriptors(&self, random: &mut Random) {
        for index in 0..self.layout.size {
            self.put_words(index, random.next(), random.next());
            self.put_available(index, random.next() as u16);
        }
        self.advance(self.layout.size / 2);
    }

    /// Builds chains that never end.
    pub(super) fn loops(&self, way: u32) {
        let size = self.layout.size;
        for index in 0..size {
            let following = (index + 1) % size;
            match way % 4 {
                // A descriptor that links to itself.
                0 => self.put(index, (map::POOL, LEN), NEXT | self.direction, index),
                // A chain longer than the ring, which goes round and round.
                1 => self.put(index, (map::POOL, LEN), NEXT | self.direction, following),
                // An indirect table that is this table.
                2 => self.put(index, (self.layout.descriptors, 16 * u32::from(size)), INDIRECT, 0),
                // A next descriptor behind the end of the table.
                _ => self.put(index, (map::POOL, LEN), NEXT | self.direction, size + index),
            }
            self.put_available(index, index);
        }
        self.advance(1);
    }

    /// Builds chains as long as the device accepts, which end in an empty buffer or exceed the limit: the device walks
    /// them in vain. Every available entry names the first one, and is offered again as soon as it is returned. Returns
    /// true if there are new entries.
    pub(super) fn longest_chains(&self, way: u32) -> bool {
        let (size, chain) = (self.layout.size, self.layout.size.min(MAX_DESCRIPTORS));
        let len = way % 2;
        for index in 0..size {
            let more = if index % chain == chain - 1 { 0 } else { NEXT };
            self.put(index, (map::POOL, len), more | self.direction, (index + 1) % size);
            self.put_available(index, 0);
        }
        self.offer_returned()
    }

    /// Offers all entries that the device has returned, and no more. Returns true if there are any.
    pub(super) fn offer_returned(&self) -> bool {
        let returned = self.word(self.layout.used + 2).load(Acquire).wrapping_add(self.layout.size);
        returned != self.word(self.layout.available + 2).swap(returned, Release)
    }

    /// Offers one buffer (address, octets) in every entry of a fresh ring.
    pub(super) fn fill(&self, buffer: (u64, u32)) {
        for index in 0..self.layout.size {
            self.put(index, buffer, self.direction, 0);
            self.put_available(index, index);
        }
        self.word(self.layout.available + 2).store(self.layout.size, Release);
    }

    /// Offers these commands (address, octets) repeatedly, each with room for an answer, in a fresh ring.
    pub(super) fn fill_with_commands(&self, commands: &[(u64, u32)], answer: u64) {
        let heads = (0..self.layout.size).step_by(2);
        for (head, command) in heads.clone().zip(commands) {
            self.put(head, *command, NEXT, head + 1);
            self.put(head + 1, (answer, 1), WRITE, 0);
        }
        for (index, head) in (0..self.layout.size).zip(heads.take(commands.len()).cycle()) {
            self.put_available(index, head);
        }
        self.word(self.layout.available + 2).store(self.layout.size, Release);
    }

    /// Builds buffers outside memory.
    pub(super) fn addresses(&self, way: u32) {
        let ways = [
            (self.ram, LEN),
            // Its end lies outside memory.
            (self.ram - 1, LEN),
            // Its end wraps around.
            (u64::MAX - 15, LEN),
            (map::ECAM, LEN),
            (map::APIC, LEN),
            (map::FIB, LEN),
            (map::POOL, u32::MAX),
            (1 << 63, LEN),
        ];
        let buffer = ways[way as usize % ways.len()];
        for index in 0..self.layout.size {
            self.put(index, buffer, self.direction, 0);
            self.put_available(index, index);
        }
        self.advance(1);
    }

    /// Makes indices jump.
    pub(super) fn indices(&self, way: u32, random: &mut Random) {
        match way % 4 {
            0 => self.advance(40_000),
            1 => self.advance(u16::MAX),
            2 => self.advance(random.next() as u16 | 0x8000),
            // The device owns the used ring and must ignore what is written there.
            _ => {
                self.word(self.layout.used + 2).store(random.next() as u16, Relaxed);
                self.advance(self.layout.size.wrapping_add(1));
            }
        }
    }

    /// Writes a descriptor for the buffer (address, octets), with flags and successor.
    fn put(&self, index: u16, (address, len): (u64, u32), flags: u16, next: u16) {
        let rest = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.put_words(index, address, rest);
    }

    fn put_words(&self, index: u16, first: u64, second: u64) {
        let at = self.layout.descriptors + 16 * u64::from(index);
        for (word, value) in [(at, first), (at + 8, second)] {
            // SAFETY: inside the descriptor table, which is RAM of the ring that is accessed by atomics only.
            unsafe { &*(word as *const AtomicU64) }.store(value, Relaxed);
        }
    }

    fn put_available(&self, index: u16, head: u16) {
        self.word(self.layout.available + 4 + 2 * u64::from(index)).store(head, Relaxed);
    }

    /// Advances the available index.
    fn advance(&self, entries: u16) {
        self.word(self.layout.available + 2).fetch_add(entries, Release);
    }

    /// Returns a 16-bit word of the available or used ring.
    fn word(&self, at: u64) -> &'static AtomicU16 {
        // SAFETY: inside the ring's memory (see the callers), aligned, and accessed by atomics only.
        unsafe { &*(at as *const AtomicU16) }
    }
}
