//! IN_ORDER queues: the optimized driver against the device, and the device against chains of a general driver.

use core::mem::MaybeUninit;
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const FEATURES: Features = Features { event_idx: true, indirect: true, in_order: true };

#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    Publish,
    Take(usize),
    Complete(usize),
    Return,
    Pop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..20usize).prop_map(Op::Push),
        Just(Op::Publish),
        (0..20usize).prop_map(Op::Take),
        (0..20usize).prop_map(Op::Complete),
        Just(Op::Return),
        (0..20usize).prop_map(Op::Pop),
    ]
}

/// Returns the expected buffer for a token.
fn buffer(token: u32) -> (u64, u32) {
    (BUFFERS + u64::from(token) * 37 % 0x1_0000, 1 + token % 100)
}

/// Returns the number of octets that the device claims to have written.
fn written(token: u32) -> u32 {
    token.wrapping_mul(0x9e37_79b9)
}

/// Runs the operations; buffers pass in the order of their tokens. Each stage is represented by the token that it has
/// reached.
fn run(memory: &mut Memory, first: u16, writable: bool, ops: Vec<Op>) {
    let (size, region, layout) = (memory.size, memory.region(), memory.layout());
    memory.start_at(first);
    let mut tokens = vec![MaybeUninit::uninit(); size.into()];
    let mut driver = InOrderDriver::starting_at(region, &layout, FEATURES, &mut tokens, first).unwrap();
    let mut device = DeviceQueue::resume(region, &layout, FEATURES, first).unwrap();
    let (mut pushed, mut visible, mut done, mut returned, mut popped) = (0u32, 0u32, 0u32, 0u32, 0u32);
    let mut outstanding = VecDeque::new();
    for op in ops {
        match op {
            Op::Push(count) => {
                for _ in 0..count {
                    let (address, len) = buffer(pushed);
                    let fits = driver.push(pushed, address, len, writable);
                    assert_eq!(fits, pushed - popped < u32::from(size));
                    pushed += u32::from(fits);
                }
            }
            Op::Publish => {
                driver.publish();
                visible = pushed;
            }
            Op::Take(max) => {
                let mut burst = Burst::new();
                let next = done + outstanding.len() as u32;
                let count = if writable {
                    device.take_writable(max, &mut burst)
                } else {
                    device.take_readable(max, &mut burst)
                };
                assert_eq!(count, Ok(((visible - next) as usize).min(max)));
                for (chain, token) in burst.chains().iter().zip(next..) {
                    let (address, len) = buffer(token);
                    let here = chain.single().unwrap();
                    assert_eq!(
                        (here.as_ptr(), here.len()),
                        (region.translate(address, 1).unwrap(), len as usize)
                    );
                }
                if writable {
                    outstanding.extend(burst.chains().iter().copied());
                } else {
                    device.complete_all(&burst);
                    done += burst.len() as u32;
                }
            }
            Op::Complete(count) => {
                for chain in outstanding.drain(..count.min(outstanding.len())) {
                    device.complete(&chain, written(done));
                    done += 1;
                }
            }
            Op::Return => {
                device.publish();
                returned = done;
            }
            Op::Pop(max) => {
                let before = popped;
                driver.prefetch_next(max, |_| {});
                let count = if writable {
                    driver.pop(max, |token, len| {
                        assert_eq!((token, len), (popped, written(popped)));
                        popped += 1;
                    })
                } else {
                    driver.reclaim(max, |token| {
                        assert_eq!(token, popped);
                        popped += 1;
                    })
                };
                assert_eq!(count, Ok(((returned - before) as usize).min(max)));
                assert_eq!(popped - before, count.unwrap() as u32);
            }
        }
        assert_eq!(driver.free(), usize::from(size) - (pushed - popped) as usize);
    }
}

