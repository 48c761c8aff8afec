//! Packets that the router answers itself.

use std::cell::Cell;

use frame::icmp;

use super::*;

/// An ICMP message with the given payload.
fn icmp_from(from: Ipv4Addr, to: Ipv4Addr, header: icmp::Header, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![0; icmp::HEADER];
    message.extend_from_slice(rest);
    header.write(&mut message).expect("room");
    let ip = ipv4::Header::new(ipv4::ICMP, from.to_bits(), to.to_bits(), message.len() as u16);
    framed(HOST, EDGE_WAN, &ip, &message)
}

#[test]
fn an_icmp_error_is_an_answer() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let sent = Sent { ttl: 1, ..Sent::number(7) }.octets();
    deliver(&edge.wan_rx, vec![sent.clone()]);
    let header = icmp::Header { kind: icmp::TIME_EXCEEDED, code: 0, rest: 0 };
    // First about another packet, then about this one.
    let other = Sent { port: 4000, ..Sent::number(7) }.octets();
    deliver(&edge.wan_tx, vec![icmp_from(ROUTER, SOURCE, header, &other[14..42])]);
    assert!(trace.round(Arc::default).packets.is_empty());
    deliver(&edge.wan_tx, vec![icmp_from(ROUTER, SOURCE, header, &sent[14..42])]);
    // The router counts it after the round has begun.
    let reads = Cell::new(0);
    let packet = only(trace.round(|| counters(&[("edge.vcpu0", "drop_ttl", reads.replace(1))])));
    let Fate::Answered { nic, answer, counters, .. } = &packet.fate else { panic!("{:?}", packet.fate) };
    assert_eq!(
        (nic.as_str(), counters),
        ("edge.wan", &BTreeMap::from([("edge.vcpu0.drop_ttl".to_owned(), 1)]))
    );
    assert!(answer.ends_with("192.0.2.1 > 192.0.2.2 ttl 64 id 0, ICMP time exceeded"), "{answer}");
}

#[test]
fn an_echo_reply_is_an_answer_and_somebody_elses_is_not() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let echo = |kind, seq: u32| icmp::Header { kind, code: 0, rest: 9 << 16 | seq };
    deliver(&edge.wan_rx, vec![icmp_from(SOURCE, ROUTER, echo(icmp::ECHO_REQUEST, 4), b"octets")]);
    deliver(&edge.wan_tx, vec![icmp_from(ROUTER, SOURCE, echo(icmp::ECHO_REPLY, 3), b"octets")]);
    assert!(trace.round(Arc::default).packets.is_empty());
    deliver(&edge.wan_tx, vec![icmp_from(ROUTER, SOURCE, echo(icmp::ECHO_REPLY, 4), b"octets")]);
    let packet = only(trace.round(Arc::default));
    assert!(packet.headers.ends_with("ICMP echo request id 9 seq 4"), "{}", packet.headers);
    let Fate::Answered { answer, .. } = &packet.fate else { panic!("{:?}", packet.fate) };
    assert!(answer.ends_with("ICMP echo reply id 9 seq 4"), "{answer}");
}

#[test]
fn an_arp_reply_is_an_answer() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    deliver(&edge.wan_rx, vec![arp_between(arp::Operation::Request, SOURCE, ROUTER)]);
    deliver(&edge.wan_tx, vec![arp_between(arp::Operation::Reply, TARGET, SOURCE)]);
    assert!(trace.round(Arc::default).packets.is_empty());
    deliver(&edge.wan_tx, vec![arp_between(arp::Operation::Reply, ROUTER, SOURCE)]);
    let packet = only(trace.round(Arc::default));
    assert!(packet.headers.ends_with("ARP who has 192.0.2.1, tell 192.0.2.2"), "{}", packet.headers);
    let Fate::Answered { answer, .. } = &packet.fate else { panic!("{:?}", packet.fate) };
    assert!(answer.ends_with("ARP 192.0.2.1 is at 02:00:00:00:00:01"), "{answer}");
}
