use frame::offload::{Gso, Offload};
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
fn a_frame_that_is_too_long_is_dropped_and_its_neighbours_are_not() {
    let (sink, mut source) = ingress(8).unwrap();
    let mut frames = vec![vec![1; SLOT], vec![2; LONGEST + 1], vec![3; 0], vec![4; 60]];
    assert_eq!(deliver(&sink, &mut frames), 4);
    assert_eq!((sink.counters().queued.get(), sink.counters().drop_too_long.get()), (3, 1));
    let mut lengths = Vec::new();
    source.drain(64, &mut |shown| lengths.extend(shown.iter().map(Frame::len)));
    assert_eq!(lengths, [SLOT, 0, 60]);
    assert_eq!(sink.free(), 8);
}

/// Returns large frames, each with octets and offload metadata of its own.
fn large(count: usize) -> Vec<(Vec<u8>, Offload)> {
    (0..count)
        .map(|i| {
            let octets = (0..LONGEST - 7 * i).map(|at| (at * 13 + i * 5) as u8).collect();
            (octets, Offload::checksum(34, 16).unwrap().with_gso(Gso::Tcp4, 1000 + i as u16, 54))
        })
        .collect()
}

#[test]
fn large_frames_pass_among_small_ones_with_what_they_leave_to_be_done() {
    let (sink, mut source) = ingress(5).unwrap();
    for round in 0..20 {
        let mut frames = large(2);
        frames.insert(1, (vec![round; 60], Offload::DATA_VALID));
        let shown: Vec<_> = frames
            .iter_mut()
            .map(|(octets, offload)| Frame::with_offload(ring::Bytes::from_slice(octets), *offload))
            .collect();
        assert_eq!(sink.deliver(&shown), 3);
        let mut seen = Vec::new();
        source.drain(64, &mut |shown| {
            for frame in shown {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                seen.push((octets, frame.offload()));
            }
        });
        assert!(seen == frames, "round {round}");
    }
    assert_eq!((sink.free(), sink.queue.large.waiting()), (5, 0));
}

#[test]
fn what_finds_no_large_place_is_lost_and_small_frames_are_not() {
    let (sink, mut source) = ingress(200).unwrap();
    let mut octets = vec![7; SLOT + 1];
    let frame = Frame::new(ring::Bytes::from_slice(&mut octets));
    assert_eq!(sink.deliver(&[frame; 100]), 64);
    assert_eq!((sink.counters().queued.get(), sink.counters().drop_full.get()), (64, 36));
    assert_eq!(deliver(&sink, &mut [vec![1; 60]]), 1);
    assert_eq!(source.drain(64, &mut |_| {}) + source.drain(64, &mut |_| {}), 65);
    assert_eq!(sink.free(), 200);
    assert_eq!(sink.deliver(&[frame; 64]), 64);
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

/// Returns a frame of one of many flows, with a number.
fn packet(flow: u8, number: u32) -> Vec<u8> {
    let mut octets = vec![0; 60];
    octets[12..15].copy_from_slice(&[8, 0, 0x45]);
    octets[29] = flow;
    octets[56..].copy_from_slice(&number.to_be_bytes());
    octets
}

#[test]
fn flows_keep_their_queue_and_their_order() {
    const FLOWS: u32 = 200;
    let (fan, mut sources) = ingress_fan(1000, 4, crate::steer::Hash::Flow).unwrap();
    for first in (0..1000).step_by(50) {
        let mut frames: Vec<_> = (first..first + 50).map(|n| packet((n % FLOWS) as u8, n)).collect();
        let shown: Vec<_> =
            frames.iter_mut().map(|octets| Frame::new(ring::Bytes::from_slice(octets))).collect();
        assert_eq!(fan.deliver(&shown), 50);
    }
    let mut owner = [None; FLOWS as usize];
    for (queue, source) in sources.iter_mut().enumerate() {
        let mut last = [None; FLOWS as usize];
        let mut came = 0;
        let mut look = |frames: &[Frame<'_>]| {
            for number in frames.iter().filter_map(|frame| frame.octets().read(56).map(u32::from_be_bytes)) {
                let flow = (number % FLOWS) as usize;
                assert_eq!(*owner[flow].get_or_insert(queue), queue, "flow {flow} is in two queues");
                assert!(last[flow] < Some(number), "flow {flow}: {number} after {:?}", last[flow]);
                last[flow] = Some(number);
                came += 1;
            }
        };
        while source.drain(BURST, &mut look) > 0 {}
        assert!((100..400).contains(&came), "queue {queue} got {came} of 1000 frames");
    }
    let counters = fan.counters();
    assert_eq!((counters.in_frames.get(), counters.queued.get()), (1000, 1000));
}

#[test]
fn frames_of_a_flow_are_dealt_out_in_turn() {
    let (fan, mut sources) = ingress_fan_in_turn(1000, 4).unwrap();
    for number in 0..40 {
        let mut octets = packet(0, number);
        assert_eq!(fan.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]), 1);
    }
    for source in &mut sources {
        let mut came = 0;
        while source.drain(BURST, &mut |frames| came += frames.len()) > 0 {}
        assert_eq!(came, 10);
    }
}

#[test]
fn a_full_queue_loses_only_its_own_flows() {
    let (fan, mut sources) = ingress_fan(10, 2, crate::steer::Hash::Flow).unwrap();
    let mut of = |queue: usize| {
        (0..=255u8).find(|flow| {
            let mut octets = packet(*flow, 0);
            fan.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
            sources.iter_mut().position(|source| source.drain(1, &mut |_| {}) == 1) == Some(queue)
        })
    };
    let flows = [0, 1].map(|queue| of(queue).expect("a flow of each queue"));
    let deliver = |flow| {
        let mut octets = packet(flow, 0);
        fan.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))])
    };
    assert_eq!((0..20).map(|_| deliver(flows[0])).sum::<usize>(), 10);
    assert_eq!((0..10).map(|_| deliver(flows[1])).sum::<usize>(), 10);
    assert_eq!(fan.counters().drop_full.get(), 10);
}
