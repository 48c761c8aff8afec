//! Queues whose driver is elsewhere, and does what no honest one would.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;

use port::Frame;
use port::conformance::Pattern;
use ring::Region;
use ring::split::{DeviceQueue, Features, Layout};
use rustix::event::{EventfdFlags, eventfd};

use super::tests::Driver;
use super::tests::guest::{Guest, Habit};
use super::*;

fn bell(flags: EventfdFlags) -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | flags).expect("an event descriptor")
}

/// What makes whoever rings it wait, until somebody reads it.
fn full() -> OwnedFd {
    let full = bell(EventfdFlags::empty());
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    full
}

#[test]
fn a_driver_that_does_not_take_its_bell_holds_up_its_own_thread_and_not_for_long() {
    let queues = NicQueues::foreign(1).expect("descriptors");
    let mut guest = Guest::new(Habit::ByTheBook, true);
    let (queue, call) = (guest.receive_queue(), full());
    guest.post();
    let bells = Bells { doorbell: bell(EventfdFlags::NONBLOCK), call: Some(call) };
    let (server, sink) = (queues.clone(), queues.sink());
    // Rings twice: when it begins to serve, and for the frame.
    let server = thread::spawn(move || {
        server.serve_receive(0, queue, bells).expect("served");
        let mut octets = Pattern::default().octets(1, 0, 60);
        sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))])
    });
    while !server.is_finished() {
        // As control does, which must not wait for the queue that the thread holds.
        queues.look_after_bells();
        assert_eq!((queues.rx_broken(), queues.tx_broken()), (None, None));
        thread::yield_now();
    }
    assert_eq!(server.join().expect("no panic"), 1);
    assert!(queues.is_deaf());
    assert_eq!(guest.received().len(), 1, "the frame has come all the same");
    // The next driver takes its bell.
    queues.forget_driver();
    assert!(!queues.is_deaf(), "the next one is another's");
    let call = bell(EventfdFlags::NONBLOCK);
    let told = File::from(call.try_clone().expect("a copy"));
    let bells = Bells { doorbell: bell(EventfdFlags::NONBLOCK), call: Some(call) };
    queues.serve_receive(0, Guest::new(Habit::ByTheBook, true).receive_queue(), bells).expect("served");
    assert!(rustix::io::read(&told, &mut [0; 8]).is_ok(), "it is rung");
}

/// A ring of 4 entries whose driver has published 1,000.
fn broken_queue() -> RxQueue {
    let octets = Box::leak(vec![0; 4096 + 64].into_boxed_slice());
    let skew = octets.as_ptr().align_offset(64);
    let (region, layout) = (Region::from_static(&mut octets[skew..], 0), Layout::contiguous(4, 0));
    // `flags`, then `idx` (virtio 1.2, section 2.7.6).
    let head = region.bytes(layout.available, 4).expect("it lies there");
    assert!(head.write(2, 1000_u16.to_le_bytes()));
    let queue = DeviceQueue::new(region, &layout, Features::default()).expect("a ring");
    RxQueue::VirtioNet(Box::new(nic::virtio_net::rx::RxQueue::new(queue, true)))
}

#[test]
fn why_a_queue_stopped_is_told_to_those_who_do_not_wait_for_it_until_another_comes() {
    let queues = NicQueues::foreign(1).expect("descriptors");
    let bells = Bells { doorbell: bell(EventfdFlags::NONBLOCK), call: None };
    queues.serve_receive(0, broken_queue(), bells).expect("served");
    let mut octets = Pattern::default().octets(1, 0, 60);
    queues.sink().deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
    let held = queues.rx.lock(0).expect("a pair");
    assert_eq!(queues.rx_broken(), Some(Broken::Index));
    drop(held);
    queues.forget_driver();
    assert_eq!(queues.rx_broken(), None);
}
