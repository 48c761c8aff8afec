use ring::split::DriverQueue;

use super::super::test_guest::{Guest, frame};
use super::*;

/// Calls `run` with these frames as a burst.
fn with_frames<T>(contents: &[Vec<u8>], run: impl FnOnce(&[Frame<'_>]) -> T) -> T {
    let mut contents = contents.to_vec();
    let frames: Vec<Frame<'_>> = contents.iter_mut().map(|c| Frame::new(Bytes::from_slice(c))).collect();
    run(&frames)
}

fn fill(queue: &mut RxQueue, ledger: &NicDirection, contents: &[Vec<u8>]) -> Filled {
    with_frames(contents, |frames| queue.fill(frames, ledger))
}

/// Returns a frame as the driver sees it.
/// Returns a frame as the driver sees it, with its header.
fn received(frame: &[u8], buffers: u8) -> Vec<u8> {
    [&[0; 10][..], &[buffers, 0], frame].concat()
}

#[test]
fn each_frame_is_copied_into_its_buffer() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    let frames: Vec<_> = (0..20).map(|i| frame(i, 14 + i * 70)).collect();
    let posted: Vec<_> = (0..20).map(|i| guest.post(i, &[2048])).collect();
    assert_eq!(queue.room(), 20);
    assert_eq!(fill(&mut queue, &ledger, &frames), Filled { taken: 20, interrupt: true });
    let back = guest.back();
    assert_eq!(back.len(), 20);
    for (i, (token, written)) in back.into_iter().enumerate() {
        assert_eq!((usize::from(token), written as usize), (i, 12 + frames[i].len()));
        assert_eq!(guest.content(&posted[i])[..written as usize], received(&frames[i], 1));
    }
    assert_eq!((ledger.frames.get(), ledger.batches.get(), ledger.interrupts.get()), (20, 1, 1));
    assert_eq!(ledger.bytes.get(), frames.iter().map(Vec::len).sum::<usize>() as u64);
    assert_eq!(queue.room(), 0);
}

#[test]
fn header_and_frame_may_be_posted_apart() {
    for mergeable in [false, true] {
        let mut guest = Guest::new(64);
        let mut queue = RxQueue::new(guest.device(), mergeable);
        let ledger = NicDirection::default();
        let contents = [frame(1, 60), frame(2, 100), frame(3, 33)];
        let posted = [guest.post(0, &[12, 2000]), guest.post(1, &[5, 7, 50, 50]), guest.post(2, &[2000])];
        assert_eq!(fill(&mut queue, &ledger, &contents).taken, 3);
        assert_eq!(guest.back(), [(0, 72), (1, 112), (2, 45)]);
        for (content, posted) in contents.iter().zip(&posted) {
            assert_eq!(guest.content(posted)[..12 + content.len()], received(content, 1));
        }
    }
}

#[test]
fn frames_without_a_buffer_are_left_to_their_owner() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    let frames = [frame(1, 60), frame(2, 60), frame(3, 60)];
    assert_eq!(fill(&mut queue, &ledger, &frames), Filled::default());
    guest.post(0, &[2048]);
    guest.post(1, &[2048]);
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 2);
    assert_eq!(guest.back(), [(0, 72), (1, 72)]);
    assert_eq!((ledger.frames.get(), ledger.drop_no_buffer.get(), ledger.batches.get()), (2, 0, 1));
}

#[test]
fn a_frame_too_long_for_its_buffer_is_dropped_and_the_buffer_kept() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    let posted = guest.post(0, &[112]);
    guest.post(1, &[112]);
    let frames = [frame(1, 101), frame(2, 100), frame(3, 2000), frame(4, 20)];
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 4);
    assert_eq!(guest.back(), [(0, 112), (1, 32)]);
    assert_eq!(guest.content(&posted), received(&frames[1], 1));
    assert_eq!((ledger.frames.get(), ledger.drop_too_long.get()), (2, 2));
}

#[test]
fn mergeable_buffers_hold_a_frame_together() {
    // Combines every frame length with every buffer length, with several frames a burst.
    for buffer in [13, 40, 64, 100, 1536] {
        let mut guest = Guest::new(128);
        let mut queue = RxQueue::new(guest.device(), true);
        let ledger = NicDirection::default();
        let frames: Vec<_> =
            [14, buffer - 12, buffer - 11, 2 * buffer - 12, 300].map(|len| frame(len, len)).into();
        let posted: Vec<_> = (0..100).map(|i| guest.post(i, &[buffer])).collect();
        let mut taken = 0;
        while taken < frames.len() {
            let more = fill(&mut queue, &ledger, &frames[taken..]).taken;
            assert!(more > 0);
            taken += more;
        }
        let back = guest.back();
        let mut at = 0;
        for content in &frames {
            let count = (12 + content.len()).div_ceil(buffer);
            let lengths: Vec<u32> = back[at..at + count].iter().map(|&(_, written)| written).collect();
            assert_eq!(lengths.iter().sum::<u32>() as usize, 12 + content.len());
            assert!(lengths[..count - 1].iter().all(|&written| written as usize == buffer));
            let whole: Vec<u8> =
                posted[at..at + count].iter().flat_map(|posted| guest.content(posted)).collect();
            assert_eq!(whole[..12 + content.len()], received(content, count as u8));
            at += count;
        }
        assert_eq!(back.len(), at);
        assert_eq!(ledger.frames.get(), 5);
    }
}

