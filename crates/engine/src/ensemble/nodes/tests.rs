use frame::nd::{self, AdvertOptions, RouterAdvert};
use frame::{ethernet, icmpv6};
use proptest::prelude::*;

use super::*;
use crate::ensemble::known::{FRESH, GONE, MOST};

const GROUP: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NEAR: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const NET: u128 = 0x2001_0db8 << 96;
const OWN: u128 = NET | 1;
const HOST: u128 = NET | 7;
const FAR: u128 = 0x2001_0db9 << 96 | 7;

fn nodes() -> Nodes {
    Nodes::new(GROUP, &[(OWN, 64)])
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A station asks for an address; from 0: it is about to use that itself.
fn solicit((source, by): (u128, Mac), target: u128) -> Message {
    let source_mac = (source != 0).then_some(by);
    Message { by, source, said: Said::Solicit(Solicit { target, source_mac }) }
}

fn advert((target, by): (u128, Mac), overrides: bool) -> Message {
    let advert = Advert { target, target_mac: Some(by), router: false, solicited: true, overrides };
    Message { by, source: target, said: Said::Advert(advert) }
}

/// A member asks for this address.
fn ask(nodes: &mut Nodes, member: u16, target: u128, now: Duration) -> Heard {
    nodes.hear_member((member, &solicit((OWN, GROUP), target)), true, now)
}

/// A member tries this address.
fn try_own(nodes: &mut Nodes, member: u16, target: u128, now: Duration) -> Heard {
    nodes.hear_member((member, &solicit((0, GROUP), target)), true, now)
}

/// What a frame says: from which address, to which station and address.
#[track_caller]
fn read(spoken: &Spoken) -> (Advert, u128, (Mac, u128)) {
    let message = Message::read(spoken).expect("a valid message");
    let Said::Advert(advert) = message.said else { panic!("{message:?}") };
    let (ethernet, rest) = ethernet::Header::parse(spoken).expect("a frame");
    let packet = ipv6::Packet::parse(rest).expect("a packet");
    (advert, message.source, (ethernet.destination, packet.header().destination))
}

#[test]
fn the_network_is_answered_once_and_nobody_else_hears_of_it() {
    let mut nodes = nodes();
    for target in [OWN, ipv6::link_local(GROUP)] {
        let heard = nodes.hear_network(&solicit((HOST, NEAR), target), ms(0));
        assert_eq!((heard.fate, heard.told), (Fate::Stays, None));
        let (advert, source, to) = read(&heard.answer.expect("it is answered"));
        assert_eq!((source, to), (target, (NEAR, HOST)));
        let due = Advert { target, target_mac: Some(GROUP), router: true, solicited: true, overrides: true };
        assert_eq!(advert, due);
    }
    // It is known from now on.
    assert_eq!(ask(&mut nodes, 2, HOST, ms(1)).told.map(|(to, _)| to), Some(0b100));
    // What is said to others is none of our business, nor what we say ourselves.
    for message in [solicit((HOST, NEAR), HOST + 1), solicit((OWN, GROUP), HOST), solicit((0, GROUP), OWN)] {
        assert_eq!(nodes.hear_network(&message, ms(0)), Heard::default());
    }
}

#[test]
fn the_address_of_all_routers_is_answered_without_the_right_to_replace() {
    let mut nodes = nodes();
    let heard = nodes.hear_network(&solicit((HOST, NEAR), NET), ms(0));
    let (advert, source, to) = read(&heard.answer.expect("it is answered"));
    assert_eq!((advert.target, advert.target_mac, advert.overrides), (NET, Some(GROUP), false));
    assert_eq!((source, to), (OWN, (NEAR, HOST)));
    // A group without IPv6 answers nothing.
    let mut none = Nodes::new(GROUP, &[]);
    assert_eq!(none.hear_network(&solicit((HOST, NEAR), NET), ms(0)), Heard::default());
}

#[test]
fn what_nobody_knows_is_asked_once_and_told_to_all_who_asked() {
    let mut nodes = nodes();
    assert_eq!(ask(&mut nodes, 0, HOST, ms(0)), Heard::of(Fate::GoesOn));
    assert_eq!(ask(&mut nodes, 3, HOST, ms(1)), Heard::default());
    let heard = nodes.hear_network(&advert((HOST, NEAR), false), ms(2));
    let (to, spoken) = heard.told.expect("two wait");
    let (advert, source, receiver) = read(&spoken);
    assert_eq!((to, heard.fate, source, receiver), (0b1001, Fate::Stays, HOST, (GROUP, OWN)));
    assert_eq!((advert.target, advert.target_mac, advert.solicited), (HOST, Some(NEAR), true));
    // From now on the network is not asked, until what is known is old.
    let [soon, old, gone] = [ms(3), ms(2) + FRESH, ms(2) + GONE].map(|now| ask(&mut nodes, 1, HOST, now));
    assert_eq!((soon.fate, soon.told.map(|(to, _)| to)), (Fate::Stays, Some(0b10)));
    assert_eq!((old.fate, old.told.map(|(to, _)| to)), (Fate::GoesOn, Some(0b10)));
    assert_eq!(gone, Heard::of(Fate::GoesOn));
}

#[test]
fn a_link_local_gateway_is_asked_and_told_by_the_address_that_a_member_asks_from() {
    let mut nodes = nodes();
    let (gateway, own) = (ipv6::link_local(NEAR), ipv6::link_local(GROUP));
    let ask = solicit((own, GROUP), gateway);
    assert_eq!(nodes.hear_member((1, &ask), true, ms(0)).fate, Fate::GoesOn);
    let heard = nodes.hear_network(&advert((gateway, NEAR), true), ms(1));
    assert_eq!(read(&heard.told.expect("one waits").1).2, (GROUP, own));
}

#[test]
fn another_address_of_a_neighbour_is_told_to_all_if_it_may_replace_the_known_one() {
    let mut nodes = nodes();
    nodes.hear_network(&solicit((HOST, NEAR), OWN), ms(0));
    assert_eq!(nodes.hear_network(&advert((HOST, OTHER), false), ms(1)), Heard::default());
    let (to, spoken) = nodes.hear_network(&advert((HOST, OTHER), true), ms(2)).told.expect("it has changed");
    assert_eq!((to, read(&spoken).0.target_mac), (u64::MAX, Some(OTHER)));
}

#[test]
fn a_neighbour_that_is_gone_is_replaced_by_whatever_answers_for_its_address() {
    let mut nodes = nodes();
    nodes.hear_network(&solicit((HOST, NEAR), OWN), ms(0));
    let answer = advert((HOST, OTHER), false);
    assert_eq!(nodes.hear_network(&answer, GONE), Heard::default(), "no member has asked");
    assert_eq!(ask(&mut nodes, 1, HOST, GONE), Heard::of(Fate::GoesOn));
    let (to, spoken) = nodes.hear_network(&answer, GONE + ms(1)).told.expect("it has changed");
    assert_eq!((to, read(&spoken).0.target_mac), (u64::MAX, Some(OTHER)));
}

#[test]
fn nobody_is_known_who_was_not_asked_for_or_is_no_node() {
    let mut nodes = nodes();
    for (ip, mac) in [(FAR, NEAR), (HOST, NEAR)] {
        assert_eq!(nodes.hear_network(&advert((ip, mac), true), ms(0)), Heard::default());
    }
    for (ip, mac) in [(HOST, Mac::BROADCAST), (NET, NEAR), (FAR, NEAR), (ipv6::ALL_NODES, NEAR)] {
        nodes.hear_network(&solicit((ip, mac), OWN), ms(0));
    }
    assert_eq!(nodes.known.len(), 0);
}

#[test]
fn an_address_is_tried_once_for_all_members() {
    let mut nodes = nodes();
    assert_eq!(try_own(&mut nodes, 0, OWN, ms(0)), Heard::of(Fate::GoesOn));
    assert_eq!(try_own(&mut nodes, 1, OWN, ms(300)), Heard::default());
    // It is answered meanwhile, without the right to replace what others have said.
    let heard = nodes.hear_network(&solicit((HOST, NEAR), OWN), ms(999));
    assert!(!read(&heard.answer.expect("it is answered")).0.overrides);
    // No station has objected. A member that comes later tries it in vain, and hears no claim meanwhile: the others use it.
    assert_eq!(try_own(&mut nodes, 2, OWN, ms(5000)), Heard::default());
    assert_eq!(nodes.hear_network(&advert((OWN, NEAR), true), ms(5500)), Heard::default());
    let heard = nodes.hear_network(&solicit((0, NEAR), OWN), ms(6999));
    let (advert, _, to) = read(&heard.answer.expect("it is ours"));
    assert_eq!((advert.overrides, advert.solicited, heard.fate), (true, false, Fate::Stays));
    assert_eq!(to, (ipv6::group_mac(ipv6::ALL_NODES), ipv6::ALL_NODES));
    // Afterwards a member tells of it; what it answers stays here.
    for claim in [advert_of(OWN), solicit((0, NEAR), OWN), solicit((OWN, NEAR), OWN)] {
        let heard = nodes.hear_network(&claim, ms(7000));
        assert_eq!((heard.fate, heard.answer.is_some()), (Fate::GoesOn, claim.source == 0), "{claim:?}");
    }
}

#[test]
fn an_address_that_another_station_has_is_told_once_each_time_that_it_is_tried() {
    let mut nodes = nodes();
    assert_eq!(nodes.addresses(), [ipv6::link_local(GROUP), OWN]);
    // But not again where it is tried without end.
    for (start, told) in [(0, 1), (5000, 1), (9999, 0), (14_998, 0), (19_998, 1)] {
        assert!(nodes.take_lost().is_empty());
        assert_eq!(nodes.tried_by_member(OWN, ms(start)), Heard::of(Fate::GoesOn));
        assert_eq!(nodes.hear_network(&advert_of(OWN), ms(start + 1)).fate, Fate::ToAll);
        assert_eq!(nodes.take_lost(), [OWN][..told]);
    }
    assert!(nodes.take_lost().is_empty());
}

#[test]
fn an_address_whose_solicitation_was_lost_is_tried_again() {
    let mut nodes = nodes();
    assert_eq!(nodes.tried_by_member(OWN, ms(0)), Heard::of(Fate::GoesOn));
    assert_eq!(nodes.tried_by_member(OWN, ms(1)), Heard::default());
    nodes.was_not_tried(OWN);
    assert_eq!(nodes.tried_by_member(OWN, ms(2)), Heard::of(Fate::GoesOn));
    assert_eq!(nodes.hear_network(&advert_of(OWN), ms(3)).fate, Fate::ToAll);
    // What is lost stays so until it is tried.
    nodes.was_not_tried(OWN);
    assert_eq!(nodes.take_lost(), [OWN]);
}

#[test]
fn without_an_address_of_its_own_the_group_asks_nobody() {
    let mut nodes = nodes();
    assert_eq!(ask(&mut nodes, 0, HOST, ms(0)).fate, Fate::GoesOn);
    for ip in nodes.addresses() {
        assert_eq!(nodes.tried_by_member(ip, ms(1)), Heard::of(Fate::GoesOn));
        assert_eq!(nodes.hear_network(&advert_of(ip), ms(2)).fate, Fate::ToAll);
    }
    assert!(!nodes.takes_part());
    assert_eq!(ask(&mut nodes, 0, HOST, ms(60_000)), Heard::default());
}

/// A station says that it has this address.
fn advert_of(target: u128) -> Message {
    advert((target, NEAR), true)
}

#[test]
fn an_objection_within_the_trial_goes_to_all_members_until_the_other_station_is_gone() {
    for objection in [advert_of(OWN), solicit((0, NEAR), OWN)] {
        let mut nodes = nodes();
        for begin in [ms(0), ms(60_000)] {
            assert_eq!(try_own(&mut nodes, 0, OWN, begin), Heard::of(Fate::GoesOn));
            assert_eq!(nodes.hear_network(&objection, begin + ms(999)), Heard::of(Fate::ToAll));
            // It is not ours any more, and the other address is.
            let answer = |nodes: &mut Nodes, target: u128| {
                nodes.hear_network(&solicit((HOST, OTHER), target), begin + ms(2000)).answer
            };
            assert_eq!(answer(&mut nodes, OWN), None);
            assert!(answer(&mut nodes, ipv6::link_local(GROUP)).is_some());
            assert_eq!(nodes.hear_network(&objection, begin + ms(3000)), Heard::default());
        }
        // No station objects any more to a member that is started again.
        assert_eq!(try_own(&mut nodes, 5, OWN, ms(120_000)), Heard::of(Fate::GoesOn));
        assert!(nodes.hear_network(&solicit((HOST, OTHER), OWN), ms(122_000)).answer.is_some());
    }
}

#[test]
fn a_group_whose_addresses_other_stations_have_answers_nothing() {
    let mut nodes = nodes();
    let own = [OWN, ipv6::link_local(GROUP)];
    for target in own {
        assert_eq!(try_own(&mut nodes, 0, target, ms(0)), Heard::of(Fate::GoesOn));
        assert_eq!(nodes.hear_network(&advert_of(target), ms(1)), Heard::of(Fate::ToAll));
    }
    for target in [OWN, own[1], NET] {
        assert_eq!(nodes.hear_network(&solicit((HOST, OTHER), target), ms(2)), Heard::default());
    }
}

#[test]
fn a_claim_of_an_address_that_members_have_used_for_long_goes_to_a_member() {
    let mut nodes = nodes();
    assert_eq!(nodes.hear_network(&advert_of(OWN), ms(0)), Heard::of(Fate::GoesOn));
}

#[test]
fn one_member_speaks_for_all_as_a_router() {
    let mut nodes = nodes();
    let of = |said| Message { by: NEAR, source: ipv6::link_local(NEAR), said };
    assert_eq!(nodes.hear_network(&of(Said::RouterSolicit), ms(0)).fate, Fate::ToLead);
    assert_eq!(nodes.hear_network(&of(Said::RouterAdvert), ms(0)).fate, Fate::GoesOn);
    assert_eq!(nodes.hear_member((0, &of(Said::RouterAdvert)), true, ms(0)).fate, Fate::ToLead);
    assert_eq!(nodes.hear_member((0, &advert_of(OWN)), true, ms(0)).fate, Fate::Stays);
}

#[test]
fn of_many_router_solicitations_a_member_is_told_of_some() {
    let mut nodes = nodes();
    let ask = Message { by: NEAR, source: ipv6::link_local(NEAR), said: Said::RouterSolicit };
    let mut told = |now: Duration| {
        let fates = [(); 100].map(|()| nodes.hear_network(&ask, now).fate);
        assert!(fates.iter().all(|fate| [Fate::ToLead, Fate::Refused].contains(fate)), "{fates:?}");
        fates.iter().filter(|fate| **fate == Fate::ToLead).count()
    };
    assert_eq!([told(ms(0)), told(ms(0)), told(ms(100)), told(ms(10_000))], [16, 0, 2, 16]);
}

#[test]
fn nothing_grows_without_end() {
    let mut nodes = nodes();
    for n in 0..2 * MOST as u128 {
        assert_eq!(ask(&mut nodes, 0, FAR + (n << 64 | n), ms(1)).fate, Fate::GoesOn);
        assert!(nodes.known.len() <= MOST);
    }
}

#[test]
fn a_router_advertisement_becomes_that_of_another_station() {
    let advert = RouterAdvert { lifetime: 1800, ..RouterAdvert::default() };
    let options = AdvertOptions { mac: NEAR, mtu: None, prefixes: &[], dns: (&[], 0) };
    let ends = (ipv6::link_local(GROUP), ipv6::ALL_NODES);
    let write = |payload: &mut [u8]| advert.write(&options, payload);
    let mut octets = spoken((NEAR, ipv6::group_mac(ipv6::ALL_NODES)), ends, write);
    assert_eq!(advertise_as(&mut octets, GROUP), Some(()));
    let message = Message::read(&octets).expect("its checksum is right");
    assert_eq!((message.by, message.source), (GROUP, ends.0));
    let (header, payload) = icmpv6::Header::parse_quoted(&octets[54..]).expect("a message");
    let (read, mut rest) = RouterAdvert::parse(&header, &payload[..16]).expect("an advertisement");
    let option = rest.next().expect("an option").expect("a valid one");
    assert_eq!((read, option.mac(nd::option::SOURCE_MAC)), (advert, Some(GROUP)));
    // An option without a length.
    octets[71] = 0;
    assert_eq!(advertise_as(&mut octets, GROUP), None);
    assert_eq!(advertise_as(&mut octets[..60], GROUP), None);
}

#[test]
fn what_is_not_from_the_link_or_not_valid_is_no_message() {
    let solicit = Solicit { target: OWN, source_mac: Some(NEAR) };
    let good = spoken((NEAR, GROUP), (HOST, OWN), |payload| solicit.write(payload));
    let is_read = |at: usize, octet: u8| {
        let mut octets = good;
        octets[at] = octet;
        Message::read(&octets).is_some()
    };
    assert!(is_read(0, 2));
    // Ethertype, next header, hop limit, code, checksum.
    for (at, octet) in [(12, 8), (20, 17), (21, 64), (55, 1), (56, !good[56])] {
        assert!(!is_read(at, octet), "octet {at}");
    }
    assert!(Message::read(&good[..good.len() - 1]).is_none());
    // With an Ethernet address although it has none itself yet; for a group.
    let bad = spoken((NEAR, GROUP), (0, ipv6::solicited_node(OWN)), |payload| solicit.write(payload));
    assert!(Message::read(&bad).is_none());
    for source in [ipv6::ALL_NODES, ipv6::solicited_node(OWN), 1, 0xffff << 32 | 7] {
        let bad = spoken((NEAR, GROUP), (source, OWN), |payload| solicit.write(payload));
        assert!(Message::read(&bad).is_none(), "{source:x}");
    }
    let group = Solicit { target: ipv6::ALL_NODES, ..solicit };
    assert!(Message::read(&spoken((NEAR, GROUP), (HOST, OWN), |payload| group.write(payload))).is_none());
    let echo = |payload: &mut [u8]| {
        payload[..24].fill(0);
        Ok((24, icmpv6::Header { kind: icmpv6::ECHO_REQUEST, code: 0, rest: 0 }))
    };
    assert!(Message::read(&spoken((NEAR, GROUP), (HOST, OWN), echo)).is_none());
}

#[test]
fn stored_inputs_of_the_fuzz_target_hold() {
    corpus::replay("discovery", fuzzed::run);
}

proptest! {
    /// Whatever is asked for, and answers, is known to all members.
    #[test]
    fn what_has_answered_is_known(ips in prop::collection::vec(any::<u128>(), 1..200), copies in 1..20_u128) {
        let mut nodes = nodes();
        for ip in &ips {
            for copy in 0..copies {
                ask(&mut nodes, 0, ip.wrapping_add(copy << 20), ms(1));
            }
            nodes.hear_network(&advert((*ip, NEAR), true), ms(2));
            let is_node = !ipv6::is_multicast(*ip) && !ipv6::is_martian(*ip);
            let heard = ask(&mut nodes, 5, *ip, ms(3));
            prop_assert!(!is_node || heard.told.is_some_and(|(to, _)| to == bit(5)), "{ip}: {heard:?}");
        }
    }

    #[test]
    fn any_octets_are_read(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::read(&octets);
    }
}
