//! Rings that break every rule: the queue stops, or the chain is empty; never a panic, never an access
//! outside the guest's memory.

use core::mem::MaybeUninit;

use proptest::prelude::*;

use super::*;
use crate::BURST;

const SIZE: u16 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const BY_THE_BOOK: Features = Features { event_idx: false, indirect: true, in_order: false };
const TABLE: u64 = BUFFERS + 0x1000;

/// Writes descriptors.
type Prepare = fn(&mut Memory);

/// Returns a device's result for descriptors set up by `prepare`, with head 0 made available.
fn outcome(prepare: impl Fn(&mut Memory), features: Features) -> Result<usize, Broken> {
    let mut memory = Memory::new(SIZE);
    prepare(&mut memory);
    memory.offer(&[0]);
    let mut device = memory.device(features);
    let mut burst = Burst::new();
    let result = device.take_readable(BURST, &mut burst);
    if let Err(reason) = result {
        // It stays broken, whatever comes.
        memory.offer(&[1, 2, 3]);
        assert_eq!(device.take_readable(BURST, &mut burst), Err(reason));
        assert_eq!((device.broken(), device.arm(), device.publish()), (Some(reason), false, false));
    }
    result.map(|_| burst.readable(&burst.chains()[0]).len())
}

#[test]
fn good_chains_are_taken() {
    let cases: [(Prepare, usize); 6] = [
        (|m| m.describe(0, (BUFFERS, 64, 0, 99)), 1),
        (|m| m.describe(0, (START + 0x4_0000 - 64, 64, 0, 0)), 1),
        (
            |m| {
                m.describe(0, (BUFFERS, 12, NEXT, 1));
                m.describe(1, (BUFFERS, 64, 0, 0));
            },
            2,
        ),
        (
            |m| {
                m.describe(0, (BUFFERS, 12, NEXT, 1));
                m.describe(1, (TABLE, 32, INDIRECT, 0));
                m.describe_at(TABLE, 0, (BUFFERS, 5, NEXT, 1));
                m.describe_at(TABLE, 1, (BUFFERS, 5, 0, 0));
            },
            3,
        ),
        (
            |m| {
                // The device ignores WRITE beside INDIRECT (section 2.7.5.3.2).
                m.describe(0, (TABLE + 1, 16, INDIRECT | WRITE, 0));
                m.describe_at(TABLE + 1, 0, (BUFFERS, 5, 0, 0));
            },
            1,
        ),
        (
            |m| {
                m.describe(0, (BUFFERS, 0, NEXT, 1));
                m.describe(1, (BUFFERS, 0, 0, 0));
            },
            0,
        ),
    ];
    for (case, (prepare, buffers)) in cases.into_iter().enumerate() {
        assert_eq!(outcome(prepare, BY_THE_BOOK), Ok(buffers), "case {case}");
        assert_eq!(outcome(prepare, Features { in_order: true, ..BY_THE_BOOK }), Ok(buffers), "case {case}");
    }
}

#[test]
fn each_broken_rule_stops_the_queue() {
    let cases: [(Prepare, Broken); 14] = [
        (|m| m.describe(0, (0, 64, 0, 0)), Broken::Address),
        (|m| m.describe(0, (START - 1, 2, 0, 0)), Broken::Address),
        (|m| m.describe(0, (START + 0x4_0000 - 63, 64, 0, 0)), Broken::Address),
        (|m| m.describe(0, (u64::MAX - 3, 64, 0, 0)), Broken::Address),
        (|m| m.describe(0, (START, u32::MAX, 0, 0)), Broken::Address),
        (|m| m.describe(0, (BUFFERS, 64, WRITE, 0)), Broken::Direction),
        (|m| m.describe(0, (BUFFERS, 64, NEXT, SIZE)), Broken::Entry),
        (|m| m.describe(0, (TABLE, 0, INDIRECT, 0)), Broken::Indirect),
        (|m| m.describe(0, (TABLE, 24, INDIRECT, 0)), Broken::Indirect),
        (|m| m.describe(0, (TABLE, 16, INDIRECT | NEXT, 1)), Broken::Indirect),
        (|m| m.describe(0, (START - 16, 32, INDIRECT, 0)), Broken::Address),
        (
            |m| {
                m.describe(0, (TABLE, 16, INDIRECT, 0));
                m.describe_at(TABLE, 0, (TABLE, 16, INDIRECT, 0));
            },
            Broken::Indirect,
        ),
        (
            |m| {
                m.describe(0, (TABLE, 16, INDIRECT, 0));
                m.describe_at(TABLE, 0, (BUFFERS, 16, NEXT, 1));
            },
            Broken::Entry,
        ),
        (
            |m| {
                m.describe(0, (TABLE, 32, INDIRECT, 0));
                m.describe_at(TABLE, 0, (BUFFERS, 16, NEXT, 1));
                m.describe_at(TABLE, 1, (BUFFERS, 16, NEXT, 0));
            },
            Broken::Loop,
        ),
    ];
    for (case, (prepare, reason)) in cases.into_iter().enumerate() {
        assert_eq!(outcome(prepare, BY_THE_BOOK), Err(reason), "case {case}");
        assert_eq!(outcome(prepare, Features { in_order: true, ..BY_THE_BOOK }), Err(reason), "case {case}");
    }
}