proptest! {
    #[test]
    fn frames_stay_in_order(
        shift in 0..6u32,
        first in prop_oneof![Just(0u16), 65400..=65535u16],
        writable: bool,
        ops in prop::collection::vec(op(), 0..400),
    ) {
        // Descriptor i belongs to index i, so a queue that was in use continues at its index.
        run(&mut Memory::new(1 << shift), first, writable, ops);
    }

    /// A general driver: chains of several descriptors, each of which follows the previous one in the table.
    #[test]
    fn chains_follow_one_another_in_the_table(
        lengths in prop::collection::vec((1..6u16, any::<bool>()), 1..200),
    ) {
        const SIZE: u16 = 8;
        let mut memory = Memory::new(SIZE);
        let mut device = memory.device(FEATURES);
        let (mut head, mut index) = (0, 0u16);
        for (entries, indirect) in lengths {
            let table = BUFFERS + 0x2000;
            for i in 0..entries {
                let (flags, address) = (u16::from(i + 1 < entries), BUFFERS + u64::from(i) * 64);
                if indirect {
                    memory.describe_at(table, i, (address, 10, flags, i + 1));
                } else {
                    memory.describe((head + i) % SIZE, (address, 10, flags, (head + i + 1) % SIZE));
                }
            }
            if indirect {
                memory.describe(head, (table, u32::from(entries) * 16, 4, 0));
            }
            // The device must not need the available entries: they stay zero.
            index = index.wrapping_add(1);
            let at = memory.layout().available + 2;
            memory.set_word(at, index);
            let mut burst = Burst::new();
            prop_assert_eq!(device.take_readable(64, &mut burst), Ok(1));
            let chain = burst.chains()[0];
            prop_assert_eq!(chain.head(), head);
            prop_assert_eq!(burst.readable(&chain).len(), usize::from(entries));
            device.complete_all(&burst);
            device.publish();
            prop_assert_eq!(memory.used_entry(index.wrapping_sub(1)), (u32::from(head), 0));
            head = (head + if indirect { 1 } else { entries }) % SIZE;
        }
    }
}

#[test]
fn a_batch_that_was_only_read_is_returned_by_one_entry_in_the_place_of_the_first() {
    let mut memory = Memory::new(16);
    let mut device = memory.device(FEATURES);
    for entry in 0..5 {
        memory.describe(entry, (BUFFERS, 64, 0, 0));
    }
    memory.offer(&[0, 1, 2, 3, 4]);
    let mut burst = Burst::new();
    assert_eq!(device.take_readable(64, &mut burst), Ok(5));
    device.complete_all(&burst);
    device.publish();
    assert_eq!((memory.used_index(), memory.used_entry(0)), (5, (4, 0)));
    assert!((1..5).all(|entry| memory.used_entry(entry) == (0, 0)));
}

#[test]
fn chains_that_are_given_back_come_again() {
    let mut memory = Memory::new(8);
    let mut device = memory.device(FEATURES);
    // Chains of two descriptors each: heads 0, 2, 4, 6.
    for entry in 0..8 {
        memory.describe(entry, (BUFFERS, 64, 1 - entry % 2, (entry + 1) % 8));
    }
    memory.offer(&[0; 4]);
    let mut burst = Burst::new();
    assert_eq!(device.take_readable(64, &mut burst), Ok(4));
    device.give_back(&mut burst, 1);
    assert_eq!((burst.len(), burst.chains()[0].head()), (1, 0));
    assert_eq!(device.take_readable(64, &mut burst), Ok(3));
    assert_eq!(burst.chains().iter().map(Chain::head).collect::<Vec<_>>(), [2, 4, 6]);
}

#[test]
fn a_resumed_queue_finds_its_place_by_the_first_available_entry() {
    for (head, expected) in [(5, Ok(2)), (16, Err(Broken::Entry)), (u16::MAX, Err(Broken::Entry))] {
        let mut memory = Memory::new(16);
        memory.start_at(100);
        let (region, layout) = (memory.region(), memory.layout());
        let mut device = DeviceQueue::resume(region, &layout, FEATURES, 100).unwrap();
        let mut burst = Burst::new();
        // No chain is available yet: the entry holds a value of an earlier lap.
        assert_eq!(device.take_readable(64, &mut burst), Ok(0));
        memory.describe(5, (BUFFERS, 64, 0, 0));
        memory.describe(6, (BUFFERS, 64, 0, 0));
        memory.offer(&[head, 99]);
        assert_eq!(device.take_readable(64, &mut burst), expected);
        let heads: Vec<u16> = burst.chains().iter().map(Chain::head).collect();
        assert_eq!(heads, if expected.is_ok() { vec![5, 6] } else { vec![] });
    }
}

#[test]
fn a_queue_that_is_taken_over_goes_on_where_its_used_index_stands() {
    // Index 0 as well: 65536 chains of several descriptors may begin anywhere.
    for index in [0, 1, 100, 65_535] {
        let mut memory = Memory::new(16);
        memory.start_at(index);
        let (region, layout) = (memory.region(), memory.layout());
        for entry in [5, 6, 7] {
            memory.describe(entry, (BUFFERS, 64, 0, 0));
        }
        memory.offer(&[5, 6, 7]);
        let mut burst = Burst::new();
        // A device that takes three chains, returns one, and dies.
        let mut device = DeviceQueue::take_over(region, &layout, FEATURES).unwrap();
        assert_eq!(device.take_readable(64, &mut burst), Ok(3));
        device.give_back(&mut burst, 1);
        device.complete_all(&burst);
        device.publish();
        let mut device = DeviceQueue::take_over(region, &layout, FEATURES).unwrap();
        assert_eq!(device.index(), index.wrapping_add(1));
        assert_eq!(device.take_readable(64, &mut burst), Ok(2));
        assert_eq!(burst.chains().iter().map(Chain::head).collect::<Vec<_>>(), [6, 7]);
    }
}

