mod checksums;
mod filters;
mod guest;
mod hostile;
mod leases;
mod properties;

use ring::Bytes;
use ring::e1000::Received;

use super::super::{Filters, RxChecksum};
use super::*;
use guest::{Guest, OWN, frame, plain};

/// Calls `run` with these frames as a burst.
fn with_frames<T>(contents: &[Vec<u8>], run: impl FnOnce(&[Frame<'_>]) -> T) -> T {
    let mut contents = contents.to_vec();
    let frames: Vec<Frame<'_>> = contents.iter_mut().map(|c| Frame::new(Bytes::from_slice(c))).collect();
    run(&frames)
}

fn fill(queue: &mut RxQueue, ledger: &NicDirection, contents: &[Vec<u8>]) -> Filled {
    with_frames(contents, |frames| queue.fill(frames, ledger))
}

#[test]
fn each_frame_is_copied_into_its_buffer() {
    for block in [false, true] {
        let mut guest = Guest::new(64, block);
        let mut queue = guest.queue(plain());
        let ledger = NicDirection::default();
        let frames: Vec<_> = (0..20).map(|i| frame(i, 60 + usize::from(i) * 70)).collect();
        guest.post(40);
        assert_eq!(queue.room(), 40);
        assert_eq!(fill(&mut queue, &ledger, &frames), Filled { taken: 20, causes: cause::RXT0 });
        let back = guest.back();
        assert_eq!(back.len(), 20);
        for ((content, received), frame) in back.iter().zip(&frames) {
            let expected = Received {
                length: frame.len() as u16,
                status: rx::DD | rx::EOP | rx::IXSM,
                ..Received::default()
            };
            assert_eq!((content, received), (frame, &expected));
        }
        assert_eq!((ledger.frames.get(), ledger.batches.get()), (20, 1));
        assert_eq!(ledger.bytes.get(), frames.iter().map(Vec::len).sum::<usize>() as u64);
        assert_eq!((queue.room(), guest.head()), (20, 20));
    }
}

#[test]
fn with_a_block_only_who_sleeps_is_interrupted() {
    let mut guest = Guest::new(64, true);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(40);
    guest.driver().disarm();
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 60)]).causes, 0);
    assert_eq!(ledger.interrupts_suppressed.get(), 1);
    assert_eq!(guest.back().len(), 1);
    assert!(!guest.driver().arm());
    assert_eq!(fill(&mut queue, &ledger, &[frame(2, 60)]).causes, cause::RXT0);
    assert_eq!(ledger.interrupts.get(), 1);
    queue.disarm();
    assert!(!guest.post(1), "who polls is not kicked");
    assert!(queue.arm(), "buffers are posted: it must not sleep");
    guest.back();
    let all: Vec<_> = (0..39).map(|i| frame(i, 60)).collect();
    assert_eq!(fill(&mut queue, &ledger, &all).taken, 39);
    assert!(!queue.arm());
    assert!(guest.post(1), "who sleeps is kicked");
}

#[test]
fn frames_without_a_buffer_are_left_to_their_owner() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(3);
    let frames: Vec<_> = (0..5).map(|i| frame(i, 60)).collect();
    let filled = fill(&mut queue, &ledger, &frames);
    assert_eq!((filled.taken, filled.causes & cause::RXO), (3, cause::RXO));
    assert_eq!(ledger.frames.get(), 3);
    assert_eq!(fill(&mut queue, &ledger, &frames[3..]), Filled { taken: 0, causes: cause::RXO });
    guest.post(2);
    let filled = fill(&mut queue, &ledger, &frames[3..]);
    assert_eq!((filled.taken, filled.causes & cause::RXO), (2, 0));
    let back: Vec<_> = guest.back().into_iter().map(|(content, _)| content).collect();
    assert_eq!(back, frames);
}

#[test]
fn few_buffers_are_told_once_when_they_become_few() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(RxSettings { threshold: 4, ..plain() });
    let ledger = NicDirection::default();
    let low = |queue: &mut RxQueue| fill(queue, &ledger, &[frame(1, 60)]).causes & cause::RXDMT0 != 0;
    guest.post(6);
    assert!(!low(&mut queue), "5 are left of 16");
    assert!(low(&mut queue), "4 are");
    assert!(!low(&mut queue), "it was told");
    guest.post(4);
    assert!(!low(&mut queue), "6 are");
    assert!(!low(&mut queue));
    assert!(low(&mut queue), "4 again");
}

