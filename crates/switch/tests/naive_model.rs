//! The switch against a naive one: random bursts, ticks and changes of ports; each receiver gets the same frames in the
//! same order from both, and the counters balance.
#![cfg(not(loom))]

use std::collections::{BTreeMap, HashMap};

use ledger::PortCounters;
use port::{Frame, Frames, IngressSource, Sink, Source, ingress};
use proptest::collection::vec;
use proptest::prelude::*;
use ring::{Bytes, Slots};
use switch::{Config, Switch, SwitchPort};

const AGEING: u32 = 5;
/// Shorter than a burst, so that receivers lose frames.
const QUEUE: usize = 48;
const PORTS: usize = 5;

/// A frame to be made: destination, source, length.
type Draft = (u8, u8, usize);

#[derive(Clone, Debug)]
enum Step {
    Burst(usize, Vec<Draft>),
    Tick(u32),
    /// Removes the port, or adds it again.
    Toggle(usize),
}

/// Stations 0 to 7; 8 is broadcast, 9 a group, 10 all zeros.
fn address(n: u8) -> [u8; 6] {
    match n {
        8 => [0xff; 6],
        9 => [1, 0, 0x5e, 0, 0, 1],
        10 => [0; 6],
        n => [2, 0, 0, 0, 0, n],
    }
}

fn draft() -> impl Strategy<Value = Draft> {
    let mostly = |rare: std::ops::Range<u8>| prop_oneof![9 => 0u8..8, 1 => rare];
    let length = prop_oneof![9 => Just(60usize), 1 => 14usize..200, 1 => 0usize..14];
    (mostly(8..11), mostly(8..11), length)
}

/// Frames often come in runs.
fn burst() -> impl Strategy<Value = Vec<Draft>> {
    vec((draft(), 1usize..12), 0..20)
        .prop_map(|runs| runs.into_iter().flat_map(|(draft, n)| std::iter::repeat_n(draft, n)).collect())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..PORTS, burst()).prop_map(|(port, drafts)| Step::Burst(port, drafts)),
        2 => (0..4u32).prop_map(Step::Tick),
        1 => (0..PORTS).prop_map(Step::Toggle),
    ]
}

fn octets((destination, source, length): Draft, number: u8) -> Vec<u8> {
    let mut octets = vec![number; length.max(14)];
    octets[..6].copy_from_slice(&address(destination));
    octets[6..12].copy_from_slice(&address(source));
    octets.truncate(length);
    octets
}

/// The naive switch, which handles one frame at a time.
#[derive(Default)]
struct Naive {
    stations: HashMap<[u8; 6], (usize, u32)>,
    ports: Vec<usize>,
    now: u32,
}

impl Naive {
    /// Returns the ports that a frame leaves by.
    fn switch(&mut self, from: usize, octets: &[u8]) -> Vec<usize> {
        if octets.len() < 14 || octets[6] & 1 != 0 || !self.ports.contains(&from) {
            return Vec::new();
        }
        let (to, source): ([u8; 6], [u8; 6]) =
            (octets[..6].try_into().unwrap(), octets[6..12].try_into().unwrap());
        if source != [0; 6] {
            self.stations.insert(source, (from, self.now));
        }
        match self.stations.get(&to) {
            Some(&(port, seen)) if self.now - seen < AGEING => {
                if port == from {
                    Vec::new()
                } else {
                    vec![port]
                }
            }
            _ => self.ports.iter().copied().filter(|&port| port != from).collect(),
        }
    }
}

/// A port of the real switch.
struct Port {
    way: SwitchPort,
    queue: IngressSource,
}

struct World {
    lan: Switch,
    ports: BTreeMap<usize, Port>,
    /// Handles of removed ports: frames that still enter there are dropped and counted.
    gone: Vec<SwitchPort>,
    naive: Naive,
}

impl World {
    fn new() -> Self {
        let lan = Switch::new("lan", Config { ageing: AGEING, capacity: 64 });
        let mut world = Self { lan, ports: BTreeMap::new(), gone: Vec::new(), naive: Naive::default() };
        (0..PORTS).for_each(|port| world.toggle(port));
        world
    }

    fn toggle(&mut self, number: usize) {
        if let Some(port) = self.ports.remove(&number) {
            assert!(self.lan.remove_port(port.way.id()));
            self.gone.push(port.way);
            self.naive.ports.retain(|&port| port != number);
            self.naive.stations.retain(|_, &mut (port, _)| port != number);
        } else {
            let (sink, queue) = ingress(QUEUE as u32).unwrap();
            let way = self.lan.add_port(&number.to_string(), sink).unwrap();
            self.ports.insert(number, Port { way, queue });
            self.naive.ports.push(number);
        }
    }

