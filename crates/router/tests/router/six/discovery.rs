//! Neighbour discovery, duplicate addresses, router advertisements, listener reports.

use frame::mld;
use frame::nd::{self, Advert, PrefixInfo, RouterAdvert, Solicit};
use router::Advertise;
use router::neighbours::{DELAY, PROBES, REACHABLE, State};

use super::*;

/// Returns an advertisement of `target` by `mac` on NIC 1.
pub(super) fn advert(mac: Mac, target: u128, solicited: bool) -> Vec<u8> {
    let advert = Advert { target, target_mac: Some(mac), router: false, solicited, overrides: true };
    let mut payload = [0; Advert::LONGEST];
    let (len, header) = advert.write(&mut payload).unwrap();
    near6(mac, (target, ip6(1, 1)), header, &payload[..len])
}

/// Returns a solicitation for `target` on NIC 1.
fn solicit(mac: Mac, source: u128, target: u128) -> Vec<u8> {
    let solicit = Solicit { target, source_mac: (source != 0).then_some(mac) };
    let mut payload = [0; Solicit::LONGEST];
    let (len, header) = solicit.write(&mut payload).unwrap();
    near6(mac, (source, ipv6::solicited_node(target)), header, &payload[..len])
}

#[test]
fn addresses_are_tried_before_they_are_used() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, ..USUAL });
    let sent: Vec<_> = lab.world.sent(1).into_iter().filter(|frame| frame[12..14] == [0x86, 0xdd]).collect();
    assert_eq!(sent.len(), 3, "a report, and a solicitation for each address");
    let (header, report, payload) = read_icmp6(&sent[0]);
    assert_eq!(
        (report.kind, header.destination, header.hop_limit),
        (mld::REPORT_V2, ipv6::ALL_MLD_ROUTERS, 1)
    );
    let groups: Vec<_> = mld::records(&report, payload).map(Result::unwrap).collect();
    let own = [ipv6::link_local(own_mac(1)), ip6(1, 1)];
    let asked = [own[0], own[1], ip6(1, 0)].map(ipv6::solicited_node);
    assert_eq!(groups, [asked[0], asked[1], asked[2], ipv6::ALL_ROUTERS].map(|group| (4, group)));
    for (frame, own) in sent[1..].iter().zip(own) {
        let (header, _, payload) = read_icmp6(frame);
        assert_eq!((header.source, Solicit::parse(payload).unwrap().target), (0, own));
    }
    // Not answered yet.
    lab.push(1, solicit(HOST, ip6(1, 50), ip6(1, 1)));
    lab.none_sent_of(1);
    lab.wait(1000);
    let sent = lab.world.sent(1);
    let read = sent.iter().map(|frame| read_icmp6(frame));
    let told: Vec<_> = read.map(|(header, message, _)| (message.kind, header.source)).collect();
    let expected = [(nd::ADVERT, own[0]), (mld::REPORT_V2, own[0]), (nd::ADVERT, own[1])];
    assert_eq!(told, expected, "each is announced, and the groups from an address");
    lab.push(1, solicit(HOST, ip6(1, 50), ip6(1, 1)));
    assert_eq!(read_icmp6(&lab.world.sent(1)[0]).1.kind, nd::ADVERT);
}

#[test]
fn an_address_that_is_tried_receives_only_discovery() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    let ends = (ip6(0, 2), ip6(0, 1));
    let header = icmpv6::Header { kind: icmpv6::ECHO_REQUEST, code: 0, rest: 1 };
    let echo = frame6(0, ipv6::Header::new(next::ICMP, ends.0, ends.1, 0), &message6(ends, header, b"x"));
    lab.push(0, echo.clone());
    lab.push(0, udp6(0, ends.1, 18));
    lab.none_sent();
    lab.only_drop("drop_local", 2);
    lab.wait(1000);
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab.push(0, echo);
    assert_eq!(read_icmp6(&lab.one_sent(0)).1.kind, icmpv6::ECHO_REPLY);
}

