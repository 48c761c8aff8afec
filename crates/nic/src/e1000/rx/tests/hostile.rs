//! A driver that rewrites its ring while the device works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ring::e1000::Layout;

use super::*;

const START: u64 = 0x10_0000;
const RING: u64 = START + 0x1000;
/// Sizes in octets of the guest's memory, and of the guard memory around it.
const LEN: usize = 0x8000;
const AROUND: usize = 0x4000;
const ENTRIES: u16 = 64;
const CANARY: u8 = 0x99;

/// Buffer addresses: inside, at the end, over the end, and where there is no memory.
const PLACES: [u64; 6] = [
    START + 0x2000,
    START + LEN as u64 - 2048,
    START + LEN as u64 - 59,
    START + LEN as u64,
    u64::MAX - 100,
    0,
];

/// Rewrites the ring at random until stopped.
fn mutate(region: Region, ends: &HeadTail, stop: &AtomicBool) {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random >> 33
    };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..64 {
            let entry = RING + 16 * (next() % u64::from(ENTRIES));
            let place = PLACES[next() as usize % if next() % 64 == 0 { 6 } else { 2 }];
            region.bytes(entry, 8).unwrap().write(0, place.to_le_bytes());
        }
        let tail = if next() % 512 == 0 { next() as u16 } else { next() as u16 % ENTRIES };
        region.bytes(START + 64, 2).unwrap().write(0, tail.to_le_bytes());
        ends.set_tail(tail);
    }
}

#[test]
fn what_a_driver_rewrites_meanwhile_reaches_nothing_else() {
    for block in [None, Some(START)] {
        let octets = Box::leak(vec![CANARY; LEN + 2 * AROUND + 64].into_boxed_slice());
        let skew = octets.as_ptr().align_offset(64);
        let (before, rest) = octets[skew..].split_at_mut(AROUND);
        let (memory, behind) = rest.split_at_mut(LEN);
        memory.fill(0);
        let region = Region::from_static(memory, START);
        let (ends, stop, ledger) =
            (Arc::new(HeadTail::new()), AtomicBool::new(false), NicDirection::default());
        let (mut given, mut broken) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| mutate(region, &ends, &stop));
            let frames: Vec<_> = (0..40).map(|i| frame(i, 60 + usize::from(i) * 60)).collect();
            // On a busy machine the other thread may start late.
            let (start, mut round) = (Instant::now(), 0);
            let seen = |broken| ledger.frames.get() > 0 && broken > 0;
            while round < 3000 || (!seen(broken) && start.elapsed() < Duration::from_secs(60)) {
                round += 1;
                ends.set_head(round as u16 % ENTRIES);
                let (layout, settings) = (Layout { base: RING, entries: ENTRIES }, plain());
                let setup =
                    RxSetup { layout, ends: ends.clone(), block, statistics: Arc::default(), settings };
                let mut queue = RxQueue::new(region, &setup).unwrap();
                for _ in 0..4 {
                    given += fill(&mut queue, &ledger, &frames).taken as u64;
                }
                broken += u64::from(queue.broken().is_some());
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(ledger.frames.get() + ledger.drop_bad_ring.get(), given, "in = out + named drops");
        assert!(
            ledger.frames.get() > 0 && broken > 0,
            "{} frames, {broken} broken rings",
            ledger.frames.get()
        );
        assert!(before.iter().chain(behind.iter()).all(|&octet| octet == CANARY));
    }
}
