use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{IrqRouter, Message as Route, Timed, Timekeeping};
use super::*;
use crate::memory::GuestRam;

/// A line to vCPU 0 of no machine, whose mailbox tells what was sent.
fn line() -> (Arc<GuestRam>, Arc<IrqLine>) {
    let ram = Arc::new(GuestRam::new("messages-tests", 12 << 20).expect("memory"));
    let router = IrqRouter::new(None, ram.clone());
    let line = router.line().expect("a line");
    router.route(&line, Some(Route { address: 0xfee0_0000, data: 0x40 })).expect("a route");
    (ram, line)
}

fn sent(ram: &GuestRam) -> u32 {
    ram.shared().mailbox[0].0.load(Ordering::Acquire)
}

#[test]
fn messages_keep_their_distance_and_each_queue_has_its_own() {
    let (ram, line) = line();
    // 100 units of 250 ns.
    let mut messages = Messages::new(Moderation::Every(100));
    messages.set_line(Queue::Receive, Some(line.clone()));
    messages.set_line(Queue::Transmit, Some(line));
    messages.request(Queue::Receive, 1, 1_000_000);
    messages.request(Queue::Transmit, 1, 1_000_000);
    assert_eq!(sent(&ram), 2, "the first of each at once");
    messages.request(Queue::Receive, 1, 1_010_000);
    messages.request(Queue::Receive, 1, 1_020_000);
    assert_eq!(messages.settle(1_020_000), Some(1_025_000));
    assert_eq!(sent(&ram), 2);
    assert_eq!(messages.settle(1_025_000), None);
    assert_eq!(sent(&ram), 3, "one for both");
    let counts = messages.counts();
    assert_eq!((counts.raised, counts.moderated), (3, 2));
}

#[test]
fn after_a_reset_nothing_is_sent() {
    let (ram, line) = line();
    let messages = Timed::new(Messages::new(Moderation::Every(1000))).expect("a timer");
    messages.begin();
    messages.with(|messages, now| {
        messages.set_line(Queue::Receive, Some(line));
        messages.request(Queue::Receive, 1, now);
        messages.request(Queue::Receive, 1, now);
    });
    assert_eq!(sent(&ram), 1);
    messages.with(|messages, _| messages.reset());
    assert_eq!(messages.with(|messages, now| messages.settle(now + 1_000_000)), None);
    assert_eq!(sent(&ram), 1);
}
