use port::{Frame, Null};
use ring::{BURST, Bytes};
use sandbox::Confinement;
use switch::{Config, Switch, SwitchPort};

use super::*;
use crate::requirements::tests::{ports, wanted};

const GROUP: [u8; 6] = [2, 0, 0, 0, 0, 9];
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A switch with a station, and a group of routers on it.
struct Bench {
    lan: Arc<Switch>,
    station: SwitchPort,
    shared: Arc<Shared>,
}

fn bench(queues: usize) -> Bench {
    bench_of(NicRequirements { queues, ..wanted("switch:lan") })
}

fn bench_of(wanted: NicRequirements) -> Bench {
    let lan = Arc::new(Switch::new("lan", Config::default()));
    let station = lan.add_port("station", Arc::new(Null::new())).expect("a port");
    let group = NicRequirements { router: "core".to_owned(), ..wanted };
    let link = group.serve(None, std::slice::from_ref(&lan), Confinement::Off).expect("the switch is there");
    Bench { lan, station, shared: Shared::new(link, group) }
}

/// Both ways of a member, as its router starts.
fn start(shared: &Arc<Shared>, number: u16) -> Ports {
    let wanted = NicRequirements { router: format!("core_{number}"), ..wanted("switch:lan") };
    ports(&*shared.member(number), &wanted)
}

/// A frame of UDP from one of many ports.
fn frame(to: [u8; 6], from: [u8; 6], flow: u16) -> Vec<u8> {
    let mut octets = vec![0; 60];
    octets[..6].copy_from_slice(&to);
    octets[6..12].copy_from_slice(&from);
    octets[12..15].copy_from_slice(&[8, 0, 0x45]);
    octets[23] = 17;
    octets[34..36].copy_from_slice(&flow.to_be_bytes());
    octets
}

fn send(sink: &dyn Sink, octets: &mut [u8]) {
    assert_eq!(sink.deliver(&[Frame::new(Bytes::from_slice(octets))]), 1);
}

/// Frames of so many flows from the station to the group.
fn flows(bench: &Bench, count: u16) {
    (0..count).for_each(|flow| send(&bench.station, &mut frame(GROUP, STATION, flow)));
}

/// The flows of the frames that wait for a member.
fn came(ports: &mut Ports) -> Vec<u16> {
    let mut flows = Vec::new();
    for source in &mut ports.sources {
        let mut take = |frames: &[Frame<'_>]| {
            flows.extend(frames.iter().filter_map(|frame| frame.octets().read(34).map(u16::from_be_bytes)));
        };
        while source.drain(BURST, &mut take) != 0 {}
    }
    flows.sort_unstable();
    flows
}

