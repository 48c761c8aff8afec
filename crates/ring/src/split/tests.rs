extern crate std;

mod budget;
mod double_fetch;
mod every_ring;
mod hostile;
mod in_order;
mod model;
mod notifications;

use std::cell::Cell;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::Region;

/// Guest-physical address of the test memory.
const START: u64 = 0x10_0000;
/// Address of its first buffer.
const BUFFERS: u64 = START + 0x1_0000;

std::thread_local! {
    /// Number of descriptors that this thread has read as a device, from queues and tables.
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// Hook that runs for each descriptor read.
pub(super) fn count_read() {
    READS.set(READS.get() + 1);
}

/// Returns how many descriptors `run` reads.
fn reads<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = READS.get();
    let result = run();
    (READS.get() - before, result)
}

/// Guest memory for one queue, and a naive view of it, written only from the tables of section 2.7.
struct Memory {
    octets: Vec<u128>,
    size: u16,
}

impl Memory {
    fn new(size: u16) -> Self {
        Self { octets: vec![0; 0x4000], size }
    }

    /// Creates memory for a queue of any size, and 64 KiB of buffers and tables for each 1,024 of its entries.
    fn large(size: u16) -> Self {
        Self { octets: vec![0; 0x4000 + 16 * usize::from(size)], size }
    }

    /// Returns the address of the first buffer of [`Self::large`].
    fn buffers(&self) -> u64 {
        START + Layout::octets(self.size).next_multiple_of(4096)
    }

    fn region(&mut self) -> Region {
        let (base, len) = (self.octets.as_mut_ptr(), self.octets.len() as u64 * 16);
        // SAFETY: the octets outlive the queues of the test, which uses them only through regions.
        unsafe { Region::new(base.cast(), START, len) }
    }

    fn layout(&self) -> Layout {
        Layout::contiguous(self.size, START)
    }

    fn word(&mut self, address: u64) -> u16 {
        u16::from_le_bytes(self.region().bytes(address, 2).unwrap().read(0).unwrap())
    }

    fn set_word(&mut self, address: u64, value: u16) {
        assert!(self.region().bytes(address, 2).unwrap().write(0, value.to_le_bytes()));
    }

    /// Sets both indices, as if the queue had been in use.
    fn start_at(&mut self, index: u16) {
        let layout = self.layout();
        self.set_word(layout.available + 2, index);
        self.set_word(layout.used + 2, index);
    }

    fn describe_at(&mut self, table: u64, entry: u16, (address, len, flags, next): (u64, u32, u16, u16)) {
        let bytes = self.region().bytes(table + 16 * u64::from(entry), 16).unwrap();
        bytes.write(0, address.to_le_bytes());
        bytes.write(8, len.to_le_bytes());
        bytes.write(12, flags.to_le_bytes());
        bytes.write(14, next.to_le_bytes());
    }

    fn describe(&mut self, entry: u16, descriptor: (u64, u32, u16, u16)) {
        let table = self.layout().descriptors;
        self.describe_at(table, entry, descriptor);
    }

    /// Makes these heads available.
    fn offer(&mut self, heads: &[u16]) {
        let layout = self.layout();
        let index = self.word(layout.available + 2);
        for (i, &head) in heads.iter().enumerate() {
            let slot = index.wrapping_add(i as u16) % self.size;
            self.set_word(layout.available + 4 + 2 * u64::from(slot), head);
        }
        self.set_word(layout.available + 2, index.wrapping_add(heads.len() as u16));
    }

    fn used_index(&mut self) -> u16 {
        let at = self.layout().used + 2;
        self.word(at)
    }

    fn used_entry(&mut self, index: u16) -> (u32, u32) {
        let at = self.layout().used + 4 + 8 * u64::from(index % self.size);
        let bytes = self.region().bytes(at, 8).unwrap();
        (u32::from_le_bytes(bytes.read(0).unwrap()), u32::from_le_bytes(bytes.read(4).unwrap()))
    }

    fn used_event(&mut self) -> u16 {
        let at = self.layout().available + 4 + 2 * u64::from(self.size);
        self.word(at)
    }

