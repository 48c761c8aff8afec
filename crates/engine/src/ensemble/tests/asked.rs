//! What the network asks of a group by ARP and neighbour discovery has one answer, and one member advertises it as a router.

use frame::ipv6;
use frame::nd::{AdvertOptions, RouterAdvert, Solicit};

use super::*;

#[test]
fn what_the_network_asks_is_answered_once_by_whoever_owns_the_queue() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let mut request = arp(arp::Operation::Request, (STATION, [192, 0, 2, 7]), [192, 0, 2, 1]);
    station.deliver(&[Frame::new(Bytes::from_slice(&mut request))]);
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    while bench.counted("core.w.group.arp_answered") == 0 || answers.is_empty() {
        assert!(Instant::now() < end, "nobody answers");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(packet_of)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(packet_of)));
    let mac = frame::Mac(bench.group.pattern.nics[0].mac.0);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].sender_mac, answers[0].target_mac), (mac, STATION));
    let counted = ["arp_heard", "arp_answered"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [1, 1]);
    drop(members);
}

/// A bench whose group has an IPv6 address at the first switch.
fn with_six() -> Bench {
    bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"))
}

#[test]
fn what_the_network_solicits_is_answered_once_by_whoever_owns_the_queue() {
    let bench = with_six();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let own = 0x2001_0db8_u128 << 96 | 1;
    let (ask, group) = (Solicit { target: own, source_mac: Some(STATION) }, ipv6::solicited_node(own));
    let mut solicit =
        nodes::spoken((STATION, ipv6::group_mac(group)), (own + 6, group), |payload| ask.write(payload));
    station.deliver(&[Frame::new(Bytes::from_slice(&mut solicit))]);
    let read = |frame: &Frame<'_>| {
        let mut octets = [0; nodes::LONGEST];
        let len = frame.octets().copy_to_slice(&mut octets);
        nodes::Message::read(&octets[..len])
    };
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    while bench.counted("core.w.group.nd_answered") == 0 || answers.is_empty() {
        assert!(Instant::now() < end, "no answer");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(read)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(read)));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].by, answers[0].source), (frame::Mac(bench.group.pattern.nics[0].mac.0), own));
    assert_eq!(bench.counted("core.w.group.nd_heard"), 1);
    drop(members);
}

#[test]
fn one_member_advertises_the_group_as_a_router() {
    let bench = with_six();
    let members = (bench.member(0), bench.member(1));
    let mac = frame::Mac(bench.group.pattern.nics[0].mac.0);
    let options = AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) };
    let (to, ends) = (ipv6::group_mac(ipv6::ALL_NODES), (ipv6::link_local(mac), ipv6::ALL_NODES));
    let mut advert =
        nodes::spoken((mac, to), ends, |payload| RouterAdvert::default().write(&options, payload));
    let advert = Frame::new(Bytes::from_slice(&mut advert));
    let core = &bench.ensemble.core;
    let stays = || [0, 1].map(|member| core.hears_discovery_of((member, 0), &advert));
    core.leave(Aside::Planned, |name| name == "core_1");
    bench.becomes(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    assert_eq!(stays(), [false, true]);
    core.stay(Aside::Planned, |_| true);
    core.leave(Aside::Planned, |name| name == "core_0");
    bench.becomes(&["leaving, 0 of 8 queues", "serving, 8 of 8 queues"]);
    assert_eq!(stays(), [true, false]);
    let counted = ["nd_advertised", "nd_kept"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [2, 2]);
    // A thread that moves frames does not wait for a round.
    let round = core.board.lock().expect("no panic");
    assert_eq!(stays(), [true, false]);
    drop(round);
    // At the other switch it has no IPv6, and there is nothing to speak of.
    assert!(!core.hears_discovery_of((1, 1), &advert));
    drop(members);
}

#[test]
fn in_a_vlan_the_group_has_other_addresses_and_answers_with_the_tag() {
    let vlan = "[[group.interface]]\nname = 'guests'\nnic = 'w'\nvlan = 7\naddress = '203.0.113.1/24'\n";
    let bench = bench_of(&format!("{FILE}{vlan}"));
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let ask = |tags: &[u8]| {
        let plain = arp(arp::Operation::Request, (STATION, [203, 0, 113, 9]), [203, 0, 113, 1]);
        let mut octets = [&plain[..12], tags, &plain[12..]].concat();
        station.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
    };
    ask(&[]);
    ask(&[0x81, 0, 0, 8]);
    ask(&[0x81, 0, 0, 7]);
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    let read = |frame: &Frame<'_>| {
        let mut octets = [0; 64];
        frame.octets().copy_to_slice(&mut octets);
        octets
    };
    while bench.counted("core.w.group.arp_heard") < 2 || answers.is_empty() {
        assert!(Instant::now() < end, "no answer");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().map(read)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().map(read)));
    assert_eq!(answers.len(), 1, "{answers:?}");
    let mac = bench.group.pattern.nics[0].mac.0;
    let due = [&STATION.0[..], &mac, &[0x81, 0, 0, 7, 8, 6]].concat();
    assert_eq!(answers[0][..18], due[..]);
    assert_eq!(bench.counted("core.w.group.arp_answered"), 1);
    drop(members);
}
