use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn deliver(sink: &IngressSink, frames: &mut [Vec<u8>]) -> usize {
    let shown: Vec<Frame<'_>> =
        frames.iter_mut().map(|octets| Frame::new(ring::Bytes::from_slice(octets))).collect();
    sink.deliver(&shown)
}

fn rung(source: &IngressSource) -> bool {
    let Bell::Event(bell) = source.bell() else { panic!("an ingress queue rings an event descriptor") };
    let mut polled = [PollFd::new(&bell, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() == 1
}

#[test]
fn what_finds_no_slot_is_dropped_early_and_named() {
    let (sink, mut source) = ingress(3).unwrap();
    let mut frames: Vec<_> = (0..5).map(|i| vec![i; 60]).collect();
    assert_eq!(deliver(&sink, &mut frames), 3);
    assert_eq!(sink.counters().drop_full.get(), 2);
    let mut seen = Vec::new();
    assert_eq!(source.drain(64, &mut |shown| seen.extend(shown.iter().map(|f| f.octets().read::<1>(0)))), 3);
    assert_eq!(seen, [Some([0]), Some([1]), Some([2])]);
    assert_eq!((sink.waiting(), sink.free()), (0, 3));
}

#[test]
fn a_frame_longer_than_a_slot_is_dropped_and_its_neighbours_are_not() {
    let (sink, mut source) = ingress(8).unwrap();
    let mut frames = vec![vec![1; SLOT], vec![2; SLOT + 1], vec![3; 0], vec![4; 60]];
    assert_eq!(deliver(&sink, &mut frames), 4);
    assert_eq!((sink.counters().queued.get(), sink.counters().drop_too_long.get()), (3, 1));
    let mut lengths = Vec::new();
    source.drain(64, &mut |shown| lengths.extend(shown.iter().map(Frame::len)));
    assert_eq!(lengths, [SLOT, 0, 60]);
    assert_eq!(sink.free(), 8);
}

#[test]
fn rings_once_and_only_when_armed() {
    let (sink, mut source) = ingress(8).unwrap();
    deliver(&sink, &mut [vec![0; 60]]);
    assert!(!rung(&source));
    assert!(source.arm(), "a frame waits");
    source.disarm();
    source.drain(64, &mut |_| {});
    assert!(!source.arm(), "no frame waits");
    deliver(&sink, &mut [vec![0; 60]]);
    deliver(&sink, &mut [vec![0; 60]]);
    assert!(rung(&source));
    assert_eq!(sink.counters().rings.get(), 1);
}

#[test]
fn slots_shown_to_the_consumer_are_not_given_to_senders() {
    let (sink, mut source) = ingress(2).unwrap();
    deliver(&sink, &mut [vec![1; 60], vec![2; 60]]);
    source.drain(1, &mut |shown| {
        assert_eq!(deliver(&sink, &mut [vec![9; 60]]), 0);
        assert_eq!(shown[0].octets().read::<2>(0), Some([1, 1]));
    });
    assert_eq!(deliver(&sink, &mut [vec![3; 60]]), 1);
}