#[test]
fn a_driver_stops_on_what_it_cannot_trust() {
    type Break = fn(&mut Memory);
    let cases: [(Break, Broken); 3] = [
        (|memory| memory.set_word(memory.layout().used + 2, 3), Broken::Index),
        (|memory| memory.set_word(memory.layout().used + 2, u16::MAX), Broken::Index),
        (
            |memory| {
                // One used entry for a batch of two does not say how much was written to the first.
                memory.set_word(memory.layout().used + 4, 1);
                memory.set_word(memory.layout().used + 2, 2);
            },
            Broken::Order,
        ),
    ];
    for (break_it, reason) in cases {
        let mut memory = Memory::new(16);
        let (region, layout) = (memory.region(), memory.layout());
        let mut tokens = vec![MaybeUninit::uninit(); 16];
        let mut driver = InOrderDriver::new(region, &layout, FEATURES, &mut tokens).unwrap();
        assert!(driver.push(1u8, BUFFERS, 64, true) && driver.push(2, BUFFERS, 64, true));
        driver.publish();
        break_it(&mut memory);
        for _ in 0..2 {
            assert_eq!(driver.pop(16, |_, _| panic!("nothing came back")), Err(reason));
        }
        assert_eq!((driver.broken(), driver.used_ready(1), driver.arm()), (Some(reason), 0, false));
    }
}

/// Writes a table of `pieces` pieces at `at`; each piece is 8 octets long.
fn table(memory: &mut Memory, at: u64, pieces: u16) {
    for piece in 0..pieces {
        let segment = Segment { address: BUFFERS + 0x8000 + 64 * u64::from(piece), len: 8, writable: false };
        let [address, rest] = segment.words((piece + 1 < pieces).then_some(piece + 1));
        let bytes = memory.region().bytes(at + 16 * u64::from(piece), 16).unwrap();
        assert!(bytes.write(0, address.to_le_bytes()) && bytes.write(8, rest.to_le_bytes()));
    }
}

#[test]
fn a_chain_by_a_table_takes_one_entry_and_keeps_its_place() {
    for first in [0, 65_530] {
        let mut memory = Memory::new(16);
        memory.start_at(first);
        let (region, layout) = (memory.region(), memory.layout());
        let mut tokens = vec![MaybeUninit::uninit(); 16];
        let mut driver = InOrderDriver::starting_at(region, &layout, FEATURES, &mut tokens, first).unwrap();
        let mut device = DeviceQueue::resume(region, &layout, FEATURES, first).unwrap();
        for round in 0..20u32 {
            let pieces = 1 + (round % 15) as u16;
            table(&mut memory, BUFFERS, pieces);
            assert!(driver.push(3 * round, BUFFERS + 0x4000, 60, false));
            assert!(driver.push_table(3 * round + 1, BUFFERS, pieces));
            assert!(driver.push(3 * round + 2, BUFFERS + 0x4000, 60, false));
            driver.publish();
            let mut burst = Burst::new();
            assert_eq!(device.take_readable(64, &mut burst), Ok(3));
            let shown: Vec<_> = burst.chains().iter().map(|chain| burst.readable(chain).len()).collect();
            assert_eq!(shown, [1, pieces.into(), 1]);
            device.complete_all(&burst);
            device.publish();
            let mut back = Vec::new();
            assert_eq!(driver.reclaim(64, |token| back.push(token)), Ok(3));
            assert_eq!(back, [3 * round, 3 * round + 1, 3 * round + 2]);
        }
    }
}

#[test]
fn a_table_needs_an_agreement_an_entry_and_room() {
    let mut memory = Memory::new(4);
    let (region, layout) = (memory.region(), memory.layout());
    let mut tokens = vec![MaybeUninit::uninit(); 4];
    let plain = Features { indirect: false, ..FEATURES };
    let mut driver = InOrderDriver::new(region, &layout, plain, &mut tokens).unwrap();
    assert!(!driver.push_table(0u32, BUFFERS, 2));
    let mut tokens = vec![MaybeUninit::uninit(); 4];
    let mut driver = InOrderDriver::new(region, &layout, FEATURES, &mut tokens).unwrap();
    assert!(!driver.push_table(0u32, BUFFERS, 0) && !driver.push_table(0, BUFFERS, 5));
    for token in 0..4 {
        assert!(driver.push_table(token, BUFFERS, 4));
    }
    assert!(!driver.push_table(4, BUFFERS, 4) && driver.free() == 0);
}
