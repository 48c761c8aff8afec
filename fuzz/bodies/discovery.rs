//! Neighbour discovery of a group: arbitrary octets as a frame, and as a history of what the network and members say. Finds panics, answers
//! that are no valid messages or about no address of the group, and messages of members that leave although they may not.
//!
//! A history consists of pieces of eight octets: what is said, the station, the addresses that it speaks from and about, flags, the number
//! of the member, and the milliseconds that have passed before.

use std::collections::BTreeMap;

use frame::icmpv6;
use frame::nd::{self, AdvertOptions, RouterAdvert};

use super::*;
use crate::ensemble::known::MOST;

const GROUP: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NET: u128 = 0x2001_0db8 << 96;
const OTHER_NET: u128 = 0x2001_0db9 << 96;
/// The addresses of the group, and that of all routers of its first network.
const OWN: [u128; 4] = [NET | 1, OTHER_NET | 1, ipv6::link_local(GROUP), NET];
/// Least time between two questions for one address.
const PAUSE: Duration = Duration::from_millis(100);
/// Most pieces of an input.
const PIECES: usize = 4096;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    rewrite(input);
    let nodes = Nodes::new(GROUP, &[(NET | 1, 64), (OTHER_NET | 1, 127)]);
    let mut history = History { nodes, now: Duration::ZERO, asked: BTreeMap::new() };
    for piece in input.as_chunks::<8>().0.iter().take(PIECES) {
        history.go_on(piece);
    }
}

/// Has a router advertisement be that of the group: it is as valid as before.
fn rewrite(input: &[u8]) {
    let mut octets = input.to_vec();
    let read = Message::read(input);
    if advertise_as(&mut octets, GROUP).is_none() {
        return;
    }
    let Some(before) = read.filter(|message| matches!(message.said, Said::RouterAdvert)) else { return };
    let after = Message::read(&octets).expect("a valid message");
    assert_eq!((after.by, after.source), (GROUP, before.source));
}

/// What was said so far.
struct History {
    nodes: Nodes,
    now: Duration,
    /// When the network was asked for an address last.
    asked: BTreeMap<u128, Duration>,
}

impl History {
    fn go_on(&mut self, piece: &[u8; 8]) {
        let [what, _, _, _, flags, member, late, later] = *piece;
        self.now += Duration::from_millis(u16::from_be_bytes([late, later]).into());
        if what & 0x80 != 0 {
            self.nodes.forget();
            self.asked.clear();
        }
        let Some(message) = Message::read(&frame_of(piece)) else { return };
        let heard = if what & 4 == 0 {
            self.nodes.hear_network(&message, self.now)
        } else {
            self.hear_member(u16::from(member), &message, flags & 0x10 == 0)
        };
        if let Some(answer) = &heard.answer {
            check_answer(&message, answer);
        }
        if let Some((to, spoken)) = &heard.told {
            let told = Message::read(spoken).expect("a valid message");
            let Said::Advert(advert) = told.said else { unreachable!("{told:?} is no advertisement") };
            assert!(*to != 0 && !OWN.contains(&advert.target), "{advert:?}");
        }
        assert!(self.nodes.known.len() <= MOST);
    }

    fn hear_member(&mut self, member: u16, message: &Message, is_known: bool) -> Heard {
        let heard = self.nodes.hear_member((member, message), is_known, self.now);
        assert_eq!(heard.answer, None);
        let goes_on = heard.fate == Fate::GoesOn;
        match message.said {
            Said::Solicit(solicit) if message.source == 0 => {
                assert!(!goes_on || OWN.contains(&solicit.target), "a trial of {:x}", solicit.target);
            }
            Said::Solicit(solicit) if goes_on => {
                let before = self.asked.insert(solicit.target, self.now);
                assert!(before.is_none_or(|before| self.now - before >= PAUSE), "it is asked too often");
                assert!(!OWN.contains(&solicit.target), "no other station has {:x}", solicit.target);
            }
            Said::Solicit(_) | Said::Advert(_) | Said::RouterSolicit => assert_eq!(heard.fate, Fate::Stays),
            Said::RouterAdvert => assert_eq!(heard.fate, Fate::ToLead),
        }
        heard
    }
}

/// The group answers for its own addresses, to others.
fn check_answer(message: &Message, answer: &Spoken) {
    let Said::Solicit(asked) = message.said else { unreachable!("{message:?} is answered") };
    let read = Message::read(answer).expect("a valid message");
    let Said::Advert(advert) = read.said else { unreachable!("{read:?} is no advertisement") };
    assert!(OWN.contains(&advert.target) && advert.target == asked.target, "{advert:?}");
    assert!(read.by == GROUP && message.by != GROUP && read.source != 0, "{read:?} answers {message:?}");
    assert_eq!((advert.target_mac, advert.solicited), (Some(GROUP), message.source != 0));
}

/// The frame of a piece, which need not be valid.
fn frame_of(piece: &[u8; 8]) -> Spoken {
    let [what, by, source, about, flags, ..] = *piece;
    let (by, source, target) = (Mac([2, 0, 0, 0, 0, by]), address(source), address(about));
    let is = |bit: u8| flags >> bit & 1 != 0;
    let mac = is(0).then_some(by);
    let to = if is(3) { ipv6::solicited_node(target) } else { OWN[0] };
    let (stations, ends) = ((by, GROUP), (source, to));
    match what & 3 {
        0 => spoken(stations, ends, |payload| Solicit { target, source_mac: mac }.write(payload)),
        1 => {
            let advert =
                Advert { target, target_mac: mac, router: false, solicited: is(1), overrides: is(2) };
            spoken(stations, ends, |payload| advert.write(payload))
        }
        2 => {
            let header = icmpv6::Header { kind: nd::ROUTER_SOLICIT, code: 0, rest: 0 };
            spoken(stations, ends, |_| Ok((0, header)))
        }
        _ => {
            let options = AdvertOptions { mac: by, mtu: None, prefixes: &[], dns: (&[], 0) };
            spoken(stations, ends, |payload| RouterAdvert::default().write(&options, payload))
        }
    }
}

/// Own addresses, neighbours, and addresses that no node may have.
fn address(of: u8) -> u128 {
    match of {
        0 => 0,
        1..=4 => OWN[usize::from(of) - 1],
        5 => ipv6::ALL_NODES,
        6 => 1,
        7..=15 => ipv6::LINK_LOCAL | u128::from(of),
        16..=31 => OTHER_NET | u128::from(of),
        _ => NET | u128::from(of),
    }
}
