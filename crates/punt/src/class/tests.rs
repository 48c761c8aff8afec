use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A frame with this ethertype.
fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &ethertype.to_be_bytes(), payload].concat()
}

fn ipv4(protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 20];
    (header[0], header[8], header[9]) = (0x45, ttl, protocol);
    frame(0x0800, &[&header[..], payload].concat())
}

fn ipv6(protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 40];
    (header[0], header[6], header[7]) = (0x60, protocol, ttl);
    frame(0x86dd, &[&header[..], payload].concat())
}

/// Ports of TCP or UDP, and room behind.
fn ports(source: u16, destination: u16) -> [u8; 20] {
    let mut octets = [0; 20];
    octets[..2].copy_from_slice(&source.to_be_bytes());
    octets[2..4].copy_from_slice(&destination.to_be_bytes());
    octets
}

#[test]
fn each_protocol_has_its_class() {
    for (expected, frame) in [
        (Class::Neighbours, frame(0x0806, &[0; 28])),
        (Class::Routing, frame(0x0040, &[0xfe, 0xfe, 3])),
        (Class::Rest, frame(0x0040, &[0x42, 0x42, 3])),
        (Class::Rest, frame(0x88cc, &[0; 46])),
        (Class::Icmp, ipv4(1, 64, &[8, 0])),
        (Class::Neighbours, ipv4(2, 1, &[0x11])),
        (Class::Routing, ipv4(89, 1, &[2, 1])),
        (Class::Routing, ipv4(103, 1, &[0x20])),
        (Class::Routing, ipv4(112, 255, &[0x21])),
        (Class::Rest, ipv4(112, 254, &[0x21])),
        (Class::Routing, ipv4(6, 64, &ports(50_000, 179))),
        (Class::Routing, ipv6(6, 64, &ports(179, 50_000))),
        (Class::Routing, ipv4(17, 1, &ports(520, 520))),
        (Class::Bfd, ipv4(17, 255, &ports(50_000, 3784))),
        (Class::Rest, ipv4(17, 254, &ports(50_000, 3784))),
        (Class::Rest, ipv4(17, 255, &ports(3784, 50_000))),
        (Class::Multihop, ipv6(17, 250, &ports(50_000, 4784))),
        (Class::Multihop, ipv4(17, 255, &ports(50_000, 4784))),
        (Class::Rest, ipv4(6, 64, &ports(50_000, 22))),
        (Class::Neighbours, ipv6(58, 255, &[135, 0])),
        (Class::Rest, ipv6(58, 254, &[135, 0])),
        (Class::Neighbours, ipv6(58, 1, &[143, 0])),
        (Class::Icmp, ipv6(58, 64, &[128, 0, 0, 0])),
        (Class::Routing, ipv6(89, 1, &[3, 1, 0, 0])),
    ] {
        // Extension headers are looked for in four octets: real messages have them.
        let mut frame = frame;
        frame.resize(frame.len().max(60), 0);
        assert_eq!(class_of(&frame), expected, "{frame:02x?}");
    }
}

#[test]
fn tags_are_skipped_two_at_most() {
    let bgp = ipv4(6, 64, &ports(50_000, 179));
    let tagged = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
    assert_eq!(class_of(&tagged(&bgp)), Class::Routing);
    assert_eq!(class_of(&tagged(&tagged(&bgp))), Class::Routing);
    assert_eq!(class_of(&tagged(&tagged(&tagged(&bgp)))), Class::Rest);
}

#[test]
fn a_later_fragment_has_no_ports() {
    let mut bgp = ipv4(6, 64, &ports(50_000, 179));
    bgp[21] = 1;
    assert_eq!(class_of(&bgp), Class::Rest);
    let mut ospf = ipv4(89, 1, &[0; 20]);
    ospf[21] = 1;
    assert_eq!(class_of(&ospf), Class::Routing, "a long OSPF packet comes in fragments");
    let fragment = |offset: u8| [&[6, 0, 0, offset, 0, 0, 0, 0][..], &ports(50_000, 179)].concat();
    assert_eq!(class_of(&ipv6(44, 64, &fragment(0))), Class::Routing);
    assert_eq!(class_of(&ipv6(44, 64, &fragment(8))), Class::Rest);
}

#[test]
fn options_and_extension_headers_are_skipped() {
    let mut with_options = ipv4(6, 64, &[&[1; 4][..], &ports(50_000, 179)].concat());
    with_options[14] = 0x46;
    assert_eq!(class_of(&with_options), Class::Routing);
    let mld = [&[58, 0, 5, 2, 0, 0, 0, 0][..], &[143, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(class_of(&ipv6(0, 1, &mld)), Class::Neighbours);
    let chain = |count: usize| {
        let mut chain = Vec::new();
        (1..count).for_each(|_| chain.extend([60, 0, 0, 0, 0, 0, 0, 0]));
        chain.extend([89, 0, 0, 0, 0, 0, 0, 0]);
        chain.extend([3, 1, 0, 44]);
        ipv6(60, 1, &chain)
    };
    assert_eq!(class_of(&chain(8)), Class::Routing);
    assert_eq!(class_of(&chain(9)), Class::Rest, "nobody walks a chain without end");
}

proptest! {
    #[test]
    fn any_octets_have_a_class(frame in prop::collection::vec(any::<u8>(), 0..120)) {
        prop_assert!(Class::ALL.contains(&class_of(&frame)));
    }

    #[test]
    fn a_frame_cut_short_has_a_class(cut in 0usize..80, tagged: bool) {
        let mut frame = ipv6(60, 255, &[&[58, 0, 0, 0, 0, 0, 0, 0][..], &[135, 0, 0, 0]].concat());
        if tagged { frame.splice(12..12, [0x88, 0xa8, 0, 1]); }
        frame.truncate(cut);
        prop_assert!(Class::ALL.contains(&class_of(&frame)));
    }
}
