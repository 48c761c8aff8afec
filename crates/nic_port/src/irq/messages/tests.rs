use super::super::counted::line;
use super::super::{DelayedInterrupts, InterruptTimer};
use super::*;

#[test]
fn messages_keep_their_distance_and_each_queue_has_its_own() {
    let (line, count) = line();
    // 100 units of 250 ns.
    let mut messages = Messages::new(Moderation::Every(100));
    messages.set_line(Queue::Receive, Some(line.clone()));
    messages.set_line(Queue::Transmit, Some(line));
    messages.request(Queue::Receive, 1, 1_000_000);
    messages.request(Queue::Transmit, 1, 1_000_000);
    assert_eq!(count.sent(), 2, "the first of each at once");
    messages.request(Queue::Receive, 1, 1_010_000);
    messages.request(Queue::Receive, 1, 1_020_000);
    assert_eq!(messages.settle(1_020_000), Some(1_025_000));
    assert_eq!(count.sent(), 2);
    assert_eq!(messages.settle(1_025_000), None);
    assert_eq!(count.sent(), 3, "one for both");
    let counts = messages.counts();
    assert_eq!((counts.raised, counts.moderated), (3, 2));
}

#[test]
fn after_a_reset_nothing_is_sent() {
    let (line, count) = line();
    let messages = DelayedInterrupts::new(Messages::new(Moderation::Every(1000))).expect("a timer");
    messages.begin();
    messages.with(|messages, now| {
        messages.set_line(Queue::Receive, Some(line));
        messages.request(Queue::Receive, 1, now);
        messages.request(Queue::Receive, 1, now);
    });
    assert_eq!(count.sent(), 1);
    messages.with(|messages, _| messages.reset());
    assert_eq!(messages.with(|messages, now| messages.settle(now + 1_000_000)), None);
    assert_eq!(count.sent(), 1);
}
