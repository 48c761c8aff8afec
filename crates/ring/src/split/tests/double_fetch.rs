//! A driver that changes a word between two reads of the device: the value used is the value checked.

use std::vec;

use super::*;
use crate::BURST;
use crate::concurrent_stores::{Store, plan, reads};

const SIZE: u16 = 4;
const FEATURES: Features = Features { event_idx: true, indirect: true, in_order: false };
const TABLE: u64 = BUFFERS + 0x1000;
const NEXT: u16 = 1;
const INDIRECT: u16 = 4;

/// Creates a chain of a buffer in the queue's table and of two in an indirect table, and a chain of a single buffer.
fn prepared() -> Memory {
    let mut memory = Memory::new(SIZE);
    memory.describe(0, (BUFFERS, 12, NEXT, 1));
    memory.describe(1, (TABLE, 32, INDIRECT, 0));
    memory.describe_at(TABLE, 0, (BUFFERS + 64, 64, NEXT, 1));
    memory.describe_at(TABLE, 1, (BUFFERS + 128, 64, 0, 0));
    memory.describe(2, (BUFFERS + 192, 64, 0, 0));
    memory.offer(&[0, 2]);
    memory
}

/// Returns the addresses of the words that the driver may change: both tables, and the available ring.
fn words(layout: &Layout) -> Vec<u64> {
    let tables = [layout.descriptors, layout.descriptors + 16, layout.descriptors + 32, TABLE, TABLE + 16];
    let descriptors = tables.into_iter().flat_map(|at| (0..8).map(move |word| at + 2 * word));
    descriptors.chain((0..5).map(|word| layout.available + 2 * word)).collect()
}

#[test]
fn whatever_word_changes_before_whatever_read_no_buffer_lies_outside() {
    let mut broken = 0;
    for (word, after, value) in changes() {
        let mut memory = prepared();
        let (region, layout) = (memory.region(), memory.layout());
        let start = region.translate(START, region.len()).unwrap() as usize;
        let mut device = memory.device(FEATURES);
        let mut burst = Burst::new();
        let place = region.bytes(words(&layout)[word], 2).unwrap();
        plan(vec![Store { after, place, octets: u16::to_le_bytes(value) }]);
        let taken = device.take_readable(BURST, &mut burst).unwrap_or(0);
        plan(vec![]);
        assert!(taken <= usize::from(SIZE) && burst.len() == taken);
        for bytes in burst.chains().iter().flat_map(|chain| burst.readable(chain)) {
            let from = bytes.as_ptr() as usize;
            let inside = start <= from && from + bytes.len() <= start + region.len() as usize;
            assert!(inside, "word {word} is {value:#x} after {after} reads");
        }
        assert!(burst.chains().iter().all(|chain| chain.head() < SIZE));
        device.complete_all(&burst);
        device.publish();
        assert_eq!(usize::from(memory.used_index()), taken, "each chain is returned once");
        broken += u32::from(device.broken().is_some());
    }
    assert!(broken > 1000, "only {broken} changes have broken a ring: they do not take place");
}

/// All combinations of word and time, with interesting values.
fn changes() -> impl Iterator<Item = (usize, u32, u16)> {
    let layout = Layout::contiguous(SIZE, START);
    let words = words(&layout).len();
    let times = (0..words).flat_map(|word| (0..READS).map(move |after| (word, after)));
    times.flat_map(|(word, after)| [0, 1, 4, 5, 0x4000, 0xfff0, 0xffff].map(|value| (word, after, value)))
}

/// More than a device reads of these rings.
const READS: u32 = 20;

#[test]
fn a_chain_of_one_buffer_is_four_reads() {
    let mut memory = Memory::new(SIZE);
    memory.describe(0, (BUFFERS, 64, 0, 0));
    memory.offer(&[0]);
    let mut device = memory.device(FEATURES);
    let mut burst = Burst::new();
    plan(vec![]);
    assert_eq!(device.take_readable(BURST, &mut burst), Ok(1));
    assert_eq!(reads(), 4, "index, entry, and the two words of the descriptor");
}

#[test]
fn a_longer_chain_and_the_next_one_are_as_many_reads_as_they_have_words() {
    let memory = &mut prepared();
    let mut device = memory.device(FEATURES);
    let mut burst = Burst::new();
    plan(vec![]);
    assert_eq!(device.take_readable(BURST, &mut burst), Ok(2));
    // The first descriptor of a chain other than a single buffer is read again by the slow path, which uses only its
    // own copy.
    assert_eq!(reads(), 1 + 2 + 2 + 8 + 2);
    assert!(reads() < READS);
}
