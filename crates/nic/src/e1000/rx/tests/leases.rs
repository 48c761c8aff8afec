//! Several threads deliver to one ring.

use super::*;

fn plan(queue: &mut RxQueue, lease: &mut Lease, ledger: &NicDirection, frames: &[Vec<u8>]) -> usize {
    with_frames(frames, |frames| {
        let taken = queue.plan(frames, lease, ledger);
        lease.copy(frames);
        taken
    })
}

#[test]
fn what_is_committed_shows_in_the_order_of_the_ring() {
    for block in [false, true] {
        let mut guest = Guest::new(64, block);
        let mut queue = guest.queue(plain());
        let ledger = NicDirection::default();
        guest.post(20);
        let frames: Vec<_> = (0..9).map(|i| frame(i, 60 + usize::from(i))).collect();
        let mut leases = [Lease::default(), Lease::default(), Lease::default()];
        for (lease, frames) in leases.iter_mut().zip(frames.chunks(3)) {
            assert_eq!(plan(&mut queue, lease, &ledger, frames), 3);
            assert!(queue.owns(lease));
        }
        let [first, second, third] = &mut leases;
        assert_eq!(queue.commit(second, &ledger), 0, "not before the first one");
        assert!(guest.back().is_empty());
        assert_eq!(queue.commit(first, &ledger), cause::RXT0);
        assert_eq!(guest.back().len(), 6);
        assert_eq!(queue.commit(third, &ledger), cause::RXT0);
        assert_eq!(queue.commit(third, &ledger), 0, "it is empty");
        let last = guest.back();
        assert_eq!(last.iter().map(|(octets, _)| octets.clone()).collect::<Vec<_>>(), frames[6..]);
        assert_eq!((ledger.frames.get(), ledger.batches.get(), queue.room()), (9, 3, 11));
    }
}

#[test]
fn a_burst_between_leases_keeps_its_place() {
    let mut guest = Guest::new(64, true);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(20);
    let mut lease = Lease::default();
    assert_eq!(plan(&mut queue, &mut lease, &ledger, &[frame(1, 60)]), 1);
    assert_eq!(fill(&mut queue, &ledger, &[frame(2, 60)]), Filled { taken: 1, causes: 0 });
    assert!(guest.back().is_empty());
    assert_eq!(queue.commit(&mut lease, &ledger), cause::RXT0);
    let back: Vec<_> = guest.back().into_iter().map(|(octets, _)| octets).collect();
    assert_eq!(back, [frame(1, 60), frame(2, 60)]);
}

#[test]
fn a_lease_of_a_ring_that_is_gone_is_only_emptied() {
    let mut guest = Guest::new(64, true);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(20);
    let mut lease = Lease::default();
    assert_eq!(plan(&mut queue, &mut lease, &ledger, &[frame(1, 60)]), 1);
    let mut other = guest.queue(plain());
    assert!(!other.owns(&lease));
    assert_eq!((other.commit(&mut lease, &ledger), ledger.frames.get()), (0, 0));
    assert!(!queue.owns(&lease));
}

#[test]
fn a_sender_too_many_finds_no_room_and_stops_nobody() {
    let mut guest = Guest::new(64, true);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(63);
    let mut leases: Vec<_> = (0..LEASES).map(|_| Lease::default()).collect();
    for (lease, number) in leases.iter_mut().zip(0..) {
        assert_eq!(plan(&mut queue, lease, &ledger, &[frame(number, 60)]), 1);
    }
    let mut more = Lease::default();
    assert_eq!(plan(&mut queue, &mut more, &ledger, &[frame(99, 60)]), 0);
    assert_eq!(queue.commit(&mut more, &ledger), 0);
    for lease in &mut leases {
        assert_eq!(queue.commit(lease, &ledger), cause::RXT0);
    }
    assert_eq!((guest.back().len(), ledger.frames.get()), (LEASES, LEASES as u64));
}

#[test]
fn a_ring_that_breaks_under_a_lease_still_takes_it_back() {
    let mut guest = Guest::new(64, false);
    let mut queue = guest.queue(plain());
    let ledger = NicDirection::default();
    guest.post(10);
    let mut lease = Lease::default();
    assert_eq!(plan(&mut queue, &mut lease, &ledger, &[frame(1, 60), frame(2, 60)]), 2);
    guest.set_tail(0xffff);
    let rest: Vec<_> = (0..20).map(|i| frame(i, 60)).collect();
    assert_eq!(fill(&mut queue, &ledger, &rest).taken, 20);
    assert_eq!((queue.broken(), ledger.drop_bad_ring.get()), (Some(Broken::Index), 20));
    assert_eq!(queue.commit(&mut lease, &ledger), cause::RXT0);
    assert_eq!((guest.back().len(), ledger.frames.get()), (2, 2));
}
