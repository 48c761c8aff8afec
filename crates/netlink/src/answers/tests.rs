use netlink_packet_core::{NLM_F_MULTIPART, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use super::*;

/// Message about an interface with these flags, as an answer to request 7.
fn link(name: &str, flags: u16) -> Vec<u8> {
    let mut message = LinkMessage::default();
    message.header.index = 3;
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    let payload = NetlinkPayload::from(RouteNetlinkMessage::NewLink(message));
    let mut whole = NetlinkMessage::new(NetlinkHeader::default(), payload);
    whole.header.flags = flags;
    whole.header.sequence_number = 7;
    whole.finalize();
    let mut octets = vec![0; whole.buffer_len()];
    whole.serialize(&mut octets);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

/// Message of this type with this body, as an answer to request 7.
fn raw(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut octets = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend([0; 2]);
    octets.extend(7_u32.to_ne_bytes());
    octets.extend([0; 4]);
    octets.extend(body);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn all(datagram: &[u8]) -> Vec<io::Result<Answer>> {
    answers(datagram).collect()
}

#[test]
fn a_datagram_has_several_messages() {
    let datagram = [link("a", NLM_F_MULTIPART), link("bcd", NLM_F_MULTIPART | NLM_F_DUMP_INTR)].concat();
    let found: Vec<Answer> = answers(&datagram).map(|answer| answer.expect("readable")).collect();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|answer| answer.sequence == 7));
    assert_eq!([found[0].interrupted, found[1].interrupted], [false, true]);
    let Content::Object(RouteNetlinkMessage::NewLink(second)) = &found[1].content else {
        panic!("{:?}", found[1])
    };
    assert_eq!(second.attributes, [LinkAttribute::IfName("bcd".to_owned())]);
}

#[test]
fn acknowledgements_and_refusals_end_a_request() {
    let end = |datagram: Vec<u8>| match all(&datagram).pop() {
        Some(Ok(Answer { content: Content::End(outcome), .. })) => outcome,
        other => panic!("{other:?}"),
    };
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    let asked = [0; 16];
    assert!(end(raw(ERROR, &[&0_i32.to_ne_bytes()[..], &asked].concat())).is_ok());
    let refused = end(raw(ERROR, &[&(-libc::ENODEV).to_ne_bytes()[..], &asked].concat()));
    assert_eq!(refused.expect_err("refused").raw_os_error(), Some(libc::ENODEV));
    assert!(end(raw(DONE, &0_i32.to_ne_bytes())).is_ok());
    let broken = end(raw(DONE, &(-libc::EINTR).to_ne_bytes()));
    assert_eq!(broken.expect_err("refused").raw_os_error(), Some(libc::EINTR));
}

#[test]
fn wrong_lengths_end_the_datagram_and_strange_messages_do_not() {
    let good = link("a", 0);
    for wrong in [0_u32, 15, 1 << 20] {
        let damaged = [&good[..], &wrong.to_ne_bytes(), &[0; 28]].concat();
        let found = all(&damaged);
        assert_eq!(found.len(), 2, "{wrong}: {found:?}");
        assert_eq!(found[1].as_ref().expect_err("damaged").kind(), io::ErrorKind::InvalidData);
    }
    // A class of traffic control, a message of an unknown type, and a link message without its header.
    let strange = [raw(40, &[0; 20]), raw(900, &[]), raw(16, &[0; 3]), good].concat();
    let found = all(&strange);
    assert_eq!(found.len(), 4);
    assert!(matches!(found[0], Ok(Answer { content: Content::Other, .. })), "{:?}", found[0]);
    assert!(matches!(found[1], Ok(Answer { content: Content::Other, .. })), "{:?}", found[1]);
    assert!(found[2].is_err(), "{:?}", found[2]);
    assert!(found[3].is_ok());
    // Octets after the last message are padding.
    assert_eq!(all(&[0; 3]).len(), 0);
}

#[test]
fn every_cut_of_a_datagram_is_read_without_harm() {
    let datagram = [link("abc", 0), raw(2, &[0; 20]), raw(24, &[2; 40])].concat();
    for end in 0..=datagram.len() {
        answers(&datagram[..end]).for_each(drop);
        let mut torn = datagram.clone();
        torn.get_mut(end).into_iter().for_each(|octet| *octet ^= 0xff);
        answers(&torn).for_each(drop);
    }
}

#[test]
fn a_queueing_discipline_is_handed_on_as_it_is() {
    let body: Vec<u8> = (0..24).collect();
    let found = all(&raw(36, &body)).pop().expect("a message").expect("readable");
    assert_eq!(found.sequence, 7);
    assert!(matches!(found.content, Content::Queue(octets) if octets == body));
    let empty = all(&raw(36, &[])).pop().expect("a message").expect("readable");
    assert!(matches!(empty.content, Content::Queue(octets) if octets.is_empty()));
}
