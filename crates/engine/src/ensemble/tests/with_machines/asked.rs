//! What members behind balancers ask and say by ARP and neighbour discovery is heard for all of them, and leaves in the name of the group.

use bootinfo::Question;
use frame::ipv6;
use frame::nd::{Advert, AdvertOptions, RouterAdvert, Solicit};
use router::Ip;

use super::*;
use crate::tables::tests::Made;

#[test]
fn what_a_member_asks_at_its_desk_is_asked_at_the_link_and_known_to_all() {
    const HOST: u32 = u32::from_be_bytes([192, 0, 2, 7]);
    let bench = bench();
    let made = Made::of(&bench.plan.members("core").cloned().collect::<Vec<_>>());
    bench.tables.adopt(made.supplies("core")).expect("mapped");
    let (balancers, members) = all(&bench);
    let (heard, mut wire) = port::ingress(1000).expect("a queue");
    let station = bench.switches[0].add_port("station", heard).expect("a port");
    let desk = bench.tables.desk("core_1").expect("a desk");
    let (own, end) = (frame::Mac(bench.group().pattern.nics[0].mac.0), Instant::now() + PATIENCE);
    let mut asked = Vec::new();
    while asked.is_empty() {
        assert!(Instant::now() < end, "nobody asks");
        desk.ask(0, Question { nic: 0, ip: HOST });
        wire.drain(BURST, &mut |frames| asked.extend(frames.iter().filter_map(packet_of)));
        std::thread::sleep(Duration::from_millis(1));
    }
    let packet = asked[0];
    assert_eq!(
        (packet.operation, packet.sender_mac, packet.target_ip),
        (arp::Operation::Request, own, HOST),
        "in the group's name"
    );
    let answer = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: STATION,
        sender_ip: HOST,
        target_mac: own,
        target_ip: packet.sender_ip,
    };
    station.deliver(&[Frame::new(Bytes::from_slice(&mut hosts::spoken(own, &answer)))]);
    let table = bench.tables.neighbours("core").expect("a table");
    while table.find(0, Ip::v4(HOST)) != Some(STATION) {
        assert!(Instant::now() < end, "it is not known");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(table.find(1, Ip::v4(probe::destination(1))), Some(probe::back(1)), "each NIC's own");
    bench.becomes(&SERVING);
    drop((balancers, members));
}

#[test]
fn what_a_member_asks_while_there_is_no_balancer_is_lost_and_counted() {
    let bench = bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"));
    let member = bench.member(0);
    let core = bench.ensemble().core.clone();
    let mac = frame::Mac(bench.group().stations(0).next().expect("a NIC").0);
    let request = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: mac,
        sender_ip: u32::from_be_bytes([192, 0, 2, 1]),
        target_mac: frame::Mac::default(),
        target_ip: u32::from_be_bytes([192, 0, 2, 7]),
    };
    let mut octets = hosts::spoken(frame::Mac::BROADCAST, &request);
    assert!(core.hears_member((0, 0), &Frame::new(Bytes::from_slice(&mut octets))));
    let own = 0x2001_0db8_u128 << 96 | 1;
    let (target, to) = (own + 6, ipv6::solicited_node(own + 6));
    let solicit = Solicit { target, source_mac: Some(mac) };
    let mut octets = nodes::spoken((mac, ipv6::group_mac(to)), (own, to), |payload| solicit.write(payload));
    assert!(core.hears_discovery_of((0, 0), &Frame::new(Bytes::from_slice(&mut octets))));
    let counted =
        ["arp_asked", "nd_asked", "drop_asked"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [0, 0, 2]);
    drop(member);
}