/// A frame of BFD from a neighbour.
fn bfd() -> Vec<u8> {
    let mut octets = frame(GROUP, STATION, 49_152);
    octets[16..18].copy_from_slice(&[0, 46]);
    octets[22] = 255;
    octets[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    octets[36..38].copy_from_slice(&3784_u16.to_be_bytes());
    octets
}

/// Destination ports of the frames that wait in a queue.
fn ports_in(source: &mut dyn Source) -> Vec<u16> {
    let mut found = Vec::new();
    let mut take = |frames: &[Frame<'_>]| {
        found.extend(frames.iter().filter_map(|frame| frame.octets().read(36).map(u16::from_be_bytes)));
    };
    while source.drain(BURST, &mut take) != 0 {}
    found
}

fn names(lan: &Switch) -> Vec<String> {
    let mut names = Vec::new();
    lan.counters(&mut |name, _| names.push(name.to_owned()));
    names
}

#[test]
fn members_are_one_port_and_own_its_queues() {
    let bench = bench(8);
    let shared = &bench.shared;
    assert_eq!((shared.queues(), shared.loads(), shared.is_free(0)), (8, vec![0; 8], true));
    (0..8).for_each(|queue| shared.assign(queue, Some(queue as u16 % 2)));
    let (mut a, mut b) = (start(shared, 0), start(shared, 1));
    assert_eq!(names(&bench.lan), ["station", "core.wan"]);
    assert_eq!((a.sources.len(), b.sinks.len(), a.is_spread, a.have_entered), (8, 8, false, false));
    flows(&bench, 200);
    let (first, second) = (came(&mut a), came(&mut b));
    assert!(first.len() > 60 && second.len() > 60, "{} and {}", first.len(), second.len());
    let mut all = [first.clone(), second.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    assert_eq!(shared.loads().iter().sum::<u64>(), 200);
    // The same flows again: they stay where they were.
    flows(&bench, 200);
    assert_eq!((came(&mut a), came(&mut b)), (first, second));
}

#[test]
fn urgent_frames_have_a_queue_that_goes_with_the_first_one() {
    let wanted = NicRequirements { queues: 2, queue_len: 16, has_control: true, ..wanted("switch:lan") };
    let bench = bench_of(wanted);
    let shared = &bench.shared;
    (0..2).for_each(|queue| shared.assign(queue, Some(queue as u16)));
    let (mut a, mut b) = (start(shared, 0), start(shared, 1));
    assert_eq!((shared.queues(), shared.loads(), a.sources.len()), (2, vec![0; 2], 3));
    let say = |octets: &mut [u8]| {
        bench.station.deliver(&[Frame::new(Bytes::from_slice(octets))]);
    };
    // More than both queues hold.
    (0..500).for_each(|flow| say(&mut frame(GROUP, STATION, flow)));
    say(&mut bfd());
    assert_eq!((ports_in(&mut *b.sources[2]), ports_in(&mut *a.sources[2])), (vec![], vec![3784]));
    assert!(!a.sources[2].waits() && a.sources[0].waits());
    shared.assign(0, Some(1));
    say(&mut bfd());
    assert_eq!((ports_in(&mut *a.sources[2]), ports_in(&mut *b.sources[2])), (vec![], vec![3784]));
    assert_eq!(shared.loads().len(), 2, "it is none of those that are dealt out");
}

#[test]
fn a_member_that_goes_leaves_the_port_to_the_others() {
    let bench = bench(4);
    (0..4).for_each(|queue| bench.shared.assign(queue, Some(queue as u16 % 2)));
    let (mut a, mut b) = (start(&bench.shared, 0), start(&bench.shared, 1));
    flows(&bench, 50);
    let before = came(&mut b);
    assert!(!came(&mut a).is_empty() && !before.is_empty());
    flows(&bench, 50);
    b.outside.leave();
    drop(b);
    assert_eq!(names(&bench.lan), ["station", "core.wan"]);
    (0..4).for_each(|queue| bench.shared.assign(queue, Some(0)));
    assert_eq!(came(&mut a), (0..50).collect::<Vec<_>>(), "nothing that waited is lost");
    // It comes back under its number.
    let mut again = start(&bench.shared, 1);
    bench.shared.assign(1, Some(1));
    assert!(came(&mut a).is_empty() && bench.shared.is_free(1));
    flows(&bench, 50);
    assert_eq!(came(&mut again).len() + came(&mut a).len(), 50);
}

#[test]
fn what_members_send_comes_from_one_port() {
    let bench = bench(2);
    let (a, b) = (start(&bench.shared, 0), start(&bench.shared, 1));
    for ports in [&a, &b] {
        send(&*ports.sinks[0], &mut frame(STATION, GROUP, 7));
    }
    let mut known = Vec::new();
    bench.lan.stations(&mut |_, port, _| known.push(port.to_owned()));
    assert_eq!(known, ["core.wan"]);
    let mut counted = Vec::new();
    bench.shared.outside().each_group(&mut |part, _| counted.push(part.to_owned()));
    assert_eq!(counted, ["queue"]);
}

#[test]
fn the_port_goes_with_the_group() {
    let Bench { lan, station: _station, shared } = bench(2);
    let member = shared.member(0);
    let started = start(&shared, 0);
    drop(shared);
    assert_eq!(names(&lan).len(), 2);
    drop((member, started));
    assert_eq!(names(&lan), ["station"]);
}

#[test]
fn a_link_of_another_size_is_refused() {
    let lan = Arc::new(Switch::new("lan", Config::default()));
    let two = NicRequirements { queues: 2, ..wanted("switch:lan") };
    let link = two.serve(None, std::slice::from_ref(&lan), Confinement::Off).expect("the switch is there");
    // A link that has but one queue, whatever is wanted.
    let alone = crate::port(Box::new(Null::new()), Arc::new(Null::new()));
    for (link, is_right) in [(link, true), (alone, false)] {
        let member = Shared::new(link, two.clone()).member(0);
        let queues = nic_port::NicQueues::foreign(1).expect("descriptors");
        let one = wanted("switch:lan");
        let service = ServiceContext { wanted: &one, threads: 1, queues: &queues, entry: &|_, sink| sink };
        assert_eq!(member.ports(&service).is_ok(), is_right);
    }
}
