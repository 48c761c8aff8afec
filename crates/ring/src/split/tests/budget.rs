//! Upper bounds of the cost of a call, whatever the driver wrote, and that no honest driver reaches them.

use proptest::prelude::*;

use super::super::burst::{MAX_SLOW_DESCRIPTORS, SEGMENT_CAPACITY};
use super::*;
use crate::BURST;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Maximum number of reads in one call: chains other than single buffers, and one read of the head of each chain.
const MOST_READS: usize = MAX_SLOW_DESCRIPTORS + BURST + 1;

const BY_THE_BOOK: Features = Features { event_idx: false, indirect: true, in_order: false };
const IN_ORDER: Features = Features { in_order: true, ..BY_THE_BOOK };

/// Kinds of takes of a device, with the flag of matching buffers.
type Take = fn(&mut DeviceQueue, usize, &mut Burst) -> Result<usize, Broken>;
const TAKES: [(Take, u16); 3] =
    [(DeviceQueue::take_readable, 0), (DeviceQueue::take_writable, WRITE), (DeviceQueue::take_mixed, 0)];

/// Takes until no chain waits or the ring is broken; returns for each call its reads and how many chains it took.
fn take_all(memory: &mut Memory, features: Features, take: Take) -> (Vec<(usize, usize)>, Option<Broken>) {
    let mut device = memory.device(features);
    let (mut burst, mut calls) = (Burst::new(), Vec::new());
    loop {
        let waiting = device.ready(1).unwrap_or(0);
        let (read, taken) = reads(|| take(&mut device, BURST, &mut burst));
        let taken = taken.unwrap_or(0);
        assert_eq!(burst.len(), taken);
        assert!(read <= burst.steps() + BURST + 1, "{read} reads, {} told of", burst.steps());
        if taken == 0 {
            assert!(waiting == 0 || device.broken().is_some(), "{waiting} chains wait and none is taken");
            calls.push((read, 0));
            return (calls, device.broken());
        }
        calls.push((read, taken));
        device.complete_all(&burst);
        device.publish();
    }
}

/// Writes a table of `entries` empty descriptors at `at`.
fn empty_table(memory: &mut Memory, at: u64, entries: u16, flags: u16) {
    for i in 0..entries {
        let last = i + 1 == entries;
        memory.describe_at(at, i, (at, 0, flags | if last { 0 } else { NEXT }, i + 1));
    }
}

#[test]
fn a_chain_of_empty_descriptors_is_broken_after_as_many_as_a_chain_may_have() {
    for features in [BY_THE_BOOK, IN_ORDER] {
        for (take, flags) in TAKES {
            let mut memory = Memory::large(MAX_SIZE);
            let at = memory.buffers();
            (0..MAX_SIZE).for_each(|i| memory.describe(i, (at, 0, NEXT | flags, (i + 1) % MAX_SIZE)));
            memory.offer(&[0]);
            let (calls, broken) = take_all(&mut memory, features, take);
            assert_eq!(broken, Some(Broken::Loop));
            assert_eq!(calls, [(usize::from(MAX_DESCRIPTORS) + 1, 0)], "the head is looked at twice");
        }
    }
}

#[test]
fn the_longest_chain_is_taken_and_one_descriptor_more_is_not() {
    for (entries, good) in [(MAX_DESCRIPTORS, true), (MAX_DESCRIPTORS + 1, false)] {
        let mut memory = Memory::large(1024);
        let at = memory.buffers();
        let table: Vec<_> =
            (0..entries).map(|i| (at, 1, if i + 1 < entries { NEXT } else { 0 }, i + 1)).collect();
        table.iter().enumerate().for_each(|(i, &descriptor)| memory.describe(i as u16, descriptor));
        memory.offer(&[0]);
        let (calls, broken) = take_all(&mut memory, BY_THE_BOOK, DeviceQueue::take_readable);
        assert_eq!((calls[0].1, broken), if good { (1, None) } else { (0, Some(Broken::Loop)) });
        // The descriptor that refers to a table counts as part of the chain.
        let mut memory = Memory::large(16);
        table.iter().enumerate().skip(1).for_each(|(i, &(_, len, flags, next))| {
            memory.describe_at(at, i as u16 - 1, (at, len, flags, next - 1));
        });
        memory.describe(0, (at, 16 * (u32::from(entries) - 1), INDIRECT, 0));
        memory.offer(&[0]);
        let (calls, broken) = take_all(&mut memory, BY_THE_BOOK, DeviceQueue::take_readable);
        assert_eq!((calls[0].1, broken), if good { (1, None) } else { (0, Some(Broken::Loop)) }, "table");
    }
}

#[test]
fn one_head_repeated_costs_a_call_no_more_than_its_budget() {
    // Chains of the maximum length, and of others: empty, hidden, shown, with a table.
    for (length, len) in [(256, 0), (256, 1), (100, 0), (65, 1), (64, 1), (2, 0), (1, 0), (1, 1)] {
        for (take, flags) in TAKES {
            let mut memory = Memory::large(MAX_SIZE);
            let at = memory.buffers();
            (0..length).for_each(|i| {
                memory.describe(i, (at, len, flags | if i + 1 < length { NEXT } else { 0 }, i + 1));
            });
            memory.offer(&[0; 10 * BURST]);
            let (calls, broken) = take_all(&mut memory, BY_THE_BOOK, take);
            assert_eq!(broken, None, "{length} of {len}");
            assert_eq!(calls.iter().map(|call| call.1).sum::<usize>(), 10 * BURST, "{length} of {len}");
            assert!(calls.iter().all(|call| call.0 <= MOST_READS), "{length} of {len}: {calls:?}");
        }
    }
}

