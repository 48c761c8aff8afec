use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ALL: [u8; 6] = [0xff; 6];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 5];
const ROUTER: [u8; 4] = [192, 0, 2, 1];
const LOOPBACK: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [198, 51, 100, 9];

/// The router has 192.0.2.1 and 2001:db8::1, the control plane also 10.0.0.1 and fe80::1.
struct Known;

impl Addresses for Known {
    fn owner(&self, ip: IpAddr) -> Option<Owner> {
        match ip {
            _ if ip == IpAddr::from(ROUTER) || ip == six(ROUTER_6) => Some(Owner::Router),
            _ if ip == IpAddr::from(LOOPBACK) || ip == six(LINK_LOCAL) => Some(Owner::Control),
            _ => None,
        }
    }
}

const ROUTER_6: &str = "2001:db8::1";
const LINK_LOCAL: &str = "fe80::1";

fn six(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn judged(frame: &[u8]) -> Verdict {
    verdict(frame, OURS, &Known)
}

fn frame(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 9], &ethertype.to_be_bytes(), payload].concat()
}

fn arp(operation: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    frame(ALL, 0x0806, &[&head[..], &[0; 6], &sender, &[0; 6], &target].concat())
}

/// A packet that may be a fragment, by the flags and offset of its header.
fn packet(mac: [u8; 6], to: [u8; 4], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 20];
    (header[0], header[8], header[9]) = (0x45, 64, protocol);
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[16..20].copy_from_slice(&to);
    frame(mac, 0x0800, &[&header[..], payload].concat())
}

fn packet6(to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 40];
    (header[0], header[6], header[7]) = (0x60, protocol, 255);
    let IpAddr::V6(ip) = six(to) else { panic!("{to}") };
    header[24..40].copy_from_slice(&ip.octets());
    let mac = if ip.is_multicast() { [0x33, 0x33, 0, 0, 0, 1] } else { OURS };
    frame(mac, 0x86dd, &[&header[..], payload].concat())
}

fn solicitation(target: &str) -> Vec<u8> {
    let IpAddr::V6(ip) = six(target) else { panic!("{target}") };
    packet6("ff02::1:ff00:1", 58, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &ip.octets()].concat())
}

#[test]
fn one_of_the_two_answers_who_has_an_address() {
    assert_eq!(judged(&arp(1, OTHER, ROUTER)), Verdict::Router);
    assert_eq!(judged(&arp(1, OTHER, LOOPBACK)), Verdict::Control);
    assert_eq!(judged(&arp(1, OTHER, [192, 0, 2, 77])), Verdict::Router);
    assert_eq!(judged(&solicitation(ROUTER_6)), Verdict::Router);
    assert_eq!(judged(&solicitation(LINK_LOCAL)), Verdict::Control);
    for both in [arp(2, OTHER, ROUTER), arp(1, OTHER, OTHER), packet6(ROUTER_6, 58, &[136; 24])] {
        assert_eq!(judged(&both), Verdict::Both);
    }
    assert_eq!(judged(&packet6("ff02::2", 58, &[133; 8])), Verdict::Both);
}

#[test]
fn echo_requests_are_the_routers_for_its_own_addresses() {
    let echo = |to| judged(&packet(OURS, to, 1, 0, &[8, 0, 0, 0]));
    assert_eq!([echo(ROUTER), echo(LOOPBACK)], [Verdict::Router, Verdict::Control]);
    assert_eq!(judged(&packet(OURS, ROUTER, 1, 0, &[0, 0, 0, 0])), Verdict::Control, "a reply");
    assert_eq!(judged(&packet(OURS, ROUTER, 1, 0x0010, &[0; 4])), Verdict::Router, "a later fragment");
    let echo = |to| judged(&packet6(to, 58, &[128, 0, 0, 0]));
    assert_eq!([echo(ROUTER_6), echo(LINK_LOCAL)], [Verdict::Router, Verdict::Control]);
    assert_eq!(judged(&packet6("ff02::1", 58, &[128, 0, 0, 0])), Verdict::Router);
    assert_eq!(judged(&packet6(ROUTER_6, 58, &[129, 0, 0, 0])), Verdict::Control, "a reply");
}

#[test]
fn the_control_plane_gets_what_is_said_to_the_router_or_to_all_on_the_link() {
    for frame in [
        packet(OURS, ROUTER, 6, 0, &[0; 20]),
        packet(GROUP, [224, 0, 0, 5], 89, 0, &[2, 1]),
        packet(ALL, [255, 255, 255, 255], 17, 0, &[0; 8]),
        packet(ALL, [192, 0, 2, 255], 17, 0, &[0; 8]),
        packet6(ROUTER_6, 6, &[0; 20]),
        packet6("ff02::5", 89, &[3, 1]),
        packet6("ff02::1", 58, &[134; 16]),
        frame([1, 0x80, 0xc2, 0, 0, 0x14], 0x0040, &[0xfe, 0xfe, 3]),
        frame(OURS, 0x88cc, &[0; 46]),
    ] {
        assert_eq!(judged(&frame), Verdict::Control, "{frame:x?}");
    }
}

#[test]
fn the_router_gets_what_is_to_be_forwarded_and_what_is_for_nobody_here() {
    for frame in [
        packet(OURS, OTHER, 6, 0, &[0; 20]),
        packet([2, 0, 0, 0, 0, 7], ROUTER, 6, 0, &[0; 20]),
        packet(GROUP, [239, 1, 1, 1], 17, 0, &[0; 8]),
        packet6("2001:db8::9", 6, &[0; 20]),
        packet6("ff05::2", 17, &[0; 8]),
        frame(OURS, 0x0800, &[0x45]),
        Vec::new(),
    ] {
        assert_eq!(judged(&frame), Verdict::Router, "{frame:x?}");
    }
}

#[test]
fn tags_are_looked_behind() {
    let plain = packet(OURS, ROUTER, 6, 0, &[0; 20]);
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    assert_eq!(judged(&tagged), Verdict::Control);
}

proptest! {
    #[test]
    fn the_first_octets_are_enough(frame in prop::collection::vec(any::<u8>(), 0..400)) {
        let head = &frame[..frame.len().min(HEAD)];
        // Behind many extension headers of IPv6 there may be anything.
        let is_six = network(&frame).0 == Some(IPV6);
        prop_assert!(judged(&frame) == judged(head) || is_six);
    }
}