#[test]
fn circles_end() {
    let to_itself: Prepare = |m| m.describe(0, (BUFFERS, 1, NEXT, 0));
    assert_eq!(outcome(to_itself, BY_THE_BOOK), Err(Broken::Loop));
    assert_eq!(outcome(to_itself, Features { in_order: true, ..BY_THE_BOOK }), Err(Broken::Order));
    let round: Prepare = |m| (0..SIZE).for_each(|i| m.describe(i, (BUFFERS, 1, NEXT, (i + 1) % SIZE)));
    assert_eq!(outcome(round, BY_THE_BOOK), Err(Broken::Loop));
    assert_eq!(outcome(round, Features { in_order: true, ..BY_THE_BOOK }), Err(Broken::Loop));
}

#[test]
fn indirect_tables_need_the_feature() {
    let table: Prepare = |m| {
        m.describe(0, (TABLE, 16, INDIRECT, 0));
        m.describe_at(TABLE, 0, (BUFFERS, 16, 0, 0));
    };
    assert_eq!(outcome(table, BY_THE_BOOK), Ok(1));
    assert_eq!(outcome(table, Features { indirect: false, ..BY_THE_BOOK }), Err(Broken::Indirect));
}

#[test]
fn readable_behind_writable_is_broken_where_both_are_allowed() {
    let mut memory = Memory::new(SIZE);
    memory.describe(0, (BUFFERS, 8, NEXT | WRITE, 1));
    memory.describe(1, (BUFFERS, 8, 0, 0));
    memory.offer(&[0]);
    let mut device = memory.device(BY_THE_BOOK);
    assert_eq!(device.take_mixed(1, &mut Burst::new()), Err(Broken::Direction));
}

#[test]
fn a_head_outside_the_table_is_broken() {
    for head in [SIZE, u16::MAX] {
        let mut memory = Memory::new(SIZE);
        memory.describe(0, (BUFFERS, 8, 0, 0));
        memory.offer(&[0, head, 0]);
        let mut device = memory.device(BY_THE_BOOK);
        let mut burst = Burst::new();
        // Earlier chains are still served.
        assert_eq!(device.take_readable(BURST, &mut burst), Ok(1));
        assert_eq!(device.take_readable(BURST, &mut Burst::new()), Err(Broken::Entry));
        device.complete_all(&burst);
        device.publish();
        assert_eq!((memory.used_index(), memory.used_entry(0)), (1, (0, 0)));
    }
}

#[test]
fn an_index_that_jumps_is_broken() {
    for (jump, good) in [(SIZE, true), (SIZE + 1, false), (40000, false), (u16::MAX, false)] {
        let mut memory = Memory::new(SIZE);
        let at = memory.layout().available + 2;
        memory.set_word(at, jump);
        let mut device = memory.device(BY_THE_BOOK);
        assert_eq!(device.ready(1).is_ok(), good, "{jump}");
    }
}

