use fpm_peer::{By, Stream};
use netlink::{NextHop, Prefix};

use super::*;
use crate::decode::messages;
use crate::frames::{Frames, HEADER};

fn stream() -> Stream {
    let mut stream = Stream::default();
    let hop = NextHop { via: None, index: 3, weight: 1 };
    stream.replace(Prefix::new([10, 0, 0, 0], 8).expect("a prefix"), By::Hop(hop)).hop(4, hop);
    stream
}

fn prepare(answers: &mut Answers, stream: &Stream) {
    let mut frames = Frames::default();
    frames.push(stream.octets());
    while let Some(payload) = frames.take().expect("sound") {
        messages(payload).flatten().for_each(|(message, octets)| answers.prepare(&message, octets));
    }
}

#[test]
fn routes_that_are_used_are_sent_back_with_the_flag() {
    let mut answers = Answers::default();
    prepare(&mut answers, &stream());
    assert!(answers.waiting().is_empty(), "not before they are published");
    answers.published();
    let answer = answers.waiting().to_vec();
    assert_eq!(answer[HEADER + FLAGS..][..4], OFFLOAD.to_ne_bytes());
    let mut frames = Frames::default();
    frames.push(&answer);
    let payload = frames.take().expect("sound").expect("whole");
    let read: Vec<_> = messages(payload).flatten().map(|(message, _)| message).collect();
    assert!(matches!(read[..], [Message::Route(route)] if route.to.len == 8), "{read:?}");
    assert_eq!(frames.take(), Ok(None), "no answer to objects, nor to deletions");
}

#[test]
fn they_may_be_sent_in_pieces() {
    let mut answers = Answers::default();
    prepare(&mut answers, &stream());
    answers.published();
    let whole = answers.waiting().to_vec();
    prepare(&mut answers, &stream());
    answers.sent(5);
    assert_eq!(answers.waiting(), &whole[5..]);
    answers.sent(usize::MAX / 2);
    assert!(answers.waiting().is_empty(), "the second one is not published");
    answers.published();
    assert_eq!(answers.waiting(), whole);
    answers.sent(whole.len());
    assert_eq!((answers.octets.len(), answers.sent, answers.published), (0, 0, 0));
}

#[test]
fn a_zebra_that_does_not_read_costs_bounded_memory() {
    let (mut answers, stream) = (Answers::default(), stream());
    let payload = &stream.octets()[HEADER..];
    for _ in 0..MOST / 40 {
        messages(payload).flatten().take(2).for_each(|(message, octets)| answers.prepare(&message, octets));
    }
    answers.published();
    assert!((MOST - 100..=MOST + 100).contains(&answers.octets.len()), "{}", answers.octets.len());
    let len = answers.waiting().len();
    answers.sent(len - 3);
    assert_eq!(answers.waiting().len(), 3);
}