#[test]
fn a_short_frame_is_as_long_as_on_a_wire() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(4);
    let frames = [frame(1, 14), frame(2, 42), frame(3, 13), frame(4, 0), frame(5, 59)];
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 5);
    let back = guest.back();
    for ((content, _), frame) in back.iter().zip([&frames[0], &frames[1], &frames[4]]) {
        let mut expected = frame.clone();
        expected.resize(60, 0);
        assert_eq!(content, &expected);
    }
    assert_eq!((back.len(), ledger.frames.get(), ledger.drop_too_short.get()), (3, 3, 2));
    assert_eq!(ledger.bytes.get(), 14 + 42 + 59);
}

#[test]
fn room_for_an_fcs_counts_unless_it_is_stripped() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(RxSettings { fcs: true, ..plain() });
    let ledger = NicDirection::default();
    guest.post(4);
    let sent = [frame(1, 60), frame(2, 40), frame(3, 2047)];
    assert_eq!(fill(&mut queue, &ledger, &sent[..2]).taken, 2);
    let back: Vec<_> = guest.back().into_iter().map(|(content, _)| content).collect();
    let mut expected = sent.clone();
    expected[0].resize(64, 0);
    expected[1].resize(64, 0);
    assert_eq!(back, expected[..2]);
    // The FCS may lie in the next buffer.
    assert_eq!(fill(&mut queue, &ledger, &sent[2..]).taken, 1);
    let lengths: Vec<_> = guest.back().into_iter().map(|(_, received)| received.length).collect();
    assert_eq!(lengths, [2048, 3]);
}

#[test]
fn a_frame_longer_than_rctl_lets_pass_is_dropped() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(RxSettings { longest: 1518, ..plain() });
    let ledger = NicDirection::default();
    guest.post(4);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 1519), frame(2, 1518), frame(3, 9000)]).taken, 3);
    assert_eq!(guest.back().len(), 1);
    assert_eq!((ledger.frames.get(), ledger.drop_too_long.get()), (1, 2));
}

#[test]
fn a_long_frame_fills_several_buffers() {
    for block in [false, true] {
        let mut guest = Guest::new(64, block);
        let mut queue = guest.queue(RxSettings { buffer_len: 256, longest: 9000, ..plain() });
        let ledger = NicDirection::default();
        guest.post(63);
        let long = frame(7, 700);
        let frames = [frame(1, 256), long.clone(), frame(2, 60), frame(3, 257), frame(4, 512)];
        assert_eq!(fill(&mut queue, &ledger, &frames), Filled { taken: 5, causes: cause::RXT0 });
        let back = guest.back();
        let told: Vec<_> = back.iter().map(|(_, r)| (r.length, r.status & !rx::IXSM)).collect();
        let (all, more) = (rx::DD | rx::EOP, rx::DD);
        let lengths = [(256, all), (256, more), (256, more), (188, all), (60, all), (256, more), (1, all)];
        assert_eq!(told, [&lengths[..], &[(256, more), (256, all)]].concat());
        let pieces: Vec<u8> = back[1..4].iter().flat_map(|(content, _)| content.clone()).collect();
        assert_eq!(pieces, long);
        assert_eq!((ledger.frames.get(), queue.room()), (5, 63 - 9));
    }
}

#[test]
fn a_burst_of_long_frames_needs_more_than_one_lease() {
    let mut guest = Guest::new(512, true);
    let mut queue = guest.queue(RxSettings { buffer_len: 256, ..plain() });
    let ledger = NicDirection::default();
    guest.post(511);
    let frames: Vec<_> = (0..64).map(|i| frame(i, 1514)).collect();
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 64);
    assert_eq!((ledger.frames.get(), guest.back().len()), (64, 384));
}

