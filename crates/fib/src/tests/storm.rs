//! Updates that are faster than readers leave removed entries.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use super::*;
use crate::{OFFLINE, oldest};

#[test]
fn the_oldest_reader_counts_and_who_is_offline_or_ahead_does_not() {
    let cases: [(u32, &[u32], u32); 8] = [
        (9, &[], 9),
        (9, &[9, 9], 9),
        (9, &[9, 4, 7], 4),
        (9, &[OFFLINE, 8], 8),
        (9, &[OFFLINE, OFFLINE], 9),
        // A wrong word.
        (9, &[12], 9),
        (9, &[12, 8], 8),
        // Epochs wrap, past the value that means offline.
        (2, &[u32::MAX, 1], u32::MAX),
    ];
    for (epoch, words, expected) in cases {
        assert_eq!(oldest(epoch, words.iter().copied()), expected, "{epoch} {words:?}");
    }
}

#[test]
fn the_epoch_wraps_around_and_is_never_the_word_for_offline() {
    let mut rib = Rib::new(memory(1));
    rib.epoch = u32::MAX - 1;
    assert_eq!([rib.publish(), rib.publish(), rib.publish()], [u32::MAX, 1, 2]);
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    rib.epoch = u32::MAX;
    rib.remove(0x0a00_0000, 25).unwrap();
    let epoch = rib.publish();
    rib.reclaim_for([u32::MAX]);
    assert_eq!(rib.retired(), 2, "the last epoch is not over for everybody");
    rib.reclaim_for([epoch]);
    assert_eq!(rib.retired(), 0);
}

#[test]
fn a_route_that_flaps_takes_no_more_room_though_a_reader_never_moves() {
    let memory = memory(2);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(0x0a00_0000, 16, via(9)).unwrap();
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    let stuck = rib.publish();
    // The reader stays between the two steps of a lookup.
    let step = table.first(0x0a00_0001);
    for round in 0..50_000u32 {
        rib.remove(0x0a00_0000, 25).unwrap();
        rib.publish();
        rib.reclaim_for([stuck]);
        assert_eq!(lookup(&table, 0x0a00_0001), via(9));
        assert_eq!(table.next_hop(table.second(step)), via(9), "what covers it shows through");
        rib.add(0x0a00_0000, 25, via(round % 2 + 1)).unwrap();
        rib.publish();
        assert_eq!(lookup(&table, 0x0a00_0001), via(round % 2 + 1));
        assert_eq!(table.next_hop(table.second(step)), via(round % 2 + 1), "the group is still its own");
        assert!(rib.retired() <= 3, "{}", rib.retired());
    }
}

#[test]
fn updates_go_on_around_a_reader_that_never_moves_until_it_is_fenced() {
    const GROUPS: u32 = 64;
    let memory = memory(GROUPS as usize);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    let stuck = rib.publish();
    let step = table.first(0x0a00_0001);
    let mut waiting = None;
    for net in 1..=2 * GROUPS {
        let prefix = 0x0a00_0000 | net << 8;
        if rib.add(prefix, 25, via(net)) == Err(Error::Waiting) {
            waiting = Some(net);
            break;
        }
        rib.remove(prefix, 25).unwrap();
        rib.publish();
        rib.reclaim_for([stuck, rib.epoch()]);
        assert_eq!(table.next_hop(table.second(step)), via(1), "no group is used again under its eyes");
    }
    assert_eq!(waiting, Some(GROUPS), "each took a group, and then there was none");
    // Shorter routes, and those in networks that have a group already, need no new group.
    rib.add(0x0b00_0000, 24, via(7)).unwrap();
    rib.add(0x0a00_0080, 26, via(8)).unwrap();
    // The reader was fenced: its word does not count any more.
    rib.publish();
    rib.reclaim_for([]);
    for net in 1..GROUPS {
        rib.add(0x0c00_0000 | net << 8, 25, via(net)).expect("every other group came back");
    }
    assert_eq!(rib.add(0x0d00_0000, 25, via(1)), Err(Error::Groups));
}

#[test]
fn who_says_it_is_offline_while_it_reads_goes_astray_itself() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    rib.publish();
    let step = table.first(0x0a00_0001);
    rib.remove(0x0a00_0000, 25).unwrap();
    rib.publish();
    rib.reclaim_for([OFFLINE]);
    rib.add(0x0b00_0000, 25, via(2)).unwrap();
    assert_eq!(table.next_hop(table.second(step)), via(2), "so the tests above can fail");
    assert_eq!(lookup(&table, 0x0b00_0001), via(2));
}

/// Number of /24s of the test below: more than there are groups.
const NETS: u32 = 16;
/// Number of updates for a meaningful result.
const ENOUGH: u64 = 1000;

/// A reader like the firmware: online while it looks routes up, offline in between.
fn read(table: &Table<'_>, word: &AtomicU32, stop: &AtomicBool, naps: bool) -> u64 {
    let mut lookups = 0;
    while !stop.load(Relaxed) {
        word.store(table.epoch(), Relaxed);
        fence(SeqCst);
        for _ in 0..100 {
            for net in 0..NETS {
                let found = lookup(table, 0x0a00_0001 | net << 8);
                assert!(found == via(net) || found == NextHop::None, "{net}: {found:?}");
                lookups += 1;
            }
            // The epoch may change between two lookups.
            word.store(table.epoch(), Release);
        }
        if naps {
            word.store(OFFLINE, Release);
            std::thread::yield_now();
        }
    }
    word.store(OFFLINE, Release);
    lookups
}

#[test]
fn readers_that_come_and_go_never_see_a_foreign_route_while_two_groups_serve_sixteen_networks() {
    let memory = memory(2);
    let mut rib = Rib::new(memory);
    rib.publish();
    let words = [const { AtomicU32::new(OFFLINE) }; 2];
    let stop = AtomicBool::new(false);
    let (mut updates, mut waits) = (0u64, 0u64);
    let lookups: u64 = std::thread::scope(|scope| {
        let (stop, words) = (&stop, &words);
        let readers = [true, false].map(|naps| {
            scope.spawn(move || read(&Table::new(memory), &words[usize::from(naps)], stop, naps))
        });
        let start = std::time::Instant::now();
        // Two seconds; more if other processes use the CPUs.
        let goes_on = |updates| start.elapsed().as_secs() < if updates > ENOUGH { 2 } else { 30 };
        let mut random = synthetic::Random::new(8);
        while goes_on(updates) && !readers.iter().any(|reader| reader.is_finished()) {
            let net = random.below(NETS);
            let prefix = 0x0a00_0000 | net << 8;
            match rib.add(prefix, 25, via(net)) {
                Ok(()) => {
                    rib.publish();
                    rib.remove(prefix, 25).unwrap();
                    rib.publish();
                    updates += 1;
                }
                Err(error) => {
                    assert_eq!(error, Error::Waiting);
                    waits += 1;
                    std::thread::yield_now();
                }
            }
            rib.reclaim_for(words.iter().map(|word| word.load(Acquire)));
        }
        stop.store(true, Relaxed);
        readers.into_iter().map(|reader| reader.join().expect("a reader")).sum()
    });
    std::println!("{updates} updates, {waits} waits, {lookups} lookups");
    assert!(updates > ENOUGH && lookups > 10_000, "{updates} updates, {waits} waits, {lookups} lookups");
}
