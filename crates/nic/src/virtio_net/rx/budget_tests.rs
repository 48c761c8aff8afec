//! Upper bounds of the cost of a burst, whatever chains the driver posts.

use ring::split::{DriverQueue, MAX_DESCRIPTORS, Segment};

use super::super::test_guest::{Guest, frame};
use super::*;

/// Posts chains of the maximum length in which only the last descriptor has a buffer, of `octets` octets.
fn post_long(guest: &mut Guest, chains: u16, octets: u32) {
    let empty = Segment { address: guest.room(2048), len: 0, writable: true };
    let mut segments = vec![empty; usize::from(MAX_DESCRIPTORS) - 2];
    segments.push(Segment { len: octets, ..empty });
    let table = guest.room(16 * segments.len());
    (0..chains).for_each(|chain| assert!(guest.driver.push_indirect(chain, table, &segments)));
    guest.driver.publish();
}

/// Fills as a thread that shares the queue with others does; returns how many frames were handled.
fn fill_by_leases(queue: &mut RxQueue, frames: &[Frame<'_>], ledger: &NicDirection) -> usize {
    let (mut lease, mut taken) = (Lease::default(), 0);
    loop {
        let rest = &frames[taken..];
        taken += queue.plan(rest, &mut lease, ledger);
        lease.copy(rest);
        let full = lease.is_full();
        queue.commit(&mut lease, ledger);
        if !full {
            return taken;
        }
    }
}

/// Calls `run` with a burst of frames.
fn with_burst<T>(len: usize, run: impl FnOnce(&[Frame<'_>]) -> T) -> T {
    let mut contents: Vec<Vec<u8>> = (0..BURST).map(|i| frame(i, len)).collect();
    let frames: Vec<Frame<'_>> = contents.iter_mut().map(|c| Frame::new(Bytes::from_slice(c))).collect();
    run(&frames)
}

#[test]
fn long_chains_cost_a_burst_of_frames_no_more_than_its_budget() {
    for (mergeable, leases) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut guest = Guest::new(256);
        let mut queue = RxQueue::new(guest.device(), mergeable);
        let ledger = NicDirection::default();
        post_long(&mut guest, 256, 2048);
        let (mut fills, mut taken) = (0, 0);
        with_burst(60, |frames| {
            while taken < frames.len() {
                let rest = &frames[taken..];
                let one = if leases {
                    fill_by_leases(&mut queue, rest, &ledger)
                } else {
                    queue.fill(rest, &ledger).taken
                };
                assert!(one > 0, "no progress at {taken}");
                let chains = guest.back().len();
                assert_eq!(chains, one);
                let (read, most) = (chains * usize::from(MAX_DESCRIPTORS), STEPS + 4 * BURST + 512);
                assert!(read <= most, "{read} descriptors for {chains} chains");
                (fills, taken) = (fills + 1, taken + one);
            }
        });
        assert!(fills > 1, "it would have been too much for one");
        assert_eq!((ledger.frames.get(), ledger.drop_too_long.get()), (BURST as u64, 0));
    }
}

#[test]
fn a_frame_for_more_chains_than_a_burst_may_read_is_dropped_and_stops_nobody() {
    let mut guest = Guest::new(256);
    let mut queue = RxQueue::new(guest.device(), true);
    let ledger = NicDirection::default();
    post_long(&mut guest, 256, 80);
    let mut contents = [frame(1, 60), frame(2, 1000), frame(3, 60)];
    let frames = contents.each_mut().map(|content| Frame::new(Bytes::from_slice(content)));
    assert_eq!(queue.fill(&frames, &ledger).taken, 3);
    assert_eq!(guest.back(), [(0, 72), (1, 72)]);
    assert_eq!((ledger.frames.get(), ledger.drop_too_long.get(), ledger.drop_bad_ring.get()), (2, 1, 0));
}

#[test]
fn a_burst_of_frames_finds_its_room_in_chains_of_pages() {
    // Chains that Linux posts for large frames without mergeable buffers: header, head, pages.
    let lengths = [&[12, 100][..], &[64; 17]].concat();
    for (mergeable, leases) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut guest = Guest::new(2048);
        let mut queue = RxQueue::new(guest.device(), mergeable);
        let ledger = NicDirection::default();
        (0..BURST as u16).for_each(|chain| drop(guest.post(chain, &lengths)));
        let taken = with_burst(1000, |frames| {
            if leases {
                fill_by_leases(&mut queue, frames, &ledger)
            } else {
                queue.fill(frames, &ledger).taken
            }
        });
        assert_eq!((taken, guest.back().len()), (BURST, BURST), "mergeable {mergeable}, leases {leases}");
    }
}
