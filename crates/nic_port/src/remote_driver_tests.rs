//! Queues whose driver is in another program, and misbehaves.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

use conformance::Pattern;
use port::{ClockHandle, Frame};
use ring::split::{DeviceQueue, Features, Layout};
use ring::{BURST, Region};
use rustix::event::{EventfdFlags, eventfd};

use super::guarded_doorbell::GuardedDoorbell;
use super::remote_driver::Call;
use super::tests::Driver;
use super::tests::guest::{Guest, Habit};
use super::*;

fn bell(flags: EventfdFlags) -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | flags).expect("an event descriptor")
}

/// Returns a descriptor that blocks any thread that rings it until it is read.
fn full() -> OwnedFd {
    let full = bell(EventfdFlags::empty());
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    full
}

/// Creates queues, and the handle of their clock.
fn queues() -> (Arc<NicQueues>, ClockHandle) {
    let (clock, hand) = Clock::by_hand();
    let design = NicQueuesConfig { pairs: 1, foreign: true, ..NicQueuesConfig::default() };
    (NicQueues::by(clock, design, SETTLE).expect("descriptors"), hand)
}

/// Interval of two checks by the control thread.
const LOOK: Duration = Duration::from_millis(100);

#[test]
fn a_driver_that_does_not_take_its_bell_holds_up_its_own_thread_and_not_for_long() {
    let (queues, hand) = queues();
    let mut guest = Guest::new(Habit::ByTheBook, true);
    let (queue, call) = (guest.receive_queue(), full());
    guest.post();
    let eventfds = RingEventfds { doorbell: bell(EventfdFlags::NONBLOCK), call: Some(call) };
    let (server, sink) = (queues.clone(), queues.sink());
    // Rings twice: when it starts to serve, and for the frame.
    let server = thread::spawn(move || {
        server.serve_receive(0, queue, eventfds).expect("served");
        let mut octets = Pattern::default().octets(1, 0, 60);
        sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))])
    });
    while !server.is_finished() {
        // As the control thread does, which must not wait for the queue that the server holds.
        hand.advance(LOOK);
        queues.interrupt_blocked_writers();
        assert_eq!((queues.rx_broken(), queues.tx_broken()), (None, None));
        // A thread to which signals are sent without a pause gets no further than its handler.
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.join().expect("no panic"), 1);
    assert!(queues.has_blocked_us());
    assert_eq!(guest.received().len(), 1, "the frame has come all the same");
    queues.leave_receive(0);
    assert!(queues.has_blocked_us(), "it is the same one, wherever its rings lie");
    // The next driver reads its call descriptor.
    queues.forget_driver();
    assert!(!queues.has_blocked_us(), "the next one is another's");
    let call = bell(EventfdFlags::NONBLOCK);
    let told = File::from(call.try_clone().expect("a copy"));
    let eventfds = RingEventfds { doorbell: bell(EventfdFlags::NONBLOCK), call: Some(call) };
    queues.serve_receive(0, Guest::new(Habit::ByTheBook, true).receive_queue(), eventfds).expect("served");
    assert!(rustix::io::read(&told, &mut [0; 8]).is_ok(), "it is rung");
}

/// Starts a thread that rings for both directions alternately, each time it is told to.
fn server(queues: &Arc<NicQueues>, bell: &OwnedFd) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let bell = Arc::new(File::from(bell.try_clone().expect("a copy")));
    let ringing = [&queues.rx.queues[0].writers, &queues.tx.queues[0].writers].map(WriterStates::server);
    let calls = ringing.map(|ringing| Call { bell: bell.clone(), ringing });
    let (tell, told) = mpsc::channel();
    let rings = move || told.iter().zip(calls.iter().cycle()).for_each(|((), call)| call.ring());
    (tell, thread::spawn(rings))
}