#[test]
fn chains_that_are_still_out_keep_their_place() {
    let mut memory = Memory::new(SIZE);
    (0..SIZE).for_each(|i| memory.describe(i, (BUFFERS, 8, 0, 0)));
    memory.offer(&[0, 1, 2, 3]);
    let mut device = memory.device(BY_THE_BOOK);
    assert_eq!(device.take_readable(4, &mut Burst::new()), Ok(4));
    let rest: Vec<u16> = (4..SIZE).chain([0]).collect();
    memory.offer(&rest);
    assert_eq!(device.ready(BURST), Err(Broken::Index));
}

#[test]
fn a_chain_with_too_many_buffers_is_shown_empty() {
    const LARGE: u16 = 256;
    for (entries, shown) in [(MAX_SEGMENTS as u16, MAX_SEGMENTS), (MAX_SEGMENTS as u16 + 1, 0), (LARGE, 0)] {
        let mut memory = Memory::new(LARGE);
        (0..entries).for_each(|i| memory.describe(i, (BUFFERS, 8, u16::from(i + 1 < entries), i + 1)));
        memory.offer(&[0]);
        let mut device = memory.device(BY_THE_BOOK);
        let mut burst = Burst::new();
        assert_eq!(device.take_readable(BURST, &mut burst), Ok(1));
        let chain = burst.chains()[0];
        assert_eq!((burst.readable(&chain).len(), chain.too_many()), (shown, shown == 0));
    }
}

#[test]
fn a_burst_ends_where_its_list_of_buffers_is_full() {
    const LARGE: u16 = 512;
    let mut memory = Memory::new(LARGE);
    let mut heads = Vec::new();
    for chain in 0..16 {
        let head = chain * 32;
        (head..head + 32).for_each(|i| memory.describe(i, (BUFFERS, 8, u16::from(i + 1 < head + 32), i + 1)));
        heads.push(head);
    }
    memory.offer(&heads);
    let mut device = memory.device(BY_THE_BOOK);
    let (mut burst, mut seen) = (Burst::new(), Vec::new());
    while device.take_readable(BURST, &mut burst).unwrap() > 0 {
        assert!(burst.chains().iter().all(|chain| burst.readable(chain).len() == 32));
        seen.extend(burst.chains().iter().map(Chain::head));
        device.complete_all(&burst);
        device.publish();
    }
    assert_eq!(seen, heads);
}

#[test]
fn a_driver_trusts_no_id() {
    for (id, index, reason) in [
        (16u32, 1, Broken::Entry),
        (1, 1, Broken::Entry),
        (0x1_000f, 1, Broken::Entry),
        (15, 3, Broken::Index),
        (15, u16::MAX, Broken::Index),
    ] {
        let mut memory = Memory::new(SIZE);
        let (region, layout) = (memory.region(), memory.layout());
        let mut slots = vec![Slot::EMPTY; SIZE.into()];
        let mut driver = Driver::new(region, &layout, BY_THE_BOOK, &mut slots).unwrap();
        let segment = Segment { address: BUFFERS, len: 1, writable: true };
        // Uses descriptors 0 and 1 as a chain with head 0, or 15: in either case `id` is not a head.
        assert!(driver.push_chain(7u8, &[segment; 2]));
        driver.publish();
        let head = memory.word(layout.available + 4);
        let id =
            if id == 1 { memory.word(layout.descriptors + 16 * u64::from(head) + 14).into() } else { id };
        region.bytes(layout.used + 4, 4).unwrap().write(0, id.to_le_bytes());
        memory.set_word(layout.used + 2, index);
        assert_eq!(driver.pop(4, |_, _| panic!("{id} is nobody's")), Err(reason), "{id} {index}");
        assert_eq!((driver.broken(), driver.used_ready(4)), (Some(reason), 0));
    }
}

