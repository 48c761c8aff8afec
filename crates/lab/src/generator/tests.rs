use std::collections::HashSet;
use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed};

use frame::{ethernet, ipv4, udp};
use port::Source;

use super::{Clock, Generator, Pace, Settings};
use crate::tag;

/// Clock that a test sets.
#[derive(Clone, Default)]
struct Fake(Arc<AtomicU64>);

impl Clock for Fake {
    fn now_ns(&mut self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Returns the next `n` frames, each with the address at which it was delivered.
fn take<C: Clock>(generator: &mut Generator<C>, n: usize) -> Vec<(usize, Vec<u8>)> {
    let mut seen = Vec::new();
    while seen.len() < n {
        let shown = generator.drain(n - seen.len(), &mut |frames| {
            for frame in frames {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                seen.push((frame.octets().as_ptr() as usize, octets));
            }
        });
        assert!(shown > 0);
    }
    seen
}

fn number(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(octets[at..at + 4].try_into().unwrap())
}

/// Checks one frame with the independent parsers and returns its flow and sequence number.
fn parse(octets: &[u8], settings: &Settings) -> (u32, u32) {
    let (ethernet, rest) = ethernet::Header::parse(octets).unwrap();
    assert_eq!(ethernet.destination, settings.destination_mac);
    assert_eq!(ethernet.source, settings.source_mac);
    assert_eq!(ethernet.ethertype, ethernet::IPV4);
    let packet = ipv4::Packet::parse(rest).unwrap();
    assert_eq!(packet.header().ttl, 64);
    assert_eq!(packet.header().source, settings.source);
    assert_eq!(usize::from(packet.header().total_len) + 14, octets.len());
    assert!(settings.destinations.contains(&packet.header().destination));
    assert_eq!(packet.header().protocol, ipv4::UDP);
    let (header, payload) = udp::Header::parse(packet.payload()).unwrap();
    assert_eq!(header.destination, settings.destination_port);
    assert_eq!(payload.len(), octets.len() - tag::FLOW);
    (number(octets, tag::FLOW), number(octets, tag::SEQUENCE))
}

#[test]
fn frames_of_every_size_parse_and_lie_on_cache_lines() {
    for frame in [60, 64, 65, 128, 1024, 1514, 2048, 9014] {
        let settings = Settings { frame, flows: 7, ..Settings::default() };
        let mut generator = Generator::new(&settings).unwrap();
        for (i, (address, octets)) in take(&mut generator, 600).iter().enumerate() {
            assert_eq!(address % 64, 0);
            assert_eq!(octets.len(), frame);
            assert_eq!(parse(octets, &settings), (i as u32 % 7, i as u32 / 7));
        }
    }
}

#[test]
fn flows_differ_in_port_or_destination() {
    let destinations = vec![0x0a00_0001, 0x0a00_0002, 0x0a00_0003];
    let settings = Settings { destinations, flows: 10, ..Settings::default() };
    let mut generator = Generator::new(&settings).unwrap();
    let tuples: HashSet<Vec<u8>> = take(&mut generator, 300)
        .iter()
        .map(|(_, octets)| octets[tag::IP + 12..tag::UDP + 4].to_vec())
        .collect();
    assert_eq!(tuples.len(), 10);
}

#[test]
fn more_destinations_than_fit_ready_frames_are_patched_in() {
    let destinations: Vec<u32> = (0..70_000).map(|i| 0x0a00_0000 + i * 251).collect();
    let settings = Settings { destinations, flows: 1, seed: 7, ..Settings::default() };
    let mut generator = Generator::new(&settings).unwrap();
    let mut seen = HashSet::new();
    // `parse` searches the list of destinations for each frame, so it checks only one frame in 500.
    for (i, (_, octets)) in take(&mut generator, 140_000).iter().enumerate() {
        let expected = (i as u32 % 70_000, i as u32 / 70_000);
        seen.insert(number(octets, tag::IP + 16));
        if i % 500 == 0 {
            assert_eq!(parse(octets, &settings), expected);
        } else {
            assert_eq!((number(octets, tag::FLOW), number(octets, tag::SEQUENCE)), expected);
            assert!(frame::checksum::holds(&octets[tag::IP..tag::UDP]));
        }
    }
    assert_eq!(seen.len(), 70_000);
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let list: Vec<u32> = (0..1000).collect();
    let frames = |seed| {
        let settings = Settings { destinations: list.clone(), seed, ..Settings::default() };
        let mut generator = Generator::new(&settings).unwrap();
        take(&mut generator, 1000).into_iter().map(|(_, octets)| octets).collect::<Vec<_>>()
    };
    assert_eq!(frames(3), frames(3));
    assert_ne!(frames(3), frames(4));
    assert_eq!(number(&frames(0)[5], tag::IP + 16), 5);
}

#[test]
fn an_offered_rate_has_no_bursts() {
    let clock = Fake::default();
    let settings = Settings { rate: Some(1e6), ..Settings::default() };
    let mut generator = Generator::with_clock(&settings, clock.clone()).unwrap();
    assert!(!generator.waits());
    // One poll each 300 ns over 10 ms: one frame each 1000 ns, never two at once.
    for _ in 0..33_333 {
        assert!(generator.drain(64, &mut |_| {}) <= 1);
        clock.0.fetch_add(300, Relaxed);
    }
    let counters = generator.counters();
    assert_eq!(counters.frames.get(), 9_999);
    assert_eq!(counters.not_offered.get(), 0);
    assert_eq!(counters.bytes.get(), 9_999 * 64);
}

#[test]
fn a_stall_is_not_made_up_for() {
    let clock = Fake::default();
    let settings = Settings { rate: Some(1e6), ..Settings::default() };
    let mut generator = Generator::with_clock(&settings, clock.clone()).unwrap();
    assert_eq!(generator.drain(64, &mut |_| {}), 0);
    clock.0.store(5_000_000, Relaxed);
    // 5,000 frames fell due during the stall; only the last 50 µs worth of them are sent.
    assert_eq!(generator.drain(64, &mut |_| {}), 50);
    assert_eq!(generator.drain(64, &mut |_| {}), 0);
    assert_eq!(generator.counters().not_offered.get(), 4_950);
}

#[test]
fn a_slow_rate_sends_its_frames_one_by_one() {
    let mut pace = Pace::new(3.0);
    let mut sent = 0;
    for ms in 0..=10_000 {
        let (due, given_up) = pace.due(ms * 1_000_000);
        assert!(due <= 1 && given_up == 0);
        pace.sent(due);
        sent += due;
    }
    assert_eq!(sent, 30);
}

#[test]
fn flat_out_shows_as_many_as_there_is_room_for() {
    let mut generator = Generator::new(&Settings::default()).unwrap();
    assert!(generator.waits());
    assert_eq!(generator.drain(5, &mut |frames| assert_eq!(frames.len(), 5)), 5);
    assert_eq!(generator.drain(0, &mut |_| panic!("nothing to show")), 0);
    assert_eq!(generator.drain(1000, &mut |_| {}), ring::BURST);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |settings: Settings| Generator::new(&settings).unwrap_err().to_string();
    assert!(refused(Settings { frame: 59, ..Settings::default() }).contains("59"));
    assert!(refused(Settings { frame: 9015, ..Settings::default() }).contains("9015"));
    assert!(refused(Settings { destinations: vec![], ..Settings::default() }).contains("destination"));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(Settings { rate: Some(rate), ..Settings::default() }).contains("rate"));
    }
}