#[test]
fn a_duplicate_is_not_used() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, ..USUAL });
    lab.push(1, advert(HOST, ip6(1, 1), false));
    assert_eq!(lab.world.claims6, [(1, ip6(1, 1), HOST)]);
    lab.wait(1000);
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab.push(1, solicit(HOST, ip6(1, 50), ip6(1, 1)));
    lab.none_sent();
    assert_eq!(lab.counter("nd_conflicts"), 1);
    // The address of another NIC still works, but it does not ask for neighbours of this one.
    lab.push(0, udp6(0, ip6(0, 1), 18));
    assert_eq!(read_icmp6(&lab.one_sent(0)).1.code, icmpv6::unreachable::PORT);
    lab.push(0, udp6(0, ip6(1, 50), 18));
    assert_eq!(read_icmp6(&lab.one_sent(1)).0.source, ipv6::link_local(own_mac(1)));
}

#[test]
fn an_address_that_routers_beside_it_use_is_used_while_it_is_tried() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, shares_addresses: true, ..USUAL });
    let sent: Vec<_> = lab.world.sent(1).into_iter().filter(|frame| frame[12] == 0x86).collect();
    let read = sent.iter().map(|frame| read_icmp6(frame));
    let tried = read.filter(|(_, message, _)| message.kind == nd::SOLICIT);
    assert!(tried.map(|(header, ..)| header.source).eq([0, 0]), "each as any other router does");
    [0, 2].into_iter().for_each(|nic| drop(lab.world.sent(nic)));
    let ends = (ip6(0, 2), ip6(0, 1));
    let header = icmpv6::Header { kind: icmpv6::ECHO_REQUEST, code: 0, rest: 1 };
    let ip = ipv6::Header::new(next::ICMP, ends.0, ends.1, 0);
    lab.push(0, frame6(0, ip, &message6(ends, header, b"x")));
    assert_eq!(read_icmp6(&lab.one_sent(0)).1.kind, icmpv6::ECHO_REPLY);
    lab.push(0, udp6(0, ip6(1, 50), 18));
    assert_eq!(read_icmp6(&lab.one_sent(1)).0.source, ip6(1, 1));
    // Until another station objects.
    lab.push(1, advert(HOST, ip6(1, 1), false));
    lab.push(0, udp6(0, ip6(1, 60), 18));
    assert_eq!(read_icmp6(&lab.one_sent(1)).0.source, ipv6::link_local(own_mac(1)));
}

/// Returns the addresses that a NIC has announced since the last call.
fn announced(lab: &mut Lab, nic: usize) -> Vec<u128> {
    let sent = lab.world.sent(nic);
    let sent: Vec<_> = sent.into_iter().filter(|frame| frame[12..14] == [0x86, 0xdd]).collect();
    let read = sent.iter().map(|frame| read_icmp6(frame));
    read.filter(|(_, message, _)| message.kind == nd::ADVERT).map(|(header, ..)| header.source).collect()
}

#[test]
fn an_objection_that_waits_is_heard_before_a_late_confirmation() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab.world.rx[1].push_back(advert(HOST, ip6(1, 1), false));
    lab.wait(5000);
    (0..3).for_each(|nic| assert!(announced(&mut lab, nic).is_empty()));
    assert_eq!(lab.router.next_deadline(), Some(0), "it looks at once");
    lab.router.poll(&mut lab.world);
    lab.wait(5000);
    assert_eq!(announced(&mut lab, 0), [ipv6::link_local(own_mac(0)), ip6(0, 1)]);
    assert_eq!(announced(&mut lab, 1), [ipv6::link_local(own_mac(1))]);
}

