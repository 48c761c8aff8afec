//! Offloads requested by headers.

use port::Gso;

use super::super::test_guest::{Guest, frame};
use super::*;

const ALL: Offloads = Offloads::ALL;

/// Creates a queue of a driver that may request these offloads.
fn queue(guest: &Guest, offloads: Offloads) -> TxQueue {
    TxQueue::new(guest.device(), 1514).with_offloads(offloads)
}

/// Drains once; returns the frames shown, with their offload metadata.
fn drain(queue: &mut TxQueue, ledger: &NicDirection) -> Vec<(Vec<u8>, Offload)> {
    let mut shown = Vec::new();
    queue.drain(64, ledger, &mut |frames| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            shown.push((octets, frame.offload()));
        }
    });
    shown
}

fn checksum() -> Offload {
    Offload::checksum(34, 16).unwrap()
}

fn large() -> Offload {
    checksum().with_gso(Gso::Tcp4, 1460, 54)
}

#[test]
fn what_a_header_says_goes_with_its_frame() {
    let mut guest = Guest::new(64);
    let (mut queue, ledger) = (queue(&guest, ALL), NicDirection::default());
    guest.send(0, &frame(0, 60), &[]);
    guest.send_headed(1, checksum().to_virtio(), &frame(1, 100), &[]);
    guest.send_headed(2, large().to_virtio(), &frame(2, 60_000), &[]);
    guest.send(3, &frame(3, 61), &[]);
    let left = [Offload::NONE, checksum(), large(), Offload::NONE];
    let frames = [60, 100, 60_000, 61].into_iter().enumerate().map(|(i, len)| (frame(i, len), left[i]));
    assert!(drain(&mut queue, &ledger) == frames.collect::<Vec<_>>());
    assert_eq!((ledger.left_checksum.get(), ledger.left_segments.get()), (2, 1));
    assert_eq!(guest.back().len(), 4);
}

#[test]
fn a_header_in_pieces_is_put_together() {
    for pieces in [&[1; 12][..], &[12], &[10, 2], &[5, 20], &[12, 700, 700, 700]] {
        let mut guest = Guest::new(64);
        let (mut queue, ledger) = (queue(&guest, ALL), NicDirection::default());
        guest.send_headed(0, large().to_virtio(), &frame(7, 9000), pieces);
        assert!(drain(&mut queue, &ledger) == [(frame(7, 9000), large())], "{pieces:?}");
    }
}

#[test]
fn large_frames_in_pieces_come_whole_and_in_order() {
    let mut guest = Guest::new(256);
    let (mut queue, ledger) = (queue(&guest, ALL), NicDirection::default());
    let sent: Vec<_> = (0..5).map(|i| frame(i, 65_000 + i)).collect();
    for (i, frame) in sent.iter().enumerate() {
        guest.send_headed(i as u16, large().to_virtio(), frame, &[2000; 20]);
    }
    let mut shown = Vec::new();
    for _ in 0..5 {
        shown.extend(drain(&mut queue, &ledger).into_iter().map(|(octets, _)| octets));
    }
    assert!(shown == sent);
    assert_eq!((ledger.left_segments.get(), ledger.frames.get()), (5, 5));
}

#[test]
fn a_driver_that_agreed_on_nothing_has_headers_that_say_nothing() {
    let mut guest = Guest::new(64);
    let (mut queue, ledger) = (queue(&guest, Offloads::NONE), NicDirection::default());
    guest.send_headed(0, large().to_virtio(), &frame(0, 1000), &[]);
    guest.send_headed(1, [0xff; 10], &frame(1, 1000), &[12, 100]);
    guest.send_headed(2, large().to_virtio(), &frame(2, 1515), &[]);
    let none = Offload::NONE;
    assert!(drain(&mut queue, &ledger) == [(frame(0, 1000), none), (frame(1, 1000), none)]);
    assert_eq!(ledger.drop_too_long.get(), 1);
}

#[test]
fn what_was_not_agreed_on_or_does_not_fit_is_dropped_by_name() {
    for pieces in [&[][..], &[12], &[3, 15]] {
        let mut guest = Guest::new(64);
        let (mut queue, ledger) = (queue(&guest, Offloads::CSUM | Offloads::TSO4), NicDirection::default());
        let orders = [
            checksum().with_gso(Gso::Tcp6, 1000, 74),
            checksum().with_gso(Gso::Udp, 1000, 42),
            large().with_ecn(),
            Offload::checksum(90, 16).unwrap(),
            Offload::checksum(2047, 6).unwrap(),
        ];
        for (i, order) in orders.iter().enumerate() {
            guest.send_headed(i as u16, order.to_virtio(), &frame(i, 100), pieces);
        }
        // UFO, no size, no checksum.
        for (i, header) in [
            [1, 3, 0, 0, 9, 9, 34, 0, 6, 0],
            [1, 1, 0, 0, 0, 0, 34, 0, 16, 0],
            [0, 1, 0, 0, 9, 9, 34, 0, 16, 0],
        ]
        .into_iter()
        .enumerate()
        {
            guest.send_headed(10 + i as u16, header, &frame(i, 100), pieces);
        }
        guest.send_headed(20, large().to_virtio(), &frame(20, LARGEST + 1), pieces);
        guest.send_headed(21, checksum().to_virtio(), &frame(21, 1515), pieces);
        guest.send_headed(22, large().to_virtio(), &frame(22, 2000), pieces);
        assert!(drain(&mut queue, &ledger) == [(frame(22, 2000), large())], "{pieces:?}");
        assert_eq!((ledger.drop_bad_offload.get(), ledger.drop_too_long.get()), (8, 2));
        assert_eq!(guest.back().len(), 11);
    }
}

#[test]
fn that_a_checksum_was_verified_is_not_believed() {
    let mut guest = Guest::new(64);
    let (mut queue, ledger) = (queue(&guest, ALL), NicDirection::default());
    guest.send_headed(0, Offload::DATA_VALID.to_virtio(), &frame(0, 100), &[]);
    guest.send_headed(1, checksum().to_virtio(), &frame(1, 100), &[]);
    guest.send_headed(2, Offload::DATA_VALID.to_virtio(), &frame(2, 100), &[]);
    let left: Vec<_> = drain(&mut queue, &ledger).into_iter().map(|(_, left)| left).collect();
    assert_eq!(left, [Offload::NONE, checksum(), Offload::NONE]);
}