#[test]
fn a_driver_takes_nothing_back_twice() {
    let mut memory = Memory::new(SIZE);
    let (region, layout) = (memory.region(), memory.layout());
    let mut slots = vec![Slot::EMPTY; SIZE.into()];
    let mut driver = Driver::new(region, &layout, BY_THE_BOOK, &mut slots).unwrap();
    assert!(driver.push(1u8, BUFFERS, 1, true) && driver.push(2, BUFFERS, 1, true));
    driver.publish();
    let head = memory.word(layout.available + 4);
    memory.set_word(layout.used + 4, head);
    memory.set_word(layout.used + 12, head);
    memory.set_word(layout.used + 2, 2);
    let mut tokens = Vec::new();
    assert_eq!(driver.pop(4, |token, _| tokens.push(token)), Ok(1));
    assert_eq!(driver.pop(4, |token, _| tokens.push(token)), Err(Broken::Entry));
    assert_eq!(tokens, [1]);
}

proptest! {
    /// Arbitrary contents of the rings: every buffer shown lies in the memory, and calls return.
    #[test]
    fn random_memory_harms_nobody(
        words in prop::collection::vec(any::<u16>(), 0x400),
        descriptors in prop::collection::vec((0..0x5_0000u64, 0..0x200u32, 0..8u16, 0..40u16), 64),
        index in 0..40u16,
        in_order: bool,
        indirect: bool,
        event_idx: bool,
    ) {
        let mut memory = Memory::new(SIZE);
        let region = memory.region();
        for (i, &word) in words.iter().enumerate() {
            memory.set_word(START + 2 * i as u64, word);
        }
        for (i, &(offset, len, flags, next)) in descriptors.iter().enumerate() {
            memory.describe_at(START + 0x2000 * u64::from(i >= 32), i as u16 % 32, (START - 0x100 + offset, len, flags, next));
        }
        let (layout, features) = (memory.layout(), Features { event_idx, indirect, in_order });
        memory.set_word(layout.available + 2, index);
        let mut device = memory.device(features);
        let mut burst = Burst::new();
        for round in 0..4 {
            let taken = match round {
                0 => device.take_readable(BURST, &mut burst),
                1 => device.take_writable(5, &mut burst),
                _ => device.take_mixed(BURST, &mut burst),
            };
            if taken.is_err() {
                prop_assert!(device.broken().is_some());
                break;
            }
            for chain in burst.chains() {
                for bytes in burst.readable(chain).iter().chain(burst.writable(chain)) {
                    let from = bytes.as_ptr() as u64 - region.translate(START, 0).unwrap() as u64;
                    prop_assert!(from + bytes.len() as u64 <= region.len());
                }
            }
            device.complete_all(&burst);
            device.publish();
            device.arm();
        }
    }

    /// The drivers' ends read only memory that the device writes: arbitrary used rings.
    #[test]
    fn drivers_survive_any_used_ring(
        entries in prop::collection::vec((0..20u32, any::<u32>()), 16),
        index: u16,
        pushed in 0..=16usize,
    ) {
        let mut memory = Memory::new(SIZE);
        let (region, layout) = (memory.region(), memory.layout());
        let mut tokens = vec![MaybeUninit::uninit(); SIZE.into()];
        let mut slots = vec![Slot::EMPTY; SIZE.into()];
        let in_order = Features { in_order: true, ..BY_THE_BOOK };
        let mut tuned = InOrderDriver::new(region, &layout, in_order, &mut tokens).unwrap();
        let mut book = Driver::new(region, &layout, BY_THE_BOOK, &mut slots).unwrap();
        for token in 0..pushed {
            prop_assert!(tuned.push(token, BUFFERS, 1, true) && book.push(token, BUFFERS, 1, true));
        }
        tuned.publish();
        book.publish();
        for (i, (id, len)) in entries.into_iter().enumerate() {
            let bytes = region.bytes(layout.used + 4 + 8 * i as u64, 8).unwrap();
            bytes.write(0, id.to_le_bytes());
            bytes.write(4, len.to_le_bytes());
        }
        memory.set_word(layout.used + 2, index);
        let mut back = [[0; 16]; 2];
        let _ = tuned.pop(100, |token, _| back[0][token] += 1);
        let _ = book.pop(100, |token, _| back[1][token] += 1);
        for (token, times) in back.iter().flat_map(|driver| driver.iter().enumerate()) {
            prop_assert!(*times <= i32::from(token < pushed));
        }
        prop_assert!(tuned.free() <= usize::from(SIZE) && book.free() <= usize::from(SIZE));
    }
}