#[test]
fn a_router_that_is_always_late_confirms_after_one_pass() {
    let mut lab = Lab::wanted(table(), &Wanted { six: true, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    for _ in 0..2 {
        // Without a pass in between.
        lab.wait(1001);
        (0..3).for_each(|nic| assert!(announced(&mut lab, nic).is_empty()));
    }
    lab.router.poll(&mut lab.world);
    lab.wait(1001);
    assert_eq!(announced(&mut lab, 1), [ipv6::link_local(own_mac(1)), ip6(1, 1)]);
}

#[test]
fn an_objection_may_arrive_at_another_router_than_the_one_that_asked() {
    let neighbours = table();
    let mut keeper = Lab::wanted(neighbours, &Wanted { six: true, ..USUAL });
    let mut second = Lab::wanted(neighbours, &Wanted { six: true, first: false, ..USUAL });
    (0..3).for_each(|nic| drop(keeper.world.sent(nic)));
    second.none_sent();
    second.push(1, advert(HOST, ip6(1, 1), false));
    for lab in [&mut keeper, &mut second] {
        lab.wait(1000);
        let told = lab.world.sent(1).into_iter().filter(|frame| frame[12] == 0x86);
        assert!(told.map(|frame| read_icmp6(&frame).0.source).all(|source| source != ip6(1, 1)));
        lab.push(1, solicit(HOST, ip6(1, 50), ip6(1, 1)));
        lab.none_sent_of(1);
    }
}

#[test]
fn a_claim_of_a_confirmed_address_is_counted_and_changes_nothing() {
    let mut lab = Lab::six();
    lab.push(1, advert(HOST, ip6(1, 1), false));
    // Our own advertisement, received by another NIC in the same network.
    lab.push(1, advert(own_mac(2), ip6(1, 1), false));
    assert_eq!(lab.counter("nd_conflicts"), 1);
    lab.push(1, solicit(HOST, ip6(1, 50), ip6(1, 1)));
    lab.one_sent(1);
}

#[test]
fn a_solicitation_is_answered_and_its_sender_named() {
    let mut lab = Lab::six();
    let host = ip6(1, 50);
    for target in [ip6(1, 1), ipv6::link_local(own_mac(1))] {
        lab.push(1, solicit(HOST, host, target));
        let frame = lab.one_sent(1);
        let (header, message, payload) = read_icmp6(&frame);
        assert_eq!((header.source, header.destination), (target, host));
        let advert = Advert::parse(&message, payload).unwrap();
        let flags = (advert.router, advert.solicited, advert.overrides);
        assert_eq!((advert.target, advert.target_mac, flags), (target, Some(own_mac(1)), (true, true, true)));
    }
    assert_eq!((lab.neighbours.find(1, host), lab.neighbours.state(1, host)), (Some(HOST), State::Stale));
    // A probe for an address of ours is answered to all.
    lab.push(1, solicit(HOST, 0, ip6(1, 1)));
    assert_eq!(read_icmp6(&lab.one_sent(1)).0.destination, ipv6::ALL_NODES);
}

#[test]
fn the_address_of_all_routers_is_found_but_not_learned() {
    let mut lab = Lab::six();
    let (host, all) = (ip6(1, 50), ip6(1, 0));
    lab.push(1, solicit(HOST, host, all));
    let frame = lab.one_sent(1);
    assert_eq!(read6(&frame).0.destination, HOST);
    let (header, message, payload) = read_icmp6(&frame);
    assert_eq!((header.source, header.destination), (ip6(1, 1), host));
    let advert = Advert::parse(&message, payload).unwrap();
    let flags = (advert.router, advert.solicited, advert.overrides);
    // Another router may have answered before.
    assert_eq!((advert.target, advert.target_mac, flags), (all, Some(own_mac(1)), (true, true, false)));
    assert_eq!(lab.neighbours.find(1, host), Some(HOST));
    // Another router asks from there.
    lab.push(1, solicit(HOST, all, ip6(1, 1)));
    assert_eq!(read_icmp6(&lab.one_sent(1)).0.destination, all);
    assert_eq!(lab.neighbours.find(1, all), None);
}

#[test]
fn what_is_not_from_the_link_or_malformed_teaches_nothing() {
    let mut lab = Lab::six();
    let mut far = solicit(HOST, ip6(1, 50), ip6(1, 1));
    far[21] = 254;
    lab.push(1, far);
    let header = icmpv6::Header { kind: nd::SOLICIT, code: 0, rest: 0 };
    let ends = (ip6(1, 50), ipv6::solicited_node(ip6(1, 1)));
    // An option without length, and no target at all.
    let broken = [&ip6(1, 1).to_be_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    lab.push(1, near6(HOST, ends, header, &broken));
    lab.push(1, near6(HOST, ends, header, &[]));
    lab.only_drop("drop_local", 3);
    // For an address that is not ours.
    lab.push(1, near6(HOST, ends, header, &ip6(1, 99).to_be_bytes()));
    lab.none_sent();
    assert_eq!(lab.neighbours.find(1, ip6(1, 50)), None);
}

#[test]
fn a_message_behind_a_fragment_header_teaches_nothing() {
    let mut lab = Lab::six();
    let (host, target) = (ip6(1, 50), ip6(1, 1));
    let ends = (host, ipv6::solicited_node(target));
    let mut payload = [0; Solicit::LONGEST];
    let (len, header) = Solicit { target, source_mac: Some(HOST) }.write(&mut payload).unwrap();
    // It is complete, and would be read without that header.
    let fragment = ipv6::Fragment { offset: 0, more: false, identification: 9 };
    let message = [&fragment.octets(next::ICMP)[..], &message6(ends, header, &payload[..len])].concat();
    let ip = ipv6::Header { hop_limit: 255, ..ipv6::Header::new(next::FRAGMENT, ends.0, ends.1, 0) };
    lab.push(1, frame6_from((ipv6::group_mac(ends.1), HOST), ip, &message));
    lab.none_sent();
    lab.only_drop("drop_local", 1);
    assert_eq!(lab.neighbours.find(1, host), None);
}

#[test]
fn an_advertisement_that_was_not_asked_for_changes_only_what_is_known() {
    let mut lab = Lab::six();
    let (host, new) = (ip6(1, 50), Mac([2, 0, 0, 0, 0x60, 2]));
    lab.push(1, advert(HOST, host, true));
    assert_eq!(lab.neighbours.find(1, host), None);
    lab.push(0, udp6(0, host, 18));
    lab.world.sent(1);
    lab.push(1, advert(HOST, host, true));
    assert_eq!(lab.neighbours.state(1, host), State::Reachable);
    lab.push(1, advert(new, host, false));
    assert_eq!((lab.neighbours.find(1, host), lab.neighbours.state(1, host)), (Some(new), State::Stale));
}

#[test]
fn an_answer_may_arrive_at_another_router_than_the_one_that_asked() {
    let (neighbours, host) = (table(), ip6(1, 50));
    let mut labs = [true, false].map(|first| {
        let mut lab = Lab::wanted(neighbours, &Wanted { six: true, first, ..USUAL });
        lab.wait(1000);
        (0..3).for_each(|nic| drop(lab.world.sent(nic)));
        lab
    });
    let [first, second] = &mut labs;
    first.push(1, advert(HOST, host, true));
    assert_eq!(neighbours.find(1, host), None, "neither has asked");
    second.push(0, udp6(0, host, 18));
    assert_eq!(read_icmp6(&second.one_sent(1)).1.kind, nd::SOLICIT);
    first.push(1, advert(HOST, host, true));
    assert_eq!(neighbours.state(1, host), State::Reachable);
    second.wait(1);
    second.router.poll(&mut second.world);
    assert_eq!(read6(&second.one_sent(1)).0.destination, HOST, "what waits there goes on");
    first.push(1, advert(HOST, ip6(1, 51), true));
    assert_eq!(neighbours.find(1, ip6(1, 51)), None, "neither has asked for this one");
}

#[test]
fn a_stale_neighbour_is_used_then_probed_then_forgotten() {
    let mut lab = Lab::six();
    let host = ip6(1, 50);
    lab.push(1, solicit(HOST, host, ip6(1, 1)));
    lab.world.sent(1);
    lab.push(0, udp6(0, host, 18));
    assert_eq!(read6(&lab.one_sent(1)).0.destination, HOST);
    assert_eq!(lab.neighbours.state(1, host), State::Delay);
    lab.wait(DELAY - 1);
    lab.none_sent();
    for probe in 0..PROBES {
        lab.wait(if probe == 0 { 1 } else { 1000 });
        let frame = lab.one_sent(1);
        assert_eq!((read6(&frame).0.destination, read_icmp6(&frame).0.destination), (HOST, host));
    }
    lab.wait(1000);
    assert_eq!(lab.neighbours.find(1, host), None);
}

#[test]
fn a_neighbour_in_doubt_is_probed_although_its_header_is_prepared() {
    let mut lab = Lab::six();
    let (host, other) = (ip6(1, 50), Mac([2, 0, 0, 0, 0x60, 3]));
    lab.push(0, udp6(0, host, 18));
    lab.push(1, advert(HOST, host, true));
    lab.push(0, udp6(0, host, 18));
    lab.world.sent(1);
    // Another address, which may not replace the known one.
    let claim =
        Advert { target: host, target_mac: Some(other), router: false, solicited: false, overrides: false };
    let mut payload = [0; Advert::LONGEST];
    let (len, header) = claim.write(&mut payload).unwrap();
    lab.push(1, near6(other, (host, ip6(1, 1)), header, &payload[..len]));
    assert_eq!((lab.neighbours.find(1, host), lab.neighbours.state(1, host)), (Some(HOST), State::Stale));
    lab.push(0, udp6(0, host, 18));
    assert_eq!(read6(&lab.one_sent(1)).0.destination, HOST);
    assert_eq!(lab.neighbours.state(1, host), State::Delay);
}

#[test]
fn a_reachable_neighbour_that_answers_its_probe_stays() {
    let mut lab = Lab::six();
    let host = ip6(1, 50);
    lab.push(0, udp6(0, host, 18));
    lab.push(1, advert(HOST, host, true));
    lab.world.sent(1);
    lab.wait(REACHABLE);
    assert_eq!(read_icmp6(&lab.one_sent(1)).1.kind, nd::SOLICIT);
    lab.push(1, advert(HOST, host, true));
    lab.wait(5000);
    lab.none_sent();
    assert_eq!(lab.neighbours.state(1, host), State::Reachable);
}

/// Returns a query on NIC 1 behind these hop-by-hop options, of version 1 if it has 16 octets.
fn query(options: [u8; 8], octets: usize) -> Vec<u8> {
    let header = icmpv6::Header { kind: mld::QUERY, code: 0, rest: 1000 << 16 };
    let ends = (ipv6::link_local(HOST), ipv6::ALL_NODES);
    let payload = [&options[..], &message6(ends, header, &vec![0; octets])].concat();
    let ip = ipv6::Header { hop_limit: 1, ..ipv6::Header::new(next::HOP_BY_HOP, ends.0, ends.1, 0) };
    frame6_from((ipv6::group_mac(ends.1), HOST), ip, &payload)
}

#[test]
fn a_query_is_answered_within_its_time() {
    let mut lab = Lab::six();
    // Padding in place of the router alert.
    lab.push(1, query([next::ICMP, 0, 1, 4, 0, 0, 0, 0], 20));
    lab.only_drop("drop_local", 1);
    assert_eq!(lab.router.next_deadline(), None);
    lab.push(1, query(mld::HOP_BY_HOP, 20));
    assert!(lab.router.next_deadline().is_some_and(|due| due <= 1000));
    lab.wait(1000);
    let frame = lab.one_sent(1);
    let (header, report, _) = read_icmp6(&frame);
    assert_eq!((report.kind, report.rest, header.source), (mld::REPORT_V2, 4, ipv6::link_local(own_mac(1))));
}

#[test]
fn reports_have_version_1_while_a_querier_has_it() {
    let mut lab = Lab::six();
    // A query of version 1, one of version 2 soon after it, and one when nothing of version 1 was heard for long.
    for (octets, pause, is_v1) in [(16, 100_000, true), (20, 159_000, true), (20, 0, false)] {
        lab.push(1, query(mld::HOP_BY_HOP, octets));
        lab.wait(1000);
        let sent = lab.world.sent(1);
        assert_eq!(sent.len(), if is_v1 { 4 } else { 1 });
        for frame in &sent {
            let (header, report, payload) = read_icmp6(frame);
            assert_eq!((header.next_header, header.hop_limit), (next::HOP_BY_HOP, 1));
            assert_eq!(report.kind, if is_v1 { mld::REPORT_V1 } else { mld::REPORT_V2 });
            assert_eq!(is_v1, payload == header.destination.to_be_bytes());
        }
        lab.wait(pause);
    }
}

/// What NIC 0 advertises.
fn wanted() -> (RouterAdvert, [PrefixInfo; 1]) {
    let advert = RouterAdvert { hop_limit: 64, lifetime: 1800, ..RouterAdvert::default() };
    let prefix = PrefixInfo {
        prefix: ip6(0, 0),
        len: 64,
        on_link: true,
        autonomous: true,
        valid: 86_400,
        preferred: 14_400,
    };
    (advert, [prefix])
}

#[test]
fn a_router_advertises_itself_as_the_file_says() {
    let (advert, prefixes) = wanted();
    let dns = [ip6(0, 53)];
    let advertise =
        Advertise { advert, interval: (200, 600), tells_mtu: true, prefixes: &prefixes, dns: &dns };
    let mut lab = Lab::wanted(table(), &Wanted { six: true, advertise: Some(&advertise), ..USUAL });
    lab.wait(1000);
    let adverts = |lab: &mut Lab| -> Vec<Vec<u8>> {
        let kind = |frame: &Vec<u8>| frame[12] == 0x86 && read_icmp6(frame).1.kind == nd::ROUTER_ADVERT;
        lab.world.sent(0).into_iter().filter(kind).collect()
    };
    let sent = adverts(&mut lab);
    assert_eq!(sent.len(), 1);
    let (header, message, payload) = read_icmp6(&sent[0]);
    assert_eq!((header.source, header.destination), (ipv6::link_local(own_mac(0)), ipv6::ALL_NODES));
    let (read, options) = RouterAdvert::parse(&message, payload).unwrap();
    assert_eq!(read, advert);
    let kinds: Vec<u8> = options.map(|option| option.unwrap().kind).collect();
    assert_eq!(kinds, [nd::option::SOURCE_MAC, nd::option::MTU, nd::option::PREFIX, nd::option::DNS]);
    // The first ones follow each other quickly, then they come in the interval.
    let mut times = vec![];
    while times.len() < 5 {
        let due = lab.router.next_deadline().expect("it goes on");
        lab.wait(due);
        times.extend(adverts(&mut lab).iter().map(|_| lab.world.now));
    }
    assert!(times[0] - lab.world.now.min(times[0]) <= 16_000 && times[1] - times[0] <= 16_000);
    assert!((200_000..=600_000).contains(&(times[4] - times[3])), "{times:?}");
}

#[test]
fn a_router_solicitation_is_answered() {
    let (advert, prefixes) = wanted();
    let advertise =
        Advertise { advert, interval: (200, 600), tells_mtu: false, prefixes: &prefixes, dns: &[] };
    let mut lab = Lab::wanted(table(), &Wanted { six: true, advertise: Some(&advertise), ..USUAL });
    (0..2).for_each(|_| lab.wait(1000));
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    let host = ipv6::link_local(HOST);
    let header = icmpv6::Header { kind: nd::ROUTER_SOLICIT, code: 0, rest: 0 };
    let option = [&[1, 1][..], &HOST.0].concat();
    // A node that asks twice gets one answer, another one that asks meanwhile the next one to all.
    for from in [HOST, HOST, peer_mac(0)] {
        let option = [&[1, 1][..], &from.0].concat();
        lab.push(0, near6(from, (ipv6::link_local(from), ipv6::ALL_ROUTERS), header, &option));
    }
    lab.none_sent();
    lab.wait(500);
    let frame = lab.one_sent(0);
    assert_eq!(read6(&frame).0.destination, HOST);
    assert_eq!(read_icmp6(&frame).0.destination, host);
    lab.wait(3000);
    assert_eq!(read_icmp6(&lab.one_sent(0)).0.destination, ipv6::ALL_NODES);
    // Without an address the answer goes to all, three seconds after the last one.
    lab.push(0, near6(HOST, (0, ipv6::ALL_ROUTERS), header, &[]));
    lab.none_sent();
    lab.wait(3500);
    assert_eq!(read_icmp6(&lab.one_sent(0)).0.destination, ipv6::ALL_NODES);
    // NIC 1 advertises nothing.
    lab.push(1, near6(HOST, (host, ipv6::ALL_ROUTERS), header, &option));
    lab.none_sent();
}

#[test]
fn a_router_solicitation_before_the_address_is_confirmed_is_answered_then() {
    let (advert, prefixes) = wanted();
    let advertise =
        Advertise { advert, interval: (200, 600), tells_mtu: false, prefixes: &prefixes, dns: &[] };
    let mut lab = Lab::wanted(table(), &Wanted { six: true, advertise: Some(&advertise), ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    let header = icmpv6::Header { kind: nd::ROUTER_SOLICIT, code: 0, rest: 0 };
    lab.push(0, near6(HOST, (0, ipv6::ALL_ROUTERS), header, &[]));
    lab.wait(999);
    lab.none_sent();
    lab.wait(1);
    let sent = lab.world.sent(0);
    let read = sent.iter().map(|frame| read_icmp6(frame).1.kind);
    assert_eq!(read.filter(|kind| *kind == nd::ROUTER_ADVERT).count(), 1);
}
