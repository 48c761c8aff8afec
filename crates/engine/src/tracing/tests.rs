mod answers;
mod by_hand;
mod conduct;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use api::{Fate, Packet};
use frame::{Mac, arp, ethernet, ipv4, udp, vlan};
use port::{Frame, Null, Observer, Sink, ingress};
use switch::Switch;

use super::*;
use by_hand::begin;

const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
const EDGE_WAN: Mac = Mac([2, 0, 0, 0, 1, 1]);
const EDGE_LAN: Mac = Mac([2, 0, 0, 0, 1, 2]);
const CORE_LAN: Mac = Mac([2, 0, 0, 0, 2, 1]);
const CORE_FAR: Mac = Mac([2, 0, 0, 0, 2, 2]);
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TARGET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

/// An IPv4 packet as it appears on a link.
#[derive(Clone, Copy)]
struct Sent {
    from: Mac,
    to: Mac,
    ttl: u8,
    id: u16,
    port: u16,
}

impl Sent {
    const fn number(id: u16) -> Self {
        Self { from: HOST, to: EDGE_WAN, ttl: 64, id, port: 5000 }
    }

    /// The packet after one router.
    const fn forwarded(self, from: Mac, to: Mac) -> Self {
        Self { from, to, ttl: self.ttl - 1, ..self }
    }

    fn octets(self) -> Vec<u8> {
        let mut datagram = vec![0; 18 + udp::HEADER];
        let header = udp::Header { source: self.port, destination: 53, len: 26, checksum: 0 };
        header.write(&mut datagram).expect("room");
        let header = ipv4::Header {
            ttl: self.ttl,
            identification: self.id,
            ..ipv4::Header::new(ipv4::UDP, SOURCE.to_bits(), TARGET.to_bits(), datagram.len() as u16)
        };
        framed(self.from, self.to, &header, &datagram)
    }
}

fn framed(from: Mac, to: Mac, header: &ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; ethernet::HEADER + ipv4::HEADER];
    let ethernet = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 };
    ethernet.write(&mut octets).expect("room");
    header.write(&mut octets[ethernet::HEADER..]).expect("room");
    octets.extend_from_slice(payload);
    octets
}

fn arp_between(operation: arp::Operation, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut octets = vec![0; ethernet::HEADER + arp::LEN];
    let header = ethernet::Header { destination: Mac::BROADCAST, source: HOST, ethertype: ethernet::ARP };
    header.write(&mut octets).expect("room");
    let (sender_ip, target_ip) = (sender.to_bits(), target.to_bits());
    let packet = arp::Packet { operation, sender_mac: HOST, sender_ip, target_mac: Mac([0; 6]), target_ip };
    packet.write(&mut octets[ethernet::HEADER..]).expect("room");
    octets
}

fn deliver(sink: &Arc<dyn Sink>, mut frames: Vec<Vec<u8>>) -> usize {
    let frames: Vec<_> =
        frames.iter_mut().map(|octets| Frame::new(ring::Bytes::from_slice(octets))).collect();
    sink.deliver(&frames)
}

fn place(nic: &str, spot: Spot, mac: Mac) -> Place {
    let (router, nic) = nic.split_once('.').expect("router.nic");
    Place { router: router.to_owned(), nic: nic.to_owned(), spot, mac }
}

/// A router with two NICs at uplinks; its rings and uplinks accept all frames.
struct Edge {
    board: TapBoard,
    wan_rx: Arc<dyn Sink>,
    wan_tx: Arc<dyn Sink>,
    lan_tx: Arc<dyn Sink>,
}

fn edge() -> Edge {
    let board = TapBoard::default();
    let out = Spot::Tx { to_switch: false };
    let point = |nic: &str, spot, mac| board.point(place(nic, spot, mac), Arc::new(Null::new()));
    Edge {
        wan_rx: point("edge.wan", Spot::Rx, EDGE_WAN),
        wan_tx: point("edge.wan", out, EDGE_WAN),
        lan_tx: point("edge.lan", out, EDGE_LAN),
        board,
    }
}

fn order(nic: &str, count: u32) -> Order {
    let (router, nic) = nic.split_once('.').expect("router.nic");
    let timeout = Duration::from_secs(60);
    Order { router: router.to_owned(), nic: nic.to_owned(), count, timeout, filter: Filter::default() }
}

fn counters(moved: &[(&str, &str, u64)]) -> Arc<Drops> {
    let mut drops = Drops::default();
    moved.iter().for_each(|(prefix, name, value)| drops.note(prefix, name, *value));
    Arc::new(drops)
}

fn only(round: Round) -> Packet {
    let [packet] = <[Packet; 1]>::try_from(round.packets).expect("one packet");
    packet
}

