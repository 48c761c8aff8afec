use netlink_packet_core::{NLM_F_DUMP_INTR, NLM_F_REQUEST};

use super::features::names;
use super::message::{Part, RequestHeader, parts};
use super::napi::napi;
use super::*;

/// A message of the kernel with this type, flags and body, as an answer to request 7.
fn told(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut octets = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(flags.to_ne_bytes());
    octets.extend(7_u32.to_ne_bytes());
    octets.extend([0; 4]);
    octets.extend(body);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn body(attributes: &Attributes) -> Vec<u8> {
    [&[11, 1, 0, 0][..], attributes.octets()].concat()
}

#[test]
fn a_request_has_both_headers() {
    let asked = Attributes::default().number(1, 5);
    let octets = RequestHeader { family: 20, flags: NLM_F_ACK, sequence: 9, command: 11 }.octets(&asked);
    assert_eq!(octets.len(), 28);
    assert_eq!(octets[..4], 28_u32.to_ne_bytes());
    assert_eq!(octets[4..6], 20_u16.to_ne_bytes());
    assert_eq!(octets[6..8], (NLM_F_ACK | NLM_F_REQUEST).to_ne_bytes());
    assert_eq!(octets[8..12], 9_u32.to_ne_bytes());
    assert_eq!(octets[16..20], [11, 1, 0, 0]);
    assert_eq!(octets[20..], *asked.octets());
}

#[test]
fn an_answer_has_bodies_and_an_end() {
    let one = Attributes::default().number(2, 8193);
    let datagram =
        [told(20, 0, &body(&one)), told(20, NLM_F_DUMP_INTR, &body(&one)), told(3, 0, &0_i32.to_ne_bytes())]
            .concat();
    let all: Vec<Part<'_>> = parts(&datagram, 7).map(|part| part.expect("readable")).collect();
    let is_interrupted = |part: &Part<'_>| matches!(part, Part::Body { is_interrupted: true, .. });
    assert_eq!(all.iter().map(is_interrupted).collect::<Vec<_>>(), [false, true, false]);
    assert!(matches!(&all[0], Part::Body { attributes, .. } if *attributes == one.octets()));
    assert!(matches!(&all[2], Part::End(Ok(()))));
    assert_eq!(parts(&datagram, 8).count(), 0, "the answer to another request");
}

#[test]
fn a_refusal_is_an_error_number() {
    let refused = told(2, 0, &[&(-libc::ENODEV).to_ne_bytes()[..], &[0; 16]].concat());
    let all: Vec<Part<'_>> = parts(&refused, 7).map(|part| part.expect("readable")).collect();
    assert!(matches!(&all[..], [Part::End(Err(e))] if e.raw_os_error() == Some(libc::ENODEV)));
}

#[test]
fn damaged_messages_end_an_answer() {
    for len in [0_u32, 15, 4096] {
        let mut octets = told(20, 0, &body(&Attributes::default()));
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        let all: Vec<_> = parts(&octets, 7).collect();
        assert!(matches!(&all[..], [Err(_)]), "a length of {len}");
    }
    assert!(matches!(parts(&told(20, 0, &[1]), 7).next(), Some(Err(_))), "half a header");
}

#[test]
fn ones_of_a_set_are_named() {
    let bit = |name: &str| Attributes::default().number(1, 3).text(2, name);
    let bits = Attributes::default().nest(1, &bit("rx-gro").with(3, &[])).nest(1, &bit("tx-lockless"));
    let set = Attributes::default().number(2, 60).nest(3, &bits);
    assert_eq!(names(set.octets()), ["rx-gro"]);
    let ones = set.with(1, &[]);
    assert_eq!(names(ones.octets()), ["rx-gro", "tx-lockless"]);
}

#[test]
fn a_napi_instance_may_have_a_thread() {
    let none = Attributes::default().number(1, 4).number(2, 8193);
    assert_eq!(napi(none.octets()), Some(Napi { id: 8193, index: 4, thread: None }));
    let some = none.number(4, 77);
    assert_eq!(napi(some.octets()), Some(Napi { id: 8193, index: 4, thread: Some(77) }));
    assert_eq!(napi(&[]), None);
}
