use std::time::Duration;

use frame::Mac;
use port::{Frame, Sink as _, Source};
use ring::Bytes;

use super::flow::{Flow, SequenceCheck};
use super::{Expected, Sink};
use crate::generator::{Generator, Settings};
use crate::{self_rate, tag};

const FLOWS: u32 = 5;

fn expected() -> Expected {
    let mac = Settings::default().destination_mac;
    Expected { flows: FLOWS, frame: 64, six: false, ttl: 64, destination_mac: Some(mac) }
}

/// Returns the first `n` frames of the generator.
fn frames(n: usize) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(&Settings { flows: FLOWS, ..Settings::default() }).unwrap();
    let mut all = Vec::new();
    while all.len() < n {
        generator.drain(n - all.len(), &mut |shown| {
            for frame in shown {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                all.push(octets);
            }
        });
    }
    all
}

/// Delivers frames in bursts of 7.
fn deliver(sink: &Sink, frames: &mut [Vec<u8>]) {
    for burst in frames.chunks_mut(7) {
        let shown: Vec<Frame<'_>> =
            burst.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        assert_eq!(sink.deliver(&shown), shown.len());
    }
}

/// Returns the counts of missed, late, repeated, stale, foreign and bad frames.
fn faults(sink: &Sink) -> [u64; 6] {
    let c = sink.counters();
    [&c.missed, &c.late, &c.repeated, &c.stale, &c.foreign, &c.bad].map(ledger::Counter::get)
}

#[test]
fn a_whole_stream_has_no_fault() {
    let sink = Sink::new(expected());
    deliver(&sink, &mut frames(6100));
    assert_eq!(faults(&sink), [0; 6]);
    let c = sink.counters();
    assert_eq!((c.frames.get(), c.bytes.get(), c.checked.get()), (6100, 6100 * 64, 100));
}

#[test]
fn lost_frames_are_counted() {
    let sink = Sink::new(expected());
    let mut stream = frames(500);
    stream.drain(100..110);
    stream.remove(300);
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [11, 0, 0, 0, 0, 0]);
    assert_eq!(sink.counters().lost(), 11);
}

#[test]
fn late_frames_are_not_lost() {
    let sink = Sink::new(expected());
    let mut stream = frames(500);
    let late = stream.remove(100);
    stream.insert(150, late);
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [1, 1, 0, 0, 0, 0]);
    assert_eq!(sink.counters().lost(), 0);
}

#[test]
fn repeated_and_very_old_frames_are_told_apart() {
    let sink = Sink::new(expected());
    let mut stream = frames(500);
    let (young, old) = (stream[480].clone(), stream[3].clone());
    stream.insert(490, young);
    stream.push(old);
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [0, 0, 1, 1, 0, 0]);
}

#[test]
fn each_damaged_header_is_bad() {
    let flip = |at: usize| {
        let sink = Sink::new(expected());
        let mut stream = frames(1);
        stream[0][at] ^= 1;
        deliver(&sink, &mut stream);
        faults(&sink)
    };
    // Destination address, ethertype, version, length, TTL, protocol, checksum, addresses.
    for at in [0, 5, 12, 13, 14, 16, 17, 22, 23, 24, 25, 26, 33] {
        assert_eq!(flip(at)[5], 1, "octet {at}");
    }
}

#[test]
fn a_frame_of_somebody_else_is_foreign_and_not_bad() {
    let sink = Sink::new(expected());
    deliver(&sink, &mut [vec![0xff; 64], vec![0xff; 42]]);
    assert_eq!(faults(&sink), [0, 0, 0, 0, 2, 0]);
    assert_eq!(sink.counters().checked.get(), 0);
}

#[test]
fn a_router_that_forgot_the_ttl_is_noticed() {
    let sink = Sink::new(Expected { ttl: 63, ..expected() });
    deliver(&sink, &mut frames(61));
    assert_eq!(faults(&sink)[5], 1);
}

#[test]
fn frames_of_ipv6_are_checked_as_well() {
    let destinations6 = (0..u128::from(FLOWS)).map(|n| 0x2001_0002_0000_0001 << 64 | n).collect();
    let settings = Settings { flows: FLOWS, frame: 80, destinations6, ..Settings::default() };
    let expected = |ttl| Expected { frame: 80, six: true, ttl, ..expected() };
    let mut generator = Generator::new(&settings).unwrap();
    let mut stream: Vec<Vec<u8>> = Vec::new();
    while stream.len() < 61 {
        generator.drain(61 - stream.len(), &mut |shown| {
            stream.extend(shown.iter().map(|frame| {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                octets
            }));
        });
    }
    let sink = Sink::new(expected(64));
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [0; 6]);
    let sink = Sink::new(expected(63));
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink)[5], 1, "the hop limit is not decremented");
    assert!(Generator::new(&Settings { frame: 69, ..settings }).is_err(), "a tag has no room");
}

#[test]
fn strangers_are_foreign_and_do_not_disturb_the_flows() {
    let sink = Sink::new(expected());
    let mut stream = frames(50);
    let mut unknown_flow = stream[7].clone();
    unknown_flow[tag::FLOW] = 0xff;
    let mut longer = stream[8].clone();
    longer.extend([0; 4]);
    stream.splice(20..20, [vec![0xff; 60], vec![1; 3], vec![], unknown_flow, longer]);
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [0, 0, 0, 0, 5, 0]);
}

#[test]
fn any_destination_will_do_where_none_is_expected() {
    let sink = Sink::new(Expected { destination_mac: None, ..expected() });
    let mut stream = frames(1);
    stream[0][..6].copy_from_slice(&Mac([2, 9, 9, 9, 9, 9]).0);
    deliver(&sink, &mut stream);
    assert_eq!(faults(&sink), [0; 6]);
}

#[test]
fn a_flow_goes_on_across_the_end_of_its_numbers() {
    let mut flow = Flow::default();
    assert_eq!(flow.see(u32::MAX / 2), SequenceCheck::Missed(u32::MAX / 2));
    assert_eq!(flow.see(u32::MAX - 1), SequenceCheck::Missed(u32::MAX / 2 - 1));
    assert_eq!(flow.see(u32::MAX), SequenceCheck::InOrder);
    assert_eq!(flow.see(1), SequenceCheck::Missed(1));
    assert_eq!(flow.see(0), SequenceCheck::Late);
    assert_eq!(flow.see(0), SequenceCheck::Repeated);
    assert_eq!(flow.see(2), SequenceCheck::InOrder);
}

#[test]
fn a_flow_agrees_with_a_list_of_everything_seen() {
    let mut state = 12345u64;
    let mut flow = Flow::default();
    let mut seen = std::collections::HashSet::new();
    let mut next = 0u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // From 20 back to 43 ahead, most often the next number.
        let step = (state >> 33) as u32 % 128;
        let sequence = if step < 64 { (next + step).saturating_sub(20) } else { next };
        let expected = if sequence == next {
            SequenceCheck::InOrder
        } else if sequence > next {
            SequenceCheck::Missed(sequence - next)
        } else if next - 1 - sequence >= 32 {
            SequenceCheck::Stale
        } else if seen.contains(&sequence) {
            SequenceCheck::Repeated
        } else {
            SequenceCheck::Late
        };
        assert_eq!(flow.see(sequence), expected, "{sequence} when {next} was next");
        seen.insert(sequence);
        next = next.max(sequence + 1);
    }
}

#[test]
fn the_rooms_own_rate_is_measured() {
    let rate = self_rate::mpps(&Settings::default(), Duration::from_millis(5)).unwrap();
    assert!(rate > 0.0);
}