fn places(packet: &Packet) -> Vec<&str> {
    packet.hops.iter().map(|hop| hop.place.as_str()).collect()
}

#[test]
fn a_packet_that_is_forwarded_is_seen_to_leave() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let sent = Sent::number(7);
    deliver(&edge.wan_rx, vec![sent.octets()]);
    assert!(trace.round(Arc::default).packets.is_empty(), "it is on its way");
    // Other packets leave before it.
    let others = (0..20).map(|n| Sent { port: n, ..sent }.forwarded(EDGE_LAN, HOST).octets()).collect();
    deliver(&edge.lan_tx, others);
    deliver(&edge.lan_tx, vec![sent.forwarded(EDGE_LAN, HOST).octets()]);
    let round = trace.round(Arc::default);
    let end = round.end.clone().expect("the only one");
    assert_eq!((end.traced, end.not_looked_at, end.filtered), (1, 0, 0));
    let packet = only(round);
    assert_eq!((packet.number, packet.len), (1, 60));
    let headers = format!("{HOST} > {EDGE_WAN} IPv4 192.0.2.2 > 198.51.100.2 ttl 64 id 7, UDP 5000 > 53");
    assert_eq!(packet.headers, headers);
    assert_eq!(places(&packet), ["edge.wan.rx", "edge.lan.tx"]);
    assert_eq!(packet.hops[1].seen, format!("ttl 63 to {HOST}"));
    let Fate::Left { nic, next_hop, after_ns, .. } = &packet.fate else { panic!("{:?}", packet.fate) };
    assert_eq!((nic.as_str(), next_hop.as_str()), ("edge.lan", HOST.to_string().as_str()));
    assert_eq!(*after_ns, packet.hops[1].after_ns);
}

/// Puts tags into a frame, the outer one first.
fn tagged(frame: &[u8], tags: &[vlan::Tag]) -> Vec<u8> {
    let (stations, rest) = frame.split_at(vlan::AT);
    let tags: Vec<u8> = tags.iter().flat_map(|tag| tag.octets()).collect();
    [stations, &tags, rest].concat()
}

#[test]
fn a_packet_is_followed_from_vlan_to_vlan() {
    let (edge, far) = (edge(), Sent::number(7).forwarded(EDGE_LAN, HOST));
    let mut trace = begin(&edge.board, order("edge.wan", 2));
    let tags = [vlan::Tag::new(vlan::SERVICE, 200), vlan::Tag::new(vlan::CUSTOMER, 100)];
    deliver(&edge.wan_rx, vec![tagged(&Sent::number(7).octets(), &tags), Sent::number(8).octets()]);
    let other = Sent { port: 9, ..far };
    let left = [tagged(&other.octets(), &tags), tagged(&far.octets(), &tags[1..])];
    deliver(&edge.lan_tx, left.into());
    let other = Sent::number(8).forwarded(EDGE_LAN, HOST).octets();
    deliver(&edge.lan_tx, vec![tagged(&other, &tags)]);
    let packets = trace.round(Arc::default).packets;
    let seen: Vec<[&str; 2]> =
        packets.iter().map(|packet| [packet.headers.as_str(), &packet.hops[1].seen]).collect();
    let in_vlan = |ids: &str| format!("ttl 63 to {HOST} in VLAN {ids}");
    let headers = |vlan: &str, id: u16| {
        format!("{HOST} > {EDGE_WAN}{vlan} IPv4 192.0.2.2 > 198.51.100.2 ttl 64 id {id}, UDP 5000 > 53")
    };
    assert_eq!(
        seen,
        [[headers(" in VLAN 200.100", 7), in_vlan("100")], [headers("", 8), in_vlan("200.100")]]
    );
    assert_eq!(packets[0].len, 68, "tags belong to the frame");
}

#[test]
fn a_group_is_traced_at_all_of_its_members_and_probes_are_not() {
    let board = TapBoard::default();
    let point = |name, spot| board.point(place(name, spot, EDGE_WAN), Arc::new(Null::new()));
    let rings = ["core_0.wan", "core_1.wan", "edge.wan"].map(|name| point(name, Spot::Rx));
    let mut trace = begin(&board, order("core.wan", 9));
    let probe = Sent { from: group::probe::BACK, ..Sent::number(1) };
    for (id, ring) in (2..).zip(&rings) {
        deliver(ring, vec![probe.octets(), Sent::number(id).octets()]);
    }
    trace.wait(MISSED);
    let round = trace.round(Arc::default);
    let came: Vec<&str> = round.packets.iter().flat_map(places).collect();
    assert_eq!(came, ["core_0.wan.rx", "core_1.wan.rx"]);
}