#[test]
fn a_long_frame_waits_until_there_are_buffers_for_all_of_it() {
    let mut guest = Guest::new(64, false);
    let mut queue = guest.queue(RxSettings { buffer_len: 256, longest: 4096, ..plain() });
    let ledger = NicDirection::default();
    guest.post(3);
    let long = [frame(1, 1000), frame(2, 60)];
    assert_eq!(fill(&mut queue, &ledger, &long).taken, 0);
    assert!(guest.back().is_empty());
    guest.post(2);
    assert_eq!(fill(&mut queue, &ledger, &long).taken, 2);
    assert_eq!(guest.back().len(), 5);
    // The frame can never fit into this ring: it is not kept for later.
    let mut guest = Guest::new(8, false);
    let mut queue = guest.queue(RxSettings { buffer_len: 256, longest: 4096, ..plain() });
    guest.post(7);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 256 * 8)]).taken, 1);
    assert_eq!(ledger.drop_too_long.get(), 1);
}

#[test]
fn a_buffer_outside_of_memory_stops_the_ring_behind_what_came_before() {
    for (address, block) in [(0, false), (u64::MAX, false), (Guest::END, true), (Guest::END - 59, true)] {
        let mut guest = Guest::new(16, block);
        let mut queue = guest.queue(plain());
        let ledger = NicDirection::default();
        guest.post(6);
        guest.rewrite(2, address);
        let frames: Vec<_> = (0..5).map(|i| frame(i, 60)).collect();
        let filled = fill(&mut queue, &ledger, &frames);
        assert_eq!((filled.taken, filled.causes), (5, cause::RXT0), "{address:#x}");
        assert_eq!((ledger.frames.get(), ledger.drop_bad_ring.get()), (2, 3));
        assert_eq!((queue.broken(), queue.room(), queue.arm()), (Some(Broken::Address), 0, false));
        assert_eq!(fill(&mut queue, &ledger, &frames), Filled { taken: 5, causes: 0 });
        assert_eq!(ledger.drop_bad_ring.get(), 8);
        assert_eq!(guest.back().len(), 2);
    }
}

#[test]
fn a_buffer_may_end_behind_memory_as_long_as_the_frame_does_not() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(2);
    guest.rewrite(0, Guest::END - 60);
    guest.rewrite(1, Guest::END - 60);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 60)]).taken, 1);
    assert_eq!((ledger.frames.get(), queue.broken()), (1, None));
    assert_eq!(guest.octets(Guest::END - 60, 60), frame(1, 60));
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 61)]).taken, 1);
    assert_eq!((ledger.drop_bad_ring.get(), queue.broken()), (1, Some(Broken::Address)));
}

#[test]
fn a_tail_beyond_the_ring_stops_it() {
    for block in [false, true] {
        let mut guest = Guest::new(16, block);
        let mut queue = guest.queue(plain());
        let ledger = NicDirection::default();
        guest.post(3);
        guest.set_tail(16);
        assert_eq!(fill(&mut queue, &ledger, &[frame(1, 60), frame(2, 60)]), Filled { taken: 2, causes: 0 });
        assert_eq!((ledger.drop_bad_ring.get(), queue.broken()), (2, Some(Broken::Index)));
        assert_eq!(queue.room(), 0);
    }
}

#[test]
fn other_settings_hold_from_the_next_burst_on() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(8);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 600)]).taken, 1);
    queue.change(RxSettings { buffer_len: 512, ..plain() });
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 600)]).taken, 1);
    let lengths: Vec<_> = guest.back().into_iter().map(|(_, received)| received.length).collect();
    assert_eq!(lengths, [600, 512, 88]);
}

#[test]
fn in_loopback_only_own_frames_arrive() {
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue(RxSettings { loopback: true, ..plain() });
    let ledger = NicDirection::default();
    guest.post(8);
    assert_eq!(fill(&mut queue, &ledger, &[frame(1, 60)]).taken, 1);
    assert_eq!((guest.back().len(), ledger.drop_filtered.get()), (0, 1));
    let filled = with_frames(&[frame(2, 60)], |frames| queue.loop_back(frames, &ledger));
    assert_eq!(filled, Filled { taken: 1, causes: cause::RXT0 });
    assert_eq!(guest.back()[0].0, frame(2, 60));
    queue.change(plain());
    let filled = with_frames(&[frame(2, 60)], |frames| queue.loop_back(frames, &ledger));
    assert_eq!((filled.taken, guest.back().len()), (1, 1), "it was on its way");
}