#[test]
fn mergeable_frames_are_published_whole_or_not_at_all() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), true);
    let ledger = NicDirection::default();
    (0..4).for_each(|i| drop(guest.post(i, &[100])));
    let frames = [frame(1, 150), frame(2, 250), frame(3, 50)];
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 1);
    assert_eq!(guest.back(), [(0, 100), (1, 62)]);
    guest.post(9, &[100]);
    assert_eq!(fill(&mut queue, &ledger, &frames[1..]).taken, 1);
    assert_eq!(guest.back(), [(2, 100), (3, 100), (9, 62)]);
    assert_eq!(ledger.frames.get(), 2);
}

#[test]
fn a_frame_that_a_full_ring_cannot_hold_is_dropped() {
    let mut guest = Guest::new(16);
    let mut queue = RxQueue::new(guest.device(), true);
    let ledger = NicDirection::default();
    (0..16).for_each(|i| drop(guest.post(i, &[20])));
    let frames = [frame(1, 1500), frame(2, 60)];
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 2);
    assert_eq!((ledger.drop_too_long.get(), ledger.frames.get()), (1, 1));
    assert_eq!(guest.back().len(), 4);
}

#[test]
fn leases_are_committed_in_any_order() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    let posted: Vec<_> = (0..4).map(|i| guest.post(i, &[2048])).collect();
    let (slow, fast) = ([frame(1, 60), frame(2, 61)], [frame(3, 62), frame(4, 63), frame(5, 64)]);
    let (mut first, mut second) = (Lease::default(), Lease::default());
    with_frames(&slow, |slow| assert_eq!(queue.plan(slow, &mut first, &ledger), 2));
    with_frames(&fast, |fast| {
        assert_eq!(queue.plan(fast, &mut second, &ledger), 2);
        second.copy(fast);
    });
    assert!(queue.commit(&mut second, &ledger));
    assert_eq!(guest.back(), [(2, 74), (3, 75)]);
    assert_eq!(guest.content(&posted[2])[..74], received(&fast[0], 1));
    with_frames(&slow, |slow| first.copy(slow));
    assert!(queue.commit(&mut first, &ledger));
    assert_eq!(guest.back(), [(0, 72), (1, 73)]);
    assert_eq!(guest.content(&posted[1])[..73], received(&slow[1], 1));
    // A second commit has no effect.
    assert!(!queue.commit(&mut first, &ledger));
    assert_eq!((guest.back(), ledger.frames.get()), (vec![], 4));
}

#[test]
fn a_lease_of_a_queue_before_a_reset_touches_nothing() {
    let mut guest = Guest::new(64);
    let mut old = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    guest.post(0, &[2048]);
    let mut lease = Lease::default();
    with_frames(&[frame(1, 60)], |frames| old.plan(frames, &mut lease, &ledger));
    let mut new = RxQueue::new(guest.device(), false);
    assert!(!new.commit(&mut lease, &ledger));
    assert_eq!((guest.back(), ledger.frames.get()), (vec![], 0));
}

#[test]
fn frames_for_a_broken_ring_are_counted() {
    let mut guest = Guest::new(8);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    guest.post(1, &[2048]);
    guest.break_ring();
    let frames = [frame(1, 60), frame(2, 60)];
    assert_eq!(fill(&mut queue, &ledger, &frames), Filled { taken: 2, interrupt: false });
    assert_eq!((ledger.drop_bad_ring.get(), queue.room(), queue.arm()), (2, 0, false));
}

#[test]
fn a_read_only_buffer_on_a_receive_queue_breaks_it() {
    let mut guest = Guest::new(8);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    guest.send(1, &frame(1, 60), &[]);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 60)]).taken, 1);
    assert_eq!((queue.broken(), ledger.drop_bad_ring.get()), (Some(Broken::Direction), 1));
}

#[test]
fn a_driver_that_polls_gets_no_interrupt() {
    let mut guest = Guest::new(8);
    let mut queue = RxQueue::new(guest.device(), false);
    let ledger = NicDirection::default();
    guest.driver.disarm();
    guest.post(1, &[2048]);
    assert!(!fill(&mut queue, &ledger, &[frame(1, 60)]).interrupt);
    assert_eq!((ledger.interrupts.get(), ledger.interrupts_suppressed.get()), (0, 1));
}