#[test]
fn what_a_router_drops_is_named_by_its_counters() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let before = [("edge.vcpu0", "drop_martian", 5), ("edge.vcpu0", "forwarded", 5)];
    trace.round(|| counters(&before));
    deliver(&edge.wan_rx, vec![Sent::number(7).octets()]);
    let after = counters(&[
        ("edge.vcpu0", "drop_martian", 5),
        ("edge.vcpu0", "drop_no_route", 1),
        ("edge.vcpu0", "forwarded", 9),
        ("core.vcpu0", "drop_ttl", 3),
    ]);
    assert!(trace.round(|| after.clone()).packets.is_empty(), "it may still be on its way");
    trace.wait(DROPPED - Duration::from_nanos(1));
    assert!(trace.round(|| after.clone()).packets.is_empty(), "it may still be on its way");
    trace.wait(Duration::from_nanos(1));
    let packet = only(trace.round(|| after.clone()));
    let counters = BTreeMap::from([("edge.vcpu0.drop_no_route".to_owned(), 1)]);
    assert_eq!(packet.fate, Fate::NotSeen { last: "edge.wan.rx".to_owned(), counters });
}

#[test]
fn what_a_ring_does_not_take_is_named() {
    let board = TapBoard::default();
    let (queue, _waiting) = ingress(2).expect("a queue");
    let sink = board.point(place("edge.wan", Spot::Queue, EDGE_WAN), queue);
    let mut trace = begin(&board, order("edge.wan", 4));
    let frames = (1..5).map(|id| Sent::number(id).octets()).collect();
    assert_eq!(deliver(&sink, frames), 2);
    let round =
        trace.round(|| counters(&[("edge.wan.queue", "drop_full", 2), ("edge.lan.tx", "drop_full", 1)]));
    assert_eq!(round.packets.iter().map(|packet| packet.number).collect::<Vec<_>>(), [3, 4]);
    for packet in &round.packets {
        let counters = BTreeMap::from([("edge.wan.queue.drop_full".to_owned(), 2)]);
        assert_eq!(packet.fate, Fate::NotPlaced { place: "edge.wan.queue".to_owned(), counters });
        assert!(packet.hops[0].seen.ends_with("not taken"), "{}", packet.hops[0].seen);
    }
}

#[test]
fn what_several_threads_deliver_at_the_same_time_is_not_confused() {
    let state = Arc::new(TraceState::new(Filter::default(), Clock::default()));
    state.let_in(4, Arc::default());
    let place = Arc::new(place("edge.wan", Spot::Queue, EDGE_WAN));
    let mut observer = TraceObserver::new(place, true, state.clone());
    let mut octets: Vec<Vec<u8>> = (1..5).map(|id| Sent::number(id).octets()).collect();
    let frames: Vec<_> =
        octets.iter_mut().map(|octets| Frame::new(ring::Bytes::from_slice(octets))).collect();
    let (one, other) = frames.split_at(2);
    observer.expect(one);
    observer.expect(other);
    observer.observe(&one[..1]);
    observer.lose(&one[1..]);
    observer.observe(other);
    let lost = state.harvest(|_| true).into_iter().map(|followed| (followed.number, followed.is_over()));
    assert_eq!(lost.collect::<Vec<_>>(), [(1, false), (2, true), (3, false), (4, false)]);
    // The next bursts lie where the last ones were.
    state.let_in(4, Arc::default());
    observer.expect(other);
    observer.lose(other);
    let lost = state.harvest(|_| true).into_iter().map(|followed| (followed.number, followed.is_over()));
    assert_eq!(lost.collect::<Vec<_>>(), [(5, true), (6, true)]);
}

#[test]
fn an_uplink_that_does_not_take_it_is_named() {
    let board = TapBoard::default();
    let (queue, _waiting) = ingress(1).expect("a queue");
    let wan = board.point(place("edge.wan", Spot::Rx, EDGE_WAN), Arc::new(Null::new()));
    let lan = board.point(place("edge.lan", Spot::Tx { to_switch: false }, EDGE_LAN), queue);
    let mut trace = begin(&board, order("edge.wan", 1));
    let sent = Sent::number(1);
    deliver(&wan, vec![sent.octets()]);
    let out = |sent: Sent| sent.forwarded(EDGE_LAN, HOST).octets();
    deliver(&lan, vec![out(Sent::number(9)), out(sent)]);
    let packet = only(trace.round(|| counters(&[("edge.lan.tap.write", "drop_full", 1)])));
    let counters = BTreeMap::from([("edge.lan.tap.write.drop_full".to_owned(), 1)]);
    assert_eq!(packet.fate, Fate::NotPlaced { place: "edge.lan.tx".to_owned(), counters });
}

/// Two routers on a switch; a third NIC receives flooded frames.
struct Backbone {
    board: TapBoard,
    rings: Vec<Arc<dyn Sink>>,
    switch_port: Arc<dyn Sink>,
    far: Arc<dyn Sink>,
}