#[test]
fn large_tables_are_read_no_further_than_a_chain_may_be_long() {
    for features in [BY_THE_BOOK, IN_ORDER] {
        for (take, flags) in TAKES {
            let mut memory = Memory::large(MAX_SIZE);
            let at = memory.buffers();
            empty_table(&mut memory, at, 4096, flags);
            (0..MAX_SIZE).for_each(|i| memory.describe(i, (at, 16 * 4096, INDIRECT, 0)));
            memory.offer(&Vec::from_iter(0..BURST as u16));
            let (calls, broken) = take_all(&mut memory, features, take);
            assert_eq!(broken, Some(Broken::Loop));
            assert_eq!(calls, [(usize::from(MAX_DESCRIPTORS) + 1, 0)]);
            // The same tables, with the maximum length in their descriptors.
            let most = MAX_DESCRIPTORS - 1;
            empty_table(&mut memory, at, most, flags);
            (0..MAX_SIZE).for_each(|i| memory.describe(i, (at, 16 * 4096, INDIRECT, 0)));
            let (calls, broken) = take_all(&mut memory, features, take);
            assert_eq!((calls.iter().map(|call| call.1).sum::<usize>(), broken), (BURST, None));
            assert!(calls.iter().all(|call| call.0 <= MOST_READS), "{calls:?}");
            assert!(calls[0].1 > 1, "a burst of such chains is more than one");
        }
    }
}

#[test]
fn what_is_over_the_budget_comes_next_and_in_order() {
    let mut memory = Memory::large(MAX_SIZE);
    let at = memory.buffers();
    let mut heads = Vec::new();
    // Chains of 200 empty descriptors between chains of one buffer.
    for chain in 0..100 {
        let head = chain * 256;
        (head..head + 200).for_each(|i| memory.describe(i, (at, 0, NEXT, i + 1)));
        memory.describe(head + 200, (at, 7, 0, 0));
        memory.describe(head + 201, (at, 9, 0, 0));
        heads.extend([head, head + 201]);
    }
    memory.offer(&heads);
    let mut device = memory.device(BY_THE_BOOK);
    let (mut burst, mut seen) = (Burst::new(), Vec::new());
    while device.take_readable(BURST, &mut burst).expect("a good ring") > 0 {
        let over = seen.len() + burst.len() < heads.len();
        assert_eq!(burst.is_cut(), over);
        assert_eq!(device.ready(1) == Ok(0), !over);
        seen.extend(burst.chains().iter().map(Chain::head));
        device.complete_all(&burst);
        device.publish();
    }
    assert_eq!(seen, heads);
}

/// Chains of an honest driver: number of buffers, and whether it uses an indirect table.
fn honest() -> impl Strategy<Value = Vec<(usize, bool)>> {
    let buffers = prop_oneof![4 => Just(1), 2 => 1..=4usize, 2 => 18..=20usize, 1 => 1..=MAX_SEGMENTS];
    prop::collection::vec((buffers, any::<bool>()), 1..150)
}

proptest! {
    /// Each burst ends where it would without a budget: at [`BURST`] chains, or when it may have no room for another
    /// one.
    #[test]
    fn no_honest_driver_meets_the_budget(chains in honest()) {
        let mut memory = Memory::large(16384);
        let (region, layout, at) = (memory.region(), memory.layout(), memory.buffers());
        let mut slots = vec![Slot::EMPTY; 16384];
        let mut driver = Driver::new(region, &layout, BY_THE_BOOK, &mut slots).unwrap();
        for (i, &(buffers, table)) in chains.iter().enumerate() {
            let segments = vec![Segment { address: at, len: 1 + i as u32, writable: false }; buffers];
            let place = at + 4096 + 1024 * i as u64;
            let done = if table {
                driver.push_indirect(i as u16, place, &segments)
            } else {
                driver.push_chain(i as u16, &segments)
            };
            prop_assert!(done);
        }
        driver.publish();
        let mut device = memory.device(BY_THE_BOOK);
        let (mut burst, mut next) = (Burst::new(), 0);
        while next < chains.len() {
            let (mut held, mut expected) = (0, 0);
            for &(buffers, table) in &chains[next..] {
                let any = buffers > 1 || table;
                if expected == BURST || any && SEGMENT_CAPACITY - held < MAX_SEGMENTS {
                    break;
                }
                held += if buffers > 1 { buffers } else { 0 };
                expected += 1;
            }
            prop_assert_eq!(device.take_readable(BURST, &mut burst), Ok(expected));
            for (i, chain) in (next..).zip(burst.chains()) {
                let shown = burst.readable(chain);
                prop_assert_eq!(shown.len(), chains[i].0);
                prop_assert!(shown.iter().all(|bytes| bytes.len() == 1 + i));
            }
            next += expected;
            device.complete_all(&burst);
            device.publish();
        }
        prop_assert_eq!(device.take_readable(BURST, &mut burst), Ok(0));
    }
}