    fn burst(&mut self, from: usize, drafts: &[Draft]) {
        let frames: Vec<_> = drafts.iter().zip(0..).map(|(&draft, i)| octets(draft, i as u8)).collect();
        for frames in frames.chunks(ring::BURST) {
            let mut expected = BTreeMap::<usize, Vec<Vec<u8>>>::new();
            for octets in frames {
                for port in self.naive.switch(from, octets) {
                    expected.entry(port).or_default().push(octets.clone());
                }
            }
            let Some(port) = self.ports.get(&from) else {
                return self.gone.iter().for_each(|way| enter(way, frames));
            };
            enter(&port.way, frames);
            for (number, port) in &mut self.ports {
                let mut expected = expected.remove(number).unwrap_or_default();
                expected.truncate(QUEUE);
                assert_eq!(contents(&mut port.queue), expected, "at port {number}");
            }
        }
    }

    fn audit(&self) {
        let (mut copies, mut left) = (0, 0);
        let ways = self.ports.values().map(|port| &port.way).chain(&self.gone);
        for counters in ways.map(SwitchPort::counters) {
            let PortCounters { forwarded, flood_unknown, flood_broadcast, .. } = &counters;
            let sent = forwarded.get() + flood_unknown.get() + flood_broadcast.get();
            let dropped =
                counters.drop_same_port.get() + counters.drop_malformed.get() + counters.drop_removed.get();
            assert_eq!(counters.drop_pause.get(), 0, "no draft is a pause");
            assert_eq!(counters.in_frames.get(), sent + dropped);
            copies += forwarded.get() + counters.flood_copies.get();
            left += counters.out_frames.get() + counters.drop_full.get();
        }
        assert_eq!(copies, left);
    }
}

fn enter(way: &SwitchPort, frames: &[Vec<u8>]) {
    let slots = Slots::new(frames.len(), 256);
    let shown: Frames<'_> = frames
        .iter()
        .enumerate()
        .map(|(i, octets)| {
            let slot = slots.get(i, octets.len()).unwrap_or(Bytes::EMPTY);
            slot.copy_from_slice(octets);
            Frame::new(slot)
        })
        .collect();
    assert_eq!(way.deliver(&shown), frames.len());
}

fn contents(queue: &mut IngressSource) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut copy = |frames: &[Frame<'_>]| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            all.push(octets);
        }
    };
    while queue.drain(ring::BURST, &mut copy) != 0 {}
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn delivers_what_a_naive_switch_delivers(steps in vec(step(), 1..40)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Burst(from, drafts) => world.burst(from, &drafts),
                Step::Tick(seconds) => {
                    world.naive.now += seconds;
                    world.lan.tick(world.naive.now);
                }
                Step::Toggle(port) => world.toggle(port),
            }
            world.audit();
        }
    }
}

/// Four threads enter at four ports while a fifth port comes and goes: no frames are lost beyond those counted, and
/// each sender's frames stay in order.
#[test]
fn threads_enter_while_ports_change() {
    const ROUNDS: usize = 400;
    let lan = Switch::new("lan", Config::default());
    let (ways, queues): (Vec<_>, Vec<_>) = (0..4)
        .map(|n| {
            let (sink, queue) = ingress(64).unwrap();
            (lan.add_port(&n.to_string(), sink).unwrap(), queue)
        })
        .unzip();
    let mut changing = Vec::new();
    let received: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = ways
            .iter()
            .zip(queues)
            .zip(0u8..)
            .map(|((way, queue), n)| scope.spawn(move || talk(way, queue, n, ROUNDS)))
            .collect();
        for n in 0..100 {
            let (sink, _source) = ingress(8).unwrap();
            let way = lan.add_port("changing", sink).unwrap();
            enter(&way, &[octets((8, 7, 60), n)]);
            assert!(lan.remove_port(way.id()));
            changing.push(way);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let (mut copies, mut left, mut lost, mut out) = (0, 0, 0, 0);
    for (i, counters) in ways.iter().chain(&changing).map(SwitchPort::counters).enumerate() {
        copies += counters.forwarded.get() + counters.flood_copies.get();
        left += counters.out_frames.get() + counters.drop_full.get();
        lost += counters.drop_full.get();
        out += if i < 4 { counters.out_frames.get() } else { 0 };
    }
    assert_eq!(copies, left, "{lost} lost");
    assert!(received <= out, "more came out than went in");
}

/// Sends bursts to the other stations and drains meanwhile; returns how many frames arrived.
fn talk(way: &SwitchPort, mut queue: IngressSource, me: u8, rounds: usize) -> u64 {
    let mut latest = [0u32; 8];
    let mut received = 0;
    for round in 0..rounds {
        let frames: Vec<_> = (0..16u8)
            .map(|i| {
                let mut frame = octets((if i == 15 { 8 } else { (me + 1 + i % 3) % 4 }, me, 60), 0);
                frame[14..18].copy_from_slice(&(round as u32 * 16 + u32::from(i) + 1).to_le_bytes());
                frame
            })
            .collect();
        enter(way, &frames);
        for octets in contents(&mut queue) {
            let sender = usize::from(octets[11]);
            let number = u32::from_le_bytes(octets[14..18].try_into().unwrap());
            // Station 7 is at the port that comes and goes.
            assert!(sender == 7 || number > latest[sender], "frames of station {sender} changed places");
            latest[sender] = number;
            received += 1;
        }
    }
    received
}