fn backbone() -> Backbone {
    let (board, switch) = (TapBoard::default(), Arc::new(Switch::new("lan", switch::Config::default())));
    let null = || Arc::new(Null::new());
    let wan = board.point(place("edge.wan", Spot::Rx, EDGE_WAN), null());
    let entry = |nic, mac| {
        let queue = board.point(place(nic, Spot::Queue, mac), null());
        switch.add_port(nic, queue).expect("a port")
    };
    let port = entry("edge.lan", EDGE_LAN);
    let others = [entry("core.lan", CORE_LAN), entry("spy.lan", Mac([2; 6]))];
    let port = board.point(place("edge.lan", Spot::Tx { to_switch: true }, EDGE_LAN), Arc::new(port));
    let core = board.point(place("core.lan", Spot::Rx, CORE_LAN), null());
    let far = board.point(place("core.far", Spot::Tx { to_switch: false }, CORE_FAR), null());
    // Leaked, so that it lives as long as the test.
    std::mem::forget(others);
    Backbone { board, rings: vec![wan, core], switch_port: port, far }
}

#[test]
fn a_packet_is_followed_through_a_switch_to_the_next_router() {
    let world = backbone();
    let mut trace = begin(&world.board, order("edge.wan", 1));
    let sent = Sent::number(3);
    deliver(&world.rings[0], vec![sent.octets()]);
    let between = sent.forwarded(EDGE_LAN, CORE_LAN);
    deliver(&world.switch_port, vec![between.octets()]);
    deliver(&world.rings[1], vec![between.octets()]);
    trace.wait(2 * SWITCHED);
    assert!(trace.round(Arc::default).packets.is_empty(), "the next router has it");
    deliver(&world.far, vec![between.forwarded(CORE_FAR, HOST).octets()]);
    let packet = only(trace.round(Arc::default));
    let way = ["edge.wan.rx", "edge.lan.tx", "core.lan.queue", "core.lan.rx", "core.far.tx"];
    assert_eq!(places(&packet), way);
    assert!(packet.hops.is_sorted_by_key(|hop| hop.after_ns), "{:?}", packet.hops);
    assert!(matches!(&packet.fate, Fate::Left { nic, .. } if nic == "core.far"), "{:?}", packet.fate);
}

#[test]
fn a_packet_that_a_switch_takes_elsewhere_has_left() {
    let world = backbone();
    let mut trace = begin(&world.board, order("edge.wan", 1));
    let sent = Sent::number(3);
    deliver(&world.rings[0], vec![sent.octets()]);
    deliver(&world.switch_port, vec![sent.forwarded(EDGE_LAN, HOST).octets()]);
    trace.wait(2 * SWITCHED);
    let packet = only(trace.round(Arc::default));
    assert_eq!(places(&packet), ["edge.wan.rx", "edge.lan.tx"]);
    assert!(matches!(&packet.fate, Fate::Left { nic, .. } if nic == "edge.lan"), "{:?}", packet.fate);
}

#[test]
fn fragments_of_a_packet_are_that_packet() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let header = ipv4::Header {
        identification: 77,
        ..ipv4::Header::new(ipv4::UDP, SOURCE.to_bits(), TARGET.to_bits(), 1000)
    };
    deliver(&edge.wan_rx, vec![framed(HOST, EDGE_WAN, &header, &[7; 1000])]);
    let piece = |offset, more_fragments| ipv4::Header {
        total_len: 520,
        more_fragments,
        fragment_offset: offset,
        ttl: 63,
        ..header
    };
    let pieces = [(piece(63, false), 500), (piece(0, true), 504)];
    deliver(
        &edge.lan_tx,
        pieces.map(|(header, len)| framed(EDGE_LAN, HOST, &header, &vec![7; len])).to_vec(),
    );
    let packet = only(trace.round(Arc::default));
    assert_eq!(packet.hops.len(), 2, "{:?}", packet.hops);
    assert!(matches!(packet.fate, Fate::Left { .. }));
}

#[test]
fn frames_of_any_length_and_content_are_shown() {
    let mut octets = Sent::number(3).octets();
    octets.extend([0; 200]);
    for len in 0..octets.len() {
        for change in [0, 14, 23, 46] {
            let mut cut = octets[..len].to_vec();
            if let Some(octet) = cut.get_mut(change) {
                *octet ^= 0x4f;
            }
            let head = Head::copy(&Frame::new(ring::Bytes::from_slice(&mut cut)));
            assert!(!head.to_string().is_empty());
            assert_eq!(head.fingerprint().is_some(), len >= sighting::SHORT);
            head.answers(&head.identity());
        }
    }
}
