//! Offloads left to a driver, and offloads completed for a driver that accepts fewer.

use std::slice;

use nic::virtio_net::rx;
use port::{Frame, Gso, Offload, deliver};
use ring::Bytes;

use super::tests::Driver;
use super::tests::guest::{Guest, Habit};
use super::*;

/// Creates a TCP packet over IPv4 with this much payload, in segments of 1000 octets.
fn large(payload: usize) -> (Vec<u8>, Offload) {
    let mut octets = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    octets.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    octets.extend([0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 9, 0, 0, 0, 0]);
    octets.resize(octets.len() + payload, 7);
    (octets, Offload::checksum(34, 16).expect("in bounds").with_gso(Gso::Tcp4, 1000, 54))
}

/// Delivers one large frame to a NIC whose driver accepts these offloads.
fn received(takes: Offloads, several_senders: bool) -> (Arc<NicQueues>, Guest) {
    let design = NicQueuesConfig { pairs: 1, several_senders, ..NicQueuesConfig::default() };
    let queues = NicQueues::new(design).expect("event descriptors");
    let mut guest = Guest::new(Habit::ByTheBook, true);
    let RxQueue::VirtioNet(queue) = guest.receive_queue() else { unreachable!("virtio-net") };
    let queue = RxQueue::VirtioNet(Box::new(rx::RxQueue::with_offloads(*queue, takes)));
    *queues.rx.lock(0).expect("a pair") = Some(Running { queue, notifier: Notifier::Message(None) });
    queues.take_offloads(takes);
    guest.post();
    (queues, guest)
}

fn send(queues: &Arc<NicQueues>, payload: usize) -> usize {
    let (mut octets, left) = large(payload);
    let sink = queues.sink();
    deliver(&*sink, slice::from_ref(&Frame::with_offload(Bytes::from_slice(&mut octets), left)))
}

#[test]
fn a_driver_gets_what_it_takes() {
    for several_senders in [false, true] {
        let (queues, _guest) = received(Offloads::ALL, several_senders);
        assert_eq!((queues.offloads(), send(&queues, 3000)), (Offloads::ALL, 1));
        let ledger = queues.rx_ledger();
        assert_eq!((ledger.frames.get(), ledger.bytes.get()), (1, 3054));
        assert_eq!((ledger.left_segments.get(), ledger.done_segmented.get()), (1, 0));
    }
}

#[test]
fn what_it_does_not_take_is_done_for_it_and_counted() {
    for several_senders in [false, true] {
        let (queues, mut guest) = received(Offloads::NONE, several_senders);
        assert_eq!((queues.offloads(), send(&queues, 2500)), (Offloads::NONE, 1));
        let lengths: Vec<_> = guest.received().iter().map(Vec::len).collect();
        assert_eq!(lengths, [1054, 1054, 554]);
        let ledger = queues.rx_ledger();
        assert_eq!((ledger.done_segmented.get(), ledger.done_segments.get()), (1, 3));
        assert_eq!((ledger.frames.get(), ledger.left_segments.get()), (3, 0));
    }
}

#[test]
fn a_driver_that_is_gone_takes_nothing() {
    let (queues, _guest) = received(Offloads::ALL, false);
    queues.take_offloads(Offloads::CSUM);
    assert_eq!(queues.offloads(), Offloads::CSUM);
    queues.stop();
    assert_eq!(queues.offloads(), Offloads::NONE);
}
