use std::net::Ipv4Addr;

use super::*;
use crate::dplane::SESSION;
use crate::packet::Packet;
use crate::{PORT, TTL};

const US: [u8; 4] = [192, 0, 2, 1];
const THEM: [u8; 4] = [192, 0, 2, 2];

/// A message of bfdd about the session with this number.
fn message(kind: u16, number: u32) -> Vec<u8> {
    let mut session = [0; SESSION];
    session[4..8].copy_from_slice(&US);
    session[20..24].copy_from_slice(&THEM);
    for (at, word) in [(36, number), (40, 50_000), (44, 50_000), (64, 3)] {
        session[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    session[61] = 3;
    [&[1, 0][..], &kind.to_be_bytes(), &[0, 0], &140u16.to_be_bytes(), &session].concat()
}

#[derive(Default)]
struct World {
    agent: Agent,
    now: u64,
    verdicts: Vec<bool>,
    sent: Vec<Packet>,
}

impl World {
    fn hear(&mut self, octets: &[u8]) {
        let Self { agent, verdicts, sent, .. } = self;
        agent.hear(octets, self.now, &mut noted(verdicts, sent)).expect("sound");
    }

    /// Lets the other side say something, with our number as it was told to it.
    fn arrive(&mut self, state: State, yours: u32) {
        let packet = Packet {
            state,
            multiplier: 3,
            mine: 20,
            yours,
            desired_tx: 50_000,
            required_rx: 1,
            ..Packet::default()
        };
        let octets = packet.octets();
        let arrived = Arrived {
            source: Ipv4Addr::from(THEM).into(),
            destination: Ipv4Addr::from(US).into(),
            index: 3,
            port: PORT,
            ttl: TTL,
            payload: &octets,
            at: self.now,
        };
        let Self { agent, verdicts, sent, .. } = self;
        agent.take(&arrived, &mut noted(verdicts, sent)).expect("taken");
    }

    fn turn(&mut self, now: u64) {
        self.now = now;
        let Self { agent, verdicts, sent, .. } = self;
        agent.turn(now, &mut noted(verdicts, sent));
    }

    /// States that bfdd was told, with the numbers of their sessions.
    fn told(&mut self) -> Vec<(u32, u8)> {
        let octets = std::mem::take(self.agent.outgoing());
        let (changes, rest) = octets.as_chunks::<36>();
        assert!(rest.is_empty());
        changes
            .iter()
            .map(|change| (u32::from_be_bytes([change[8], change[9], change[10], change[11]]), change[32]))
            .collect()
    }

    fn up() -> Self {
        let mut world = Self::default();
        world.agent.connected();
        world.hear(&message(2, 7));
        world.arrive(State::Down, 0);
        world.arrive(State::Init, 7);
        world.turn(0);
        assert_eq!((world.told(), &world.verdicts[..]), (vec![(7, 2), (7, 3)], &[true][..]));
        world
    }
}

fn noted(verdicts: &mut Vec<bool>, sent: &mut Vec<Packet>) -> impl FnMut(Told<'_>) {
    move |told| match told {
        Told::Verdict { index, remote, is_alive } => {
            assert_eq!((index, remote), (3, Ipv4Addr::from(THEM).into()));
            verdicts.push(is_alive);
        }
        Told::Send { payload, .. } => sent.push(Packet::parse(payload).expect("a valid packet")),
        Told::Unsupported { .. } | Told::Refused { .. } => panic!("{told:?}"),
    }
}

#[test]
fn silence_is_told_to_bfdd_and_to_the_route_table() {
    let mut world = World::up();
    world.turn(150_000);
    assert_eq!((world.told(), world.verdicts), (vec![(7, 1)], vec![true, false]));
}

#[test]
fn an_administrator_says_nothing_about_the_path() {
    let mut world = World::up();
    world.arrive(State::AdminDown, 7);
    assert_eq!((world.told(), world.verdicts), (vec![(7, 1)], vec![true, true]));
}

#[test]
fn a_session_outlives_bfdd_and_goes_on_under_its_new_number() {
    let mut world = World::up();
    world.agent.closed();
    world.now = 100_000;
    world.arrive(State::Up, 7);
    world.turn(200_000);
    assert_eq!(world.told(), [], "nobody is there to be told");
    world.arrive(State::Up, 7);
    world.agent.connected();
    world.hear(&message(2, 8));
    assert_eq!(world.told(), [(8, 3)], "it learns at once that the session is up");
    world.arrive(State::Up, 7);
    world.turn(210_000);
    assert_eq!(world.sent.last().map(|packet| (packet.mine, packet.state)), Some((8, State::Up)));
    assert_eq!(world.agent.settle(&mut |_| {}), 0);
    assert_eq!((world.verdicts, world.agent.sessions().len()), (vec![true], 1));
}

#[test]
fn what_nobody_asks_for_any_more_ends_with_the_settling() {
    let mut world = World::up();
    world.agent.connected();
    let mut verdicts = Vec::new();
    let removed = world.agent.settle(&mut noted(&mut verdicts, &mut Vec::new()));
    assert_eq!((removed, verdicts, world.agent.sessions().len()), (1, vec![true], 0));
    assert_eq!(world.agent.due(), None);
}

#[test]
fn a_deleted_session_leaves_its_next_hop_alive() {
    let mut world = World::up();
    world.turn(150_000);
    world.hear(&message(3, 7));
    assert_eq!((world.verdicts, world.agent.sessions().len()), (vec![true, false, true], 0));
}

#[test]
fn a_session_that_moves_to_another_interface_leaves_its_former_next_hop_alive() {
    let mut world = World::up();
    world.turn(150_000);
    let mut moved = message(2, 7);
    // The last octet of the index, behind the header.
    moved[8 + 67] = 4;
    world.hear(&moved);
    assert_eq!((world.verdicts, world.agent.sessions().len()), (vec![true, false, true], 1));
}

#[test]
fn a_session_without_a_number_is_refused() {
    let mut agent = Agent::new(1);
    agent.connected();
    let mut refused = 0;
    agent
        .hear(&message(2, 0), 0, &mut |told| refused += usize::from(matches!(told, Told::Refused { .. })))
        .expect("sound");
    assert_eq!((refused, agent.outgoing().len()), (1, 36));
}

#[test]
fn a_session_too_many_is_refused_and_one_that_goes_on_is_not() {
    let (mut agent, most) = (Agent::new(1), MOST as u32);
    let mut refused = |number: u32, path: u32, is_new_bfdd: bool| {
        if is_new_bfdd {
            agent.connected();
        }
        let (mut order, mut count) = (message(2, number), 0);
        // The header has eight octets.
        order[28..32].copy_from_slice(&(0x0a00_0000 + path).to_be_bytes());
        let mut note = |told: Told<'_>| count += usize::from(matches!(told, Told::Refused { .. }));
        agent.hear(&order, 0, &mut note).expect("sound");
        (count, agent.sessions().len())
    };
    for number in 1..=most {
        assert_eq!(refused(number, number, number == 1), (0, number as usize));
    }
    assert_eq!(refused(most + 1, most + 1, false), (1, MOST));
    assert_eq!(refused(most, most, false), (0, MOST), "it is there");
    assert_eq!(refused(most + 2, 1, true), (0, MOST), "it is that of the former bfdd");
    assert_eq!(refused(most + 1, most + 1, false), (1, MOST));
}

#[test]
fn a_bfdd_that_does_not_read_is_noticed() {
    let mut agent = Agent::new(1);
    agent.connected();
    let echo = [&[1, 0, 0, 0, 0, 9, 0, 24][..], &[7; 16]].concat();
    let many = echo.repeat(1000);
    while !agent.is_overrun() {
        agent.hear(&many, 0, &mut |_| {}).expect("sound");
    }
    assert!(agent.outgoing().len() <= MOST_OCTETS + many.len());
    agent.closed();
    assert!(!agent.is_overrun());
}
