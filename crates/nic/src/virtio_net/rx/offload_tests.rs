//! Large frames, and the headers shown to the driver.

use port::Gso;

use super::super::test_guest::{Guest, frame};
use super::*;

fn checksum() -> Offload {
    Offload::checksum(34, 16).unwrap()
}

fn large() -> Offload {
    checksum().with_gso(Gso::Tcp4, 1460, 54)
}

fn fill(queue: &mut RxQueue, ledger: &NicDirection, frames: &[(Vec<u8>, Offload)]) -> Filled {
    let mut frames = frames.to_vec();
    let shown: Vec<_> = frames
        .iter_mut()
        .map(|(octets, offload)| Frame::with_offload(Bytes::from_slice(octets), *offload))
        .collect();
    queue.fill(&shown, ledger)
}

/// Returns the contents of buffers of 2000 octets as the driver sees them: headers with their numbers of
/// buffers, and frames.
fn received(guest: &mut Guest, posted: &[Vec<ring::split::Segment>]) -> Vec<([u8; 10], u16, Vec<u8>)> {
    let back = guest.back();
    let mut back = back.iter();
    let mut frames = Vec::new();
    while let Some(&(token, written)) = back.next() {
        let mut content = guest.content(&posted[usize::from(token)])[..written as usize].to_vec();
        let count = u16::from_le_bytes([content[10], content[11]]);
        for &(token, written) in back.by_ref().take(usize::from(count) - 1) {
            content.extend(&guest.content(&posted[usize::from(token)])[..written as usize]);
        }
        frames.push((content[..10].try_into().unwrap(), count, content[12..].to_vec()));
    }
    frames
}

#[test]
fn large_frames_fill_many_buffers_with_a_header_that_counts_them() {
    let mut guest = Guest::new(256);
    let mut queue = RxQueue::new(guest.device(), true).with_offloads(Offloads::ALL);
    let ledger = NicDirection::default();
    let posted: Vec<_> = (0..160).map(|i| guest.post(i, &[2000])).collect();
    let left = [large(), Offload::NONE, large(), checksum(), large()];
    let lengths = [65_000, 60, 64_000, 100, 50_000];
    let frames: Vec<_> = (0..5).map(|i| (frame(i, lengths[i]), left[i])).collect();
    // More frames than one lease holds: it takes several leases.
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 5);
    let found = received(&mut guest, &posted);
    assert_eq!(found.len(), 5);
    for ((octets, left), (header, count, content)) in frames.iter().zip(found) {
        assert!(content == *octets && header == left.to_virtio());
        assert_eq!(usize::from(count), (octets.len() + HEADER).div_ceil(2000));
    }
    assert_eq!((ledger.frames.get(), ledger.left_segments.get()), (5, 3));
    assert_eq!(queue.large_room(), (160 - 93) / 33);
}

#[test]
fn a_large_frame_may_go_into_one_chain() {
    let mut guest = Guest::new(256);
    let mut queue = RxQueue::new(guest.device(), false).with_offloads(Offloads::ALL);
    let ledger = NicDirection::default();
    let posted = vec![guest.post(0, &[4096; 17]), guest.post(1, &[66_000])];
    assert_eq!(queue.large_room(), 2);
    let frames: Vec<_> = (0..2).map(|i| (frame(i, 65_500), large())).collect();
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 2);
    for (header, count, content) in received(&mut guest, &posted) {
        assert_eq!((header, count), (large().to_virtio(), 1));
        assert!(frames.iter().any(|(octets, _)| *octets == content));
    }
}

#[test]
fn frames_for_which_there_are_too_few_buffers_are_left_to_their_owner() {
    let mut guest = Guest::new(256);
    let mut queue = RxQueue::new(guest.device(), true).with_offloads(Offloads::ALL);
    let ledger = NicDirection::default();
    let posted: Vec<_> = (0..50).map(|i| guest.post(i, &[2000])).collect();
    let frames: Vec<_> = (0..3).map(|i| (frame(i, 65_000), large())).collect();
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 1);
    assert_eq!(received(&mut guest, &posted).len(), 1);
    // The remaining buffers suffice for other frames.
    assert_eq!(fill(&mut queue, &ledger, &[(frame(9, 60), Offload::NONE)]).taken, 1);
}

#[test]
fn a_driver_gets_and_is_told_only_what_it_agreed_on() {
    for (takes, told) in [(Offloads::CSUM, true), (Offloads::NONE, false)] {
        let mut guest = Guest::new(64);
        let mut queue = RxQueue::new(guest.device(), true).with_offloads(takes);
        let ledger = NicDirection::default();
        let posted: Vec<_> = (0..4).map(|i| guest.post(i, &[2000])).collect();
        let left = [Offload::DATA_VALID, Offload::NONE, checksum(), large()];
        let frames: Vec<_> = (0..4).map(|i| (frame(i, 100), left[i])).collect();
        assert_eq!(fill(&mut queue, &ledger, &frames).taken, 4);
        let headers: Vec<_> = received(&mut guest, &posted).into_iter().map(|(header, ..)| header).collect();
        let none = Offload::NONE;
        // The others were meant for another driver.
        let expected = if told { vec![Offload::DATA_VALID, none, checksum()] } else { vec![none; 2] };
        let lost = 4 - expected.len() as u64;
        assert_eq!(headers, expected.into_iter().map(Offload::to_virtio).collect::<Vec<_>>());
        assert_eq!((ledger.frames.get(), ledger.drop_bad_offload.get()), (4 - lost, lost));
    }
}

#[test]
fn what_the_driver_takes_may_change() {
    let guest = Guest::new(8);
    let mut queue = RxQueue::new(guest.device(), true).with_offloads(Offloads::ALL);
    queue.take_offloads(Offloads::CSUM);
    assert_eq!(queue.offloads(), Offloads::CSUM);
}

#[test]
fn frames_that_the_driver_does_not_take_any_more_are_dropped_among_others_that_arrive() {
    let mut guest = Guest::new(64);
    let mut queue = RxQueue::new(guest.device(), true).with_offloads(Offloads::ALL);
    let ledger = NicDirection::default();
    let posted: Vec<_> = (0..8).map(|i| guest.post(i, &[2000])).collect();
    queue.take_offloads(Offloads::NONE);
    let left = [large(), Offload::NONE, checksum(), Offload::NONE];
    let frames: Vec<_> = (0..4).map(|i| (frame(i, 100), left[i])).collect();
    assert_eq!(fill(&mut queue, &ledger, &frames).taken, 4);
    let contents: Vec<_> = received(&mut guest, &posted).into_iter().map(|(.., content)| content).collect();
    assert!(contents == [frame(1, 100), frame(3, 100)]);
    assert_eq!((ledger.frames.get(), ledger.drop_bad_offload.get()), (2, 2));
    // They have taken no buffer.
    assert_eq!(queue.room(), 6);
}