    fn avail_event(&mut self) -> u16 {
        let at = self.layout().used + 4 + 8 * u64::from(self.size);
        self.word(at)
    }

    fn device(&mut self, features: Features) -> DeviceQueue {
        let layout = self.layout();
        DeviceQueue::new(self.region(), &layout, features).unwrap()
    }
}

/// The definition of section 2.7.10 by counting: returns true if an index on its way from `old` to `new` leaves
/// `event`.
fn leaves(event: u16, new: u16, old: u16) -> bool {
    let mut at = old;
    while at != new {
        if at == event {
            return true;
        }
        at = at.wrapping_add(1);
    }
    false
}

#[test]
fn contiguous_areas_are_aligned_and_do_not_overlap() {
    for shift in 0..=15 {
        let size = 1 << shift;
        let layout = Layout::contiguous(size, 0x1000);
        assert!(layout.available.is_multiple_of(2) && layout.used.is_multiple_of(4), "{layout:?}");
        assert!(layout.available >= layout.descriptors + 16 * u64::from(size));
        assert!(layout.used >= layout.available + available_octets(size));
        assert!(0x1000 + Layout::octets(size) >= layout.used + used_octets(size));
    }
}

#[test]
fn bad_layouts_are_refused() {
    let mut memory = Memory::new(16);
    let region = memory.region();
    let good = memory.layout();
    let last = region.start() + region.len();
    let cases = [
        (Layout { size: 0, ..good }, LayoutError::Size(0)),
        (Layout { size: 24, ..good }, LayoutError::Size(24)),
        (Layout { descriptors: START + 8, ..good }, LayoutError::Alignment(START + 8)),
        (Layout { available: START + 1, ..good }, LayoutError::Alignment(START + 1)),
        (Layout { used: START + 2, ..good }, LayoutError::Alignment(START + 2)),
        (Layout { descriptors: 0, ..good }, LayoutError::Outside(0)),
        (Layout { descriptors: last - 240, ..good }, LayoutError::Outside(last - 240)),
        (Layout { available: u64::MAX - 1, ..good }, LayoutError::Outside(u64::MAX - 1)),
        (Layout { used: last - 128, ..good }, LayoutError::Outside(last - 128)),
    ];
    for (layout, error) in cases {
        assert_eq!(DeviceQueue::new(region, &layout, Features::default()).err(), Some(error), "{layout:?}");
    }
}

#[test]
fn event_words_are_part_of_the_areas_only_with_the_feature() {
    let mut memory = Memory::new(16);
    let region = memory.region();
    let last = region.start() + region.len();
    let layout = Layout { available: last - 4 - 2 * 16, ..memory.layout() };
    let with = Features { event_idx: true, ..Features::default() };
    assert!(DeviceQueue::new(region, &layout, Features::default()).is_ok());
    assert_eq!(DeviceQueue::new(region, &layout, with).err(), Some(LayoutError::Outside(layout.available)));
    let layout = Layout { used: last - 4 - 8 * 16, ..memory.layout() };
    assert!(DeviceQueue::new(region, &layout, Features::default()).is_ok());
    assert_eq!(DeviceQueue::new(region, &layout, with).err(), Some(LayoutError::Outside(layout.used)));
}

#[test]
fn a_driver_needs_its_storage_and_its_kind_of_queue() {
    let mut memory = Memory::new(16);
    let (region, layout) = (memory.region(), memory.layout());
    let in_order = Features { in_order: true, ..Features::default() };
    let mut slots = vec![Slot::<u8>::EMPTY; 16];
    let mut tokens = vec![core::mem::MaybeUninit::<u8>::uninit(); 16];
    let book = Features::default();
    assert_eq!(Driver::new(region, &layout, book, &mut slots[..8]).err(), Some(LayoutError::Storage(8)));
    assert_eq!(Driver::new(region, &layout, in_order, &mut slots).err(), Some(LayoutError::Features));
    assert_eq!(
        InOrderDriver::new(region, &layout, in_order, &mut tokens[..8]).err(),
        Some(LayoutError::Storage(8))
    );
    assert_eq!(InOrderDriver::new(region, &layout, book, &mut tokens).err(), Some(LayoutError::Features));
}
