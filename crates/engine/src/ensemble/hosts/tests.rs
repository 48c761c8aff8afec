use proptest::prelude::*;

use super::*;
use crate::ensemble::known::{FRESH, GONE, MOST};

const GROUP: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NEAR: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OWN: u32 = u32::from_be_bytes([192, 0, 2, 1]);
const HOST: u32 = u32::from_be_bytes([192, 0, 2, 7]);
const FAR: u32 = u32::from_be_bytes([203, 0, 113, 7]);

fn hosts() -> Hosts {
    Hosts::new(GROUP, vec![Own { ip: OWN, mask: 0xffff_ff00 }])
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn request(from: (u32, Mac), ip: u32) -> Packet {
    Packet {
        operation: Operation::Request,
        sender_mac: from.1,
        sender_ip: from.0,
        target_mac: Mac::default(),
        target_ip: ip,
    }
}

fn reply(from: (u32, Mac)) -> Packet {
    Packet { operation: Operation::Reply, ..request(from, OWN) }
}

/// A member asks for this address.
fn ask(hosts: &mut Hosts, member: u16, ip: u32, now: Duration) -> Heard {
    hosts.hear_member(member, &request((OWN, GROUP), ip), now)
}

#[track_caller]
fn packet(spoken: &Spoken) -> Packet {
    let (ethernet, rest) = ethernet::Header::parse(spoken).expect("a frame");
    let packet = Packet::parse(rest).expect("an ARP packet");
    assert_eq!((ethernet.ethertype, ethernet.source), (ethernet::ARP, packet.sender_mac));
    packet
}

#[test]
fn the_network_is_answered_once_and_nobody_else_hears_of_it() {
    let mut hosts = hosts();
    let heard = hosts.hear_network(&request((HOST, NEAR), OWN), ms(0));
    assert_eq!((heard.goes_on, heard.told), (false, None));
    let answer = packet(&heard.answer.expect("it is answered"));
    assert_eq!((answer.operation, answer.sender_mac, answer.sender_ip), (Operation::Reply, GROUP, OWN));
    assert_eq!((answer.target_mac, answer.target_ip, hosts.stations().len()), (NEAR, HOST, 1));
    // What is said to others is none of our business, nor what we say ourselves.
    assert_eq!(hosts.hear_network(&request((HOST + 1, OTHER), HOST), ms(0)), Heard::default());
    assert_eq!(hosts.hear_network(&request((OWN, GROUP), HOST), ms(0)), Heard::default());
    assert_eq!(hosts.stations().len(), 1);
}

#[test]
fn what_nobody_knows_is_asked_once_and_told_to_all_who_asked() {
    let mut hosts = hosts();
    assert!(ask(&mut hosts, 0, HOST, ms(0)).goes_on);
    assert_eq!(ask(&mut hosts, 3, HOST, ms(1)), Heard::default());
    let (to, spoken) = hosts.hear_network(&reply((HOST, NEAR)), ms(2)).told.expect("two wait");
    let told = packet(&spoken);
    assert_eq!((to, told.sender_mac, told.sender_ip, told.target_ip), (0b1001, NEAR, HOST, OWN));
    // From now on nobody is asked.
    let heard = ask(&mut hosts, 1, HOST, ms(3));
    assert_eq!((heard.goes_on, heard.told.expect("it is known").0), (false, 0b10));
}

#[test]
fn an_answer_that_does_not_come_is_asked_for_again() {
    let mut hosts = hosts();
    let asked = [0, 50, 99, 100, 150, 250].map(|at| ask(&mut hosts, 0, HOST, ms(at)).goes_on);
    assert_eq!(asked, [true, false, false, true, false, true]);
}

#[test]
fn what_is_old_is_asked_for_anew_and_what_is_very_old_is_not_known() {
    let mut hosts = hosts();
    hosts.hear_network(&request((HOST, NEAR), OWN), ms(0));
    let old = ask(&mut hosts, 0, HOST, FRESH);
    assert!(old.goes_on && old.told.is_some());
    let gone = ask(&mut hosts, 0, HOST, GONE);
    assert!(gone.goes_on && gone.told.is_none());
}

#[test]
fn another_address_of_a_neighbour_is_told_to_all() {
    let mut hosts = hosts();
    hosts.hear_network(&request((HOST, NEAR), OWN), ms(0));
    let moved = Packet { target_ip: HOST, ..request((HOST, OTHER), HOST) };
    let (to, spoken) = hosts.hear_network(&moved, ms(1)).told.expect("it has changed");
    assert_eq!((to, packet(&spoken).sender_mac), (u64::MAX, OTHER));
}

#[test]
fn of_a_neighbour_that_changes_its_address_all_the_time_members_are_told_now_and_then() {
    let mut hosts = hosts();
    hosts.hear_network(&request((HOST, NEAR), OWN), ms(0));
    let mut told = Vec::new();
    for at in 1..=300 {
        let mac = if at % 2 == 1 { OTHER } else { NEAR };
        told.extend(hosts.hear_network(&reply((HOST, mac)), ms(at)).told.map(|(to, _)| (at, to)));
    }
    assert_eq!(told, [(1, u64::MAX), (101, u64::MAX), (201, u64::MAX)]);
    let (to, spoken) = hosts.hear_network(&reply((HOST, NEAR)), ms(301)).told.expect("it has changed since");
    assert_eq!((to, packet(&spoken).sender_mac), (u64::MAX, NEAR));
    assert_eq!(hosts.hear_network(&reply((HOST, NEAR)), ms(500)).told, None);
}

#[test]
fn a_claim_of_our_address_goes_to_a_member() {
    let heard = hosts().hear_network(&reply((OWN, NEAR)), ms(0));
    assert_eq!(heard, Heard { goes_on: true, ..Heard::default() });
}

#[test]
fn a_gateway_outside_is_known_when_it_was_asked_for() {
    let mut hosts = hosts();
    assert_eq!(hosts.hear_network(&reply((FAR, NEAR)), ms(0)), Heard::default());
    assert!(ask(&mut hosts, 2, FAR, ms(1)).goes_on);
    assert_eq!(hosts.hear_network(&reply((FAR, NEAR)), ms(2)).told.expect("it was").0, 0b100);
}

#[test]
fn no_station_is_a_group_or_a_network() {
    let mut hosts = hosts();
    for (ip, mac) in [(HOST, Mac::BROADCAST), (OWN & !0xff, NEAR), (OWN | 0xff, NEAR), (0, NEAR)] {
        hosts.hear_network(&request((ip, mac), OWN), ms(0));
    }
    assert_eq!(hosts.stations().len(), 0);
}

#[test]
fn nothing_grows_without_end() {
    let mut hosts = hosts();
    for n in 0..2 * MOST as u32 {
        assert!(ask(&mut hosts, 0, FAR.wrapping_add(n.wrapping_mul(0x0101_0101)), ms(1)).goes_on);
        assert!(hosts.known.len() <= MOST);
    }
}

proptest! {
    /// Whatever is asked for, and answers, is known to all members.
    #[test]
    fn what_has_answered_is_known(ips in prop::collection::vec(any::<u32>(), 1..200), copies in 1..20_u32) {
        let mut hosts = hosts();
        for ip in &ips {
            for copy in 0..copies {
                ask(&mut hosts, 0, ip.wrapping_add(copy << 20), ms(1));
            }
            hosts.hear_network(&reply((*ip, NEAR)), ms(2));
            let own = hosts.is_own(*ip) || *ip == 0 || hosts.is_network_wide(*ip);
            let heard = ask(&mut hosts, 5, *ip, ms(3));
            prop_assert!(own || heard.told.is_some_and(|(to, _)| to == bit(5)), "{ip}: {heard:?}");
        }
    }
}
