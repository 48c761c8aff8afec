use api::Filter;
use frame::{Mac, ethernet, icmpv6, ipv6, nd, udp};
use port::Frame;

use super::*;
use crate::tracing::sighting::{Head, Identity};

const NET: u128 = 0x2001_0db8 << 96;
const HOST: u128 = NET | 2;
const ROUTER: u128 = NET | 1;
const TARGET: u128 = NET | 1 << 80;

fn framed(header: ipv6::Header, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; ethernet::HEADER + ipv6::HEADER];
    let ethernet =
        ethernet::Header { destination: Mac([2; 6]), source: Mac([4; 6]), ethertype: ethernet::IPV6 };
    ethernet.write(&mut octets).expect("room");
    let header = ipv6::Header { payload_len: payload.len() as u16, ..header };
    header.write(&mut octets[ethernet::HEADER..]).expect("room");
    octets.extend_from_slice(payload);
    octets
}

fn head(mut octets: Vec<u8>) -> Head {
    Head::copy(&Frame::new(ring::Bytes::from_slice(&mut octets)))
}

fn datagram(hop_limit: u8, port: u16) -> Vec<u8> {
    let mut payload = vec![7; udp::HEADER + 20];
    let header = udp::Header { source: port, destination: 53, len: 28, checksum: 9 };
    header.write(&mut payload).expect("room");
    framed(ipv6::Header { hop_limit, ..ipv6::Header::new(ipv6::next::UDP, HOST, TARGET, 0) }, &payload)
}

fn message(ends: (u128, u128), header: icmpv6::Header, rest: &[u8]) -> Head {
    let mut message = [&[0; icmpv6::HEADER], rest].concat();
    header.write(&mut message, ends).expect("room");
    head(framed(ipv6::Header::new(ipv6::next::ICMP, ends.0, ends.1, 0), &message))
}

#[test]
fn a_packet_is_the_same_after_a_router_and_another_one_is_not() {
    let (before, after, other) =
        (head(datagram(64, 5000)), head(datagram(63, 5000)), head(datagram(64, 5001)));
    assert_eq!(before.fingerprint(), after.fingerprint());
    assert_ne!(before.fingerprint(), other.fingerprint());
    let [Identity::Ip(before), Identity::Ip(after), Identity::Ip(other)] =
        [before, after, other].map(|head| head.identity())
    else {
        panic!("IPv6 packets")
    };
    assert!(before.is_same(&after) && !before.is_same(&other));
    assert_eq!((before.ttl, after.ttl), (64, 63));
}

#[test]
fn errors_echoes_and_advertisements_are_answers() {
    let asked = head(datagram(64, 5000));
    let error = icmpv6::Header { kind: icmpv6::TIME_EXCEEDED, code: 0, rest: 0 };
    let quoted = &datagram(1, 5000)[ethernet::HEADER..];
    assert!(message((ROUTER, HOST), error, quoted).answers(&asked.identity()));
    assert!(
        !message((ROUTER, HOST), error, &datagram(1, 5001)[ethernet::HEADER..]).answers(&asked.identity())
    );
    assert!(!message((ROUTER, TARGET), error, quoted).answers(&asked.identity()), "to someone else");
    let echo = |kind, rest| icmpv6::Header { kind, code: 0, rest };
    let request = message((HOST, ROUTER), echo(icmpv6::ECHO_REQUEST, 7), b"some octets");
    let reply = |rest| message((ROUTER, HOST), echo(icmpv6::ECHO_REPLY, rest), b"some octets");
    assert!(reply(7).answers(&request.identity()) && !reply(8).answers(&request.identity()));
    let solicit = message((HOST, ROUTER), echo(nd::SOLICIT, 0), &ROUTER.to_be_bytes());
    let advert = message((ROUTER, HOST), echo(nd::ADVERT, 0x6000_0000), &ROUTER.to_be_bytes());
    assert!(advert.answers(&solicit.identity()) && !advert.answers(&request.identity()));
}

#[test]
fn answers_are_looked_for_by_their_receiver() {
    let reply = framed(ipv6::Header::new(ipv6::next::ICMP, ROUTER, HOST, 0), &[0; 20]);
    let short: &[u8; SHORT6] = reply.first_chunk().expect("long enough");
    assert_eq!(answered(short), folded(HOST));
    assert_eq!(answered(datagram(64, 1).first_chunk().expect("long enough")), 0);
    let Identity::Ip(asked) = head(datagram(64, 1)).identity() else { panic!("an IPv6 packet") };
    assert_eq!(asked.sender(), folded(HOST));
}

#[test]
fn filters_and_texts() {
    let packet = head(datagram(64, 5000));
    let filter = Filter {
        source: Some(std::net::Ipv6Addr::from(HOST).into()),
        protocol: Some(17),
        port: Some(53),
        ..Filter::default()
    };
    assert!(packet.fits(&filter) && !packet.fits(&Filter { port: Some(54), ..filter.clone() }));
    let text = "04:04:04:04:04:04 > 02:02:02:02:02:02 IPv6 2001:db8::2 > 2001:db8:1:: ttl 64, UDP 5000 > 53";
    assert_eq!(packet.to_string(), text);
    // Behind destination options, of which the ports are found too.
    let options = [&[ipv6::next::UDP, 0, 1, 4, 0, 0, 0, 0][..], &[0x13, 0x88, 0, 53, 0, 8, 0, 0]].concat();
    let packet = head(framed(ipv6::Header::new(ipv6::next::DESTINATION, HOST, TARGET, 0), &options));
    assert!(packet.fits(&filter));
    assert!(packet.to_string().ends_with("UDP 5000 > 53"), "{packet}");
}
