use ring::split::DriverQueue;

use super::super::test_guest::{Guest, frame};
use super::*;

/// Drains once; returns the frames shown.
fn drain(queue: &mut TxQueue, ledger: &NicDirection, budget: usize) -> (Vec<Vec<u8>>, Drained) {
    let mut shown = Vec::new();
    let drained = queue.drain(budget, ledger, &mut |frames| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            shown.push(octets);
        }
    });
    (shown, drained)
}

#[test]
fn frames_are_shown_where_they_lie_and_come_back_in_order() {
    let mut guest = Guest::new(64);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    // In one buffer, and with the header in a buffer of its own.
    for pieces in [&[][..], &[HEADER]] {
        let mut places = Vec::new();
        for i in 0..20 {
            let segments = guest.send(i, &frame(i.into(), 60 + usize::from(i)), pieces);
            let last = *segments.last().unwrap();
            let skip = if pieces.is_empty() { HEADER as u64 } else { 0 };
            places.push(guest.region.translate(last.address + skip, 1).unwrap());
        }
        let mut shown = Vec::new();
        let drained = queue.drain(64, &ledger, &mut |frames| {
            shown = frames.iter().map(|frame| frame.octets().as_ptr()).collect();
            for (i, shown) in frames.iter().enumerate() {
                let mut octets = vec![0; shown.len()];
                shown.octets().copy_to_slice(&mut octets);
                assert_eq!(octets, frame(i, 60 + i));
            }
        });
        assert_eq!(drained, Drained { frames: 20, interrupt: true });
        assert_eq!(shown, places);
        assert_eq!(guest.back(), (0..20).map(|i| (i, 0)).collect::<Vec<_>>());
    }
    assert_eq!((ledger.frames.get(), ledger.batches.get(), ledger.interrupts.get()), (40, 2, 2));
    assert_eq!(ledger.bytes.get(), 2 * (0..20).map(|i| 60 + i).sum::<u64>());
}

#[test]
fn an_empty_queue_is_an_empty_poll() {
    let guest = Guest::new(8);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    assert_eq!(queue.drain(64, &ledger, &mut |_| panic!("nothing to show")), Drained::default());
    assert_eq!((ledger.polls_empty.get(), ledger.interrupts_suppressed.get()), (1, 0));
    assert!(!queue.has_frames());
}

#[test]
fn a_driver_that_polls_gets_no_interrupt() {
    let mut guest = Guest::new(8);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    guest.driver.disarm();
    guest.send(1, &frame(1, 60), &[]);
    assert!(queue.has_frames());
    assert!(!drain(&mut queue, &ledger, 64).1.interrupt);
    assert_eq!((ledger.interrupts.get(), ledger.interrupts_suppressed.get()), (0, 1));
}

#[test]
fn frames_in_any_pieces_are_gathered() {
    let mut guest = Guest::new(128);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    let pieces: [&[usize]; 7] = [&[5, 7], &[5, 8], &[1; 40], &[13], &[12, 14], &[12, 1, 1, 1], &[40, 40]];
    for (i, pieces) in pieces.into_iter().enumerate() {
        guest.send(i as u16, &frame(i, 100 + i), pieces);
    }
    let (shown, drained) = drain(&mut queue, &ledger, 64);
    assert_eq!(drained.frames, pieces.len());
    assert_eq!(shown, (0..pieces.len()).map(|i| frame(i, 100 + i)).collect::<Vec<_>>());
    assert_eq!(guest.back().len(), pieces.len());
}

#[test]
fn what_cannot_be_gathered_at_once_comes_with_the_next_burst() {
    const LONGEST: usize = 9014;
    const AT_ONCE: usize = (GATHER + LONGEST) / LONGEST;
    const ALL: usize = AT_ONCE + 20;
    let mut guest = Guest::new(256);
    let mut queue = TxQueue::new(guest.device(), LONGEST);
    let ledger = NicDirection::default();
    let segments = guest.send(0, &frame(7, LONGEST), &[100]);
    for token in 1..ALL {
        assert!(guest.driver.push_chain(token as u16, &segments));
    }
    guest.driver.publish();
    let (mut shown, drained) = drain(&mut queue, &ledger, 64);
    assert_eq!((shown.len(), drained.frames), (AT_ONCE, AT_ONCE));
    shown.extend(drain(&mut queue, &ledger, 64).0);
    assert_eq!(shown, vec![frame(7, LONGEST); ALL]);
    assert_eq!(guest.back(), (0..ALL).map(|i| (i as u16, 0)).collect::<Vec<_>>());
    assert_eq!(ledger.frames.get(), ALL as u64);
}

#[test]
fn lengths_out_of_bounds_are_counted_drops() {
    for pieces in [&[][..], &[12], &[3, 15]] {
        let mut guest = Guest::new(64);
        let mut queue = TxQueue::new(guest.device(), 1514);
        let ledger = NicDirection::default();
        for (i, len) in [0, 13, 14, 1514, 1515, 9000].into_iter().enumerate() {
            guest.send(i as u16, &frame(i, len), pieces);
        }
        let (shown, drained) = drain(&mut queue, &ledger, 64);
        assert_eq!(drained.frames, 6);
        assert_eq!(shown, [frame(2, 14), frame(3, 1514)]);
        assert_eq!((ledger.drop_too_short.get(), ledger.drop_too_long.get(), ledger.frames.get()), (2, 2, 2));
        assert_eq!(guest.back().len(), 6);
    }
}

#[test]
fn a_chain_of_too_many_buffers_is_a_frame_too_long() {
    let mut guest = Guest::new(128);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    guest.send(1, &frame(1, 200), &[1; 70]);
    guest.send(2, &frame(2, 200), &[]);
    let (shown, drained) = drain(&mut queue, &ledger, 64);
    assert_eq!((shown, drained.frames), (vec![frame(2, 200)], 2));
    assert_eq!(ledger.drop_too_long.get(), 1);
}

#[test]
fn less_than_a_header_is_too_short() {
    let mut guest = Guest::new(8);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    let address = guest.room(64);
    for len in [0, 1, 11, 12] {
        assert!(guest.driver.push(len as u16, address, len, false));
    }
    guest.driver.publish();
    assert_eq!(drain(&mut queue, &ledger, 64).1.frames, 4);
    assert_eq!((ledger.drop_too_short.get(), ledger.batches.get()), (4, 0));
}

#[test]
fn a_broken_ring_is_counted_once_and_stays_broken() {
    let mut guest = Guest::new(8);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    guest.send(1, &frame(1, 60), &[]);
    guest.break_ring();
    for _ in 0..3 {
        assert_eq!(queue.drain(64, &ledger, &mut |_| panic!("nothing to show")), Drained::default());
    }
    assert_eq!((queue.broken(), queue.arm()), (Some(Broken::Index), false));
    assert_eq!(ledger.drop_bad_ring.get(), 1);
}

#[test]
fn the_budget_is_kept() {
    let mut guest = Guest::new(64);
    let mut queue = TxQueue::new(guest.device(), 1514);
    let ledger = NicDirection::default();
    for i in 0..10 {
        guest.send(i, &frame(i.into(), 60), &[]);
    }
    for (budget, expected) in [(3, 0..3), (4, 3..7), (64, 7..10)] {
        assert_eq!(drain(&mut queue, &ledger, budget).0, expected.map(|i| frame(i, 60)).collect::<Vec<_>>());
    }
}