#[test]
fn a_driver_that_makes_each_ring_wait_a_little_is_found_out_by_the_sum() {
    let (queues, hand) = queues();
    let bell = full();
    let (go, server) = server(&queues, &bell);
    let mut rings = 0;
    while !queues.has_blocked_us() {
        assert!(rings < 1000, "a thread waits nearly all the time, and nobody knows");
        rings += 1;
        go.send(()).expect("it rings");
        while !queues.ringing().any(GuardedDoorbell::is_busy) && !queues.has_blocked_us() {
            thread::yield_now();
        }
        hand.advance(LOOK / 2);
        if rings % 2 == 0 {
            queues.interrupt_blocked_writers();
        }
        // In time for the next check: unblocks one ring, and lets no other one succeed.
        rustix::io::read(&bell, &mut [0; 8]).expect("it is full");
        while queues.ringing().any(GuardedDoorbell::is_busy) {
            thread::yield_now();
        }
        if queues.has_blocked_us() {
            break;
        }
        rustix::io::read(&bell, &mut [0; 8]).expect("it was rung");
        rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    }
    drop(go);
    server.join().expect("no panic");
}

/// Creates a ring of 4 entries whose driver has published 1,000.
fn broken_queue() -> RxQueue {
    let octets = Box::leak(vec![0; 4096 + 64].into_boxed_slice());
    let skew = octets.as_ptr().align_offset(64);
    let (region, layout) = (Region::from_static(&mut octets[skew..], 0), Layout::contiguous(4, 0));
    // The available ring starts with `flags`, then `idx` (virtio 1.2, section 2.7.6).
    let head = region.bytes(layout.available, 4).expect("it lies there");
    assert!(head.write(2, 1000_u16.to_le_bytes()));
    let queue = DeviceQueue::new(region, &layout, Features::default()).expect("a ring");
    RxQueue::VirtioNet(Box::new(nic::virtio_net::rx::RxQueue::new(queue, true)))
}

#[test]
fn a_source_takes_what_comes_by_a_pair_without_a_receive_queue_and_a_disabled_queue_loses_it() {
    let queues = NicQueues::foreign(2).expect("descriptors");
    let mut guests = [0, 1].map(|pair| {
        let guest = Guest::new(Habit::ByTheBook, true);
        let eventfds = RingEventfds { doorbell: bell(EventfdFlags::NONBLOCK), call: None };
        queues.serve_transmit(pair, guest.transmit_queue(), eventfds).expect("served");
        guest
    });
    let mut source = queues.source();
    let mut shown = |guests: &mut [Guest]| {
        for guest in guests {
            assert_eq!(guest.send(&[Pattern::default().octets(1, 0, 60)]).0, 1);
        }
        let mut shown = 0;
        while source.drain(BURST, &mut |frames| shown += frames.len()) > 0 {}
        shown
    };
    assert_eq!(shown(&mut guests), 2);
    queues.discard_transmit(1, true);
    assert_eq!(shown(&mut guests), 1);
    assert_eq!(queues.tx.queues[1].ledger.drop_not_running.get(), 1);
    queues.leave_transmit(1).expect("it was served");
    let eventfds = RingEventfds { doorbell: bell(EventfdFlags::NONBLOCK), call: None };
    let next = Guest::new(Habit::ByTheBook, true);
    queues.serve_transmit(1, next.transmit_queue(), eventfds).expect("served");
    guests[1] = next;
    assert_eq!(shown(&mut guests), 2, "the next one is enabled");
}

#[test]
fn why_a_queue_stopped_is_told_to_those_who_do_not_wait_for_it_until_another_comes() {
    let queues = NicQueues::foreign(1).expect("descriptors");
    let eventfds = RingEventfds { doorbell: bell(EventfdFlags::NONBLOCK), call: None };
    queues.serve_receive(0, broken_queue(), eventfds).expect("served");
    let mut octets = Pattern::default().octets(1, 0, 60);
    queues.sink().deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
    let held = queues.rx.lock(0).expect("a pair");
    assert_eq!(queues.rx_broken(), Some(Broken::Index));
    drop(held);
    queues.forget_driver();
    assert_eq!(queues.rx_broken(), None);
}