#[test]
fn what_a_member_says_of_neighbours_leaves_by_the_link_in_the_name_of_the_group() {
    let bench = bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"));
    let (balancers, members) = all(&bench);
    let core = bench.ensemble().core.clone();
    let (inbox, mut wire) = port::ingress(1000).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let (own, group) = (0x2001_0db8_u128 << 96 | 1, frame::Mac(bench.group().pattern.nics[0].mac.0));
    let (host, near) = (own + 6, ipv6::link_local(group));
    let mac = frame::Mac(bench.group().stations(0).next().expect("a NIC").0);
    let mut heard: Vec<Vec<u8>> = Vec::new();
    let stays = |mut octets: nodes::Spoken| {
        core.hears_discovery_of((0, 0), &Frame::new(Bytes::from_slice(&mut octets)))
    };
    let solicit = |source: u128, target: u128| {
        let (to, source_mac) = (ipv6::solicited_node(target), (source != 0).then_some(mac));
        let solicit = Solicit { target, source_mac };
        nodes::spoken((mac, ipv6::group_mac(to)), (source, to), |payload| solicit.write(payload))
    };
    let options = AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) };
    let (to, ends) = (ipv6::group_mac(ipv6::ALL_NODES), (near, ipv6::ALL_NODES));
    let advert = nodes::spoken((mac, to), ends, |payload| RouterAdvert::default().write(&options, payload));
    assert!(stays(solicit(0, own)) && stays(solicit(own, host)) && stays(advert), "under its own name");
    let end = Instant::now() + PATIENCE;
    let kinds = |heard: &[Vec<u8>]| heard.iter().map(|octets| octets[54]).collect::<Vec<_>>();
    while !kinds(&heard).ends_with(&[134]) {
        assert!(Instant::now() < end, "{:?}", kinds(&heard));
        // Another one speaks for the group while this one is suspect.
        assert!(stays(advert));
        let read = |frame: &Frame<'_>| {
            let mut octets = [0; nodes::LONGEST];
            let len = frame.octets().copy_to_slice(&mut octets);
            nodes::Message::read(&octets[..len]).map(|_| octets[..len].to_vec())
        };
        wire.drain(BURST, &mut |frames| heard.extend(frames.iter().filter_map(read)));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(kinds(&heard)[..3], [135, 135, 134]);
    let said: Vec<_> = heard.iter().filter_map(|octets| nodes::Message::read(octets)).collect();
    assert!(said.iter().all(|message| message.by == group), "{said:?}");
    assert_eq!([said[0].source, said[1].source, said[2].source], [0, own, near]);
    let named = |octets: &[u8], at: usize| octets[at..at + 8] == [&[1, 1][..], &group.0].concat()[..];
    assert!(named(&heard[1], 78) && named(&heard[2], 70), "and so it is named inside");
    let advert =
        Advert { target: host, target_mac: Some(STATION), router: false, solicited: true, overrides: true };
    let mut answer = nodes::spoken((STATION, group), (host, own), |payload| advert.write(payload));
    station.deliver(&[Frame::new(Bytes::from_slice(&mut answer))]);
    while core.links[0].plain.nodes().stations() != [STATION] {
        assert!(Instant::now() < end, "the answer is not heard");
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.becomes(&SERVING);
    drop((balancers, members));
}

#[test]
fn arp_of_a_stranger_behind_balancers_is_counted_by_each_of_them() {
    let bench = bench();
    let (balancers, members) = all(&bench);
    let inner = bench.switches.iter().find(|switch| switch.name() == "core_w").expect("between the stages");
    let stranger = inner.add_port("stranger", Arc::new(port::Null::new())).expect("a port");
    let request = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: STATION,
        sender_ip: u32::from_be_bytes([192, 0, 2, 8]),
        target_mac: frame::Mac::default(),
        target_ip: u32::from_be_bytes([192, 0, 2, 9]),
    };
    let mut octets = hosts::spoken(frame::Mac::BROADCAST, &request);
    stranger.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
    let end = Instant::now() + PATIENCE;
    // The members, which do not get it, count it as well.
    while bench.counted("core.w.group.arp_ignored") < 4 {
        assert!(Instant::now() < end, "{}", bench.counted("core.w.group.arp_ignored"));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.counted("core.w.group.arp_asked"), 0, "no member has asked");
    drop((balancers, members));
}
