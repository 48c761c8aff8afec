//! The roles echo, source and sink.

use frame::{ipv4, udp};
use router::roles::{Echo, FLOW, SEQUENCE, Sink, Source, SourceSink, Tally, Traffic};

use crate::world::*;

const TRAFFIC: Traffic = Traffic {
    frame_len: 60,
    flows: 3,
    first_flow: 5,
    to_ip: ip(192, 168, 1, 1),
    from_ip: ip(10, 0, 0, 2),
    to_mac: own_mac(0),
    from_mac: peer_mac(0),
};

fn word(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

#[test]
fn echo_turns_frames_around() {
    let mut world = World::new(2);
    world.rx[1].push_back(udp_frame(1, ip(192, 168, 1, 1), 18));
    let mut arp = arp_reply(0, peer_mac(0), 9);
    world.rx[0].push_back(arp.clone());
    assert_eq!(Echo::new().pass(&mut world), 2);
    let sent = world.sent(1);
    let (ethernet, packet) = read_ipv4(&sent[0]);
    assert_eq!((ethernet.destination, ethernet.source), (peer_mac(1), own_mac(1)));
    let header = packet.header();
    assert_eq!((header.source, header.destination), (ip(192, 168, 1, 1), ip(10, 0, 1, 2)));
    let (header, payload) = udp::Header::parse(packet.payload()).unwrap();
    assert_eq!((header.source, header.destination, payload), (5000, 4000, &datagram(18)[8..]));
    // In frames other than IPv4 only the Ethernet addresses are swapped.
    arp[..12].copy_from_slice(&[peer_mac(0).0, own_mac(0).0].concat());
    assert_eq!(world.sent(0), [arp]);
    assert_eq!(world.out, 0);
}

#[test]
fn a_source_numbers_its_flows() {
    let mut world = World::new(1);
    let mut source = Source::new(&TRAFFIC);
    assert_eq!(source.pass(&mut world) + source.pass(&mut world), 128);
    for (n, frame) in (0u32..).zip(world.sent(0)) {
        assert_eq!(frame.len(), 60);
        assert_eq!((word(&frame, FLOW), word(&frame, SEQUENCE)), (5 + n % 3, n / 3));
        let (_, packet) = read_ipv4(&frame);
        assert_eq!(packet.header().protocol, ipv4::UDP);
        let (header, payload) = udp::Header::parse(packet.payload()).unwrap();
        assert_eq!((u32::from(header.source), payload.len()), (1024 + 5 + n % 3, 18));
    }
}

#[test]
fn a_source_sends_what_it_has_buffers_for_and_long_frames_whole() {
    let mut world = World::new(1);
    world.free = 10;
    let mut source = Source::new(&Traffic { frame_len: 1514, ..TRAFFIC });
    assert_eq!((source.pass(&mut world), source.pass(&mut world)), (10, 0));
    for frame in world.sent(0) {
        assert_eq!(read_ipv4(&frame).1.header().total_len, 1500);
        assert_eq!(frame.len(), 1514);
    }
}

#[test]
fn what_a_source_sends_a_router_forwards_and_a_sink_counts() {
    let mut lab = Lab::default();
    let mut source = Source::new(&TRAFFIC);
    let mut sink = Sink::new();
    for _ in 0..5 {
        source.pass(&mut lab.world);
        lab.world.rx[0] = lab.world.sent(0).into();
        lab.router.poll(&mut lab.world);
        lab.world.rx[1] = lab.world.sent(1).into();
        let mut far = World::new(2);
        std::mem::swap(&mut far.rx[1], &mut lab.world.rx[1]);
        assert_eq!(sink.pass(&mut far), 64);
        assert_eq!(far.out, 0);
    }
    lab.balance();
    assert_eq!(sink.tally(), Tally { frames: 320, octets: 320 * 60, ..Tally::default() });
}

#[test]
fn a_sink_notices_loss_and_disorder() {
    let mut world = World::new(1);
    Source::new(&Traffic { flows: 1, ..TRAFFIC }).pass(&mut world);
    let mut frames = world.sent(0);
    frames.truncate(10);
    frames.remove(7);
    frames.swap(2, 3);
    frames.push(arp_reply(0, peer_mac(0), 9));
    world.rx[0] = frames.into();
    let mut sink = Sink::new();
    assert_eq!(sink.pass(&mut world), 10);
    let expected = Tally { frames: 10, octets: 600, lost: 1, reordered: 1, foreign: 1 };
    assert_eq!(sink.tally(), expected);
}

#[test]
fn a_source_with_a_sink_waits_for_what_is_under_way() {
    let mut world = World::new(2);
    world.free = 10_000;
    let mut both = SourceSink::new(&Traffic { first_flow: 0, ..TRAFFIC });
    let sent: usize = (0..100).map(|_| both.pass(&mut world)).sum();
    assert_eq!(sent, 768);
    let frames = world.sent(0);
    // All but one arrive at the other NIC: the missing one is detected by the later ones.
    world.rx[1].extend(frames.into_iter().enumerate().filter(|(n, _)| *n != 100).map(|(_, frame)| frame));
    let moved: usize = (0..100).map(|_| both.pass(&mut world)).sum();
    assert_eq!(moved, 767 + 768);
    assert_eq!(both.tally(), Tally { frames: 767, octets: 767 * 60, lost: 1, reordered: 0, foreign: 0 });
}
