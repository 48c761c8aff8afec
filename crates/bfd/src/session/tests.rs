use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

fn config(number: u32) -> Config {
    Config { number, min_tx: 50_000, min_rx: 50_000, multiplier: 3, ..Config::default() }
}

/// Two sessions on a wire without delay, and their clock.
struct Pair {
    sides: [Session; 2],
    now: u64,
    /// Times at which each side has sent, with its packets.
    sent: [Vec<(u64, Packet)>; 2],
    changes: [Vec<(u64, Change)>; 2],
    /// Side whose packets are lost.
    lost: [bool; 2],
}

impl Pair {
    fn new(configs: [Config; 2], seed: u64) -> Self {
        let [a, b] = configs;
        let sides = [Session::new(a, 0, 0, seed + 1), Session::new(b, 0, 0, seed + 2)];
        Self { sides, now: 0, sent: Default::default(), changes: Default::default(), lost: [false; 2] }
    }

    /// Runs all that is due until `end`.
    fn run(&mut self, end: u64) {
        for _ in 0..1_000_000 {
            let due = self.sides.iter().filter_map(Session::due).min();
            match due.map(|at| at.max(self.now)).filter(|at| *at < end) {
                Some(at) => self.now = at,
                None => break,
            }
            (0..2).for_each(|side| self.turn(side));
        }
        self.now = end;
    }

    fn turn(&mut self, side: usize) {
        let expired = self.sides[side].expire(self.now);
        self.note(side, expired);
        while let Some(packet) = self.sides[side].send(self.now) {
            self.sent[side].push((self.now, packet));
            let packet = Packet::parse(&packet.octets()).expect("a valid packet");
            if !self.lost[side] {
                let change = self.sides[1 - side].take(&packet, self.now);
                self.note(1 - side, change);
            }
        }
    }

    fn note(&mut self, side: usize, change: Option<Change>) {
        self.changes[side].extend(change.map(|change| (self.now, change)));
    }

    fn states(&self) -> [State; 2] {
        [self.sides[0].state(), self.sides[1].state()]
    }
}

fn up() -> Pair {
    let mut pair = Pair::new([config(1), config(2)], 7);
    pair.run(3 * SECOND);
    assert_eq!(pair.states(), [State::Up; 2]);
    pair
}

#[test]
fn two_sides_come_up_and_send_at_the_rate_they_agreed_on() {
    let mut pair = up();
    assert!(pair.sides.iter().all(|side| side.poll == Poll::None), "the poll was answered");
    pair.sent = Default::default();
    pair.run(4 * SECOND);
    for sent in &pair.sent {
        assert!((20..=27).contains(&sent.len()), "{}", sent.len());
        assert!(sent.windows(2).all(|two| (37_000..=50_000).contains(&(two[1].0 - two[0].0))));
        assert!(
            sent.iter().all(|(_, packet)| !packet.is_poll && !packet.is_final && packet.desired_tx == 50_000)
        );
    }
    assert_eq!(pair.sides[0].detection_time(), 150_000);
}

#[test]
fn a_side_that_is_not_up_sends_slowly() {
    let mut alone = Session::new(config(1), 0, 0, 3);
    let mut sent = Vec::new();
    while sent.len() < 20 {
        let now = alone.due().expect("it sends");
        sent.extend(alone.send(now).map(|packet| (now, packet)));
    }
    assert!(sent.windows(2).all(|two| (749_000..=SECOND).contains(&(two[1].0 - two[0].0))));
    assert!(sent.iter().all(|(_, packet)| packet.desired_tx == SLOW && packet.state == State::Down));
}

#[test]
fn silence_is_noticed_after_the_detection_time_and_told() {
    let mut pair = up();
    pair.lost[1] = true;
    let since = pair.sent[1].last().expect("it has sent").0;
    pair.changes = Default::default();
    pair.run(pair.now + SECOND);
    let (at, change) = pair.changes[0][0];
    assert_eq!(change, Change { from: State::Up, to: State::Down, diagnostic: Diagnostic::EXPIRED });
    assert_eq!(at, since + 150_000);
    let (at, told) = pair.changes[1][0];
    assert_eq!((told.to, told.diagnostic), (State::Down, Diagnostic::NEIGHBOUR_DOWN));
    assert!(at <= since + 150_000 + 1, "it is told at once, not after an interval");
    pair.lost[1] = false;
    pair.run(pair.now + 4 * SECOND);
    assert_eq!(pair.states(), [State::Up; 2]);
}

#[test]
fn the_administrator_takes_it_down_and_up() {
    let mut pair = up();
    let shut = Config { is_shut: true, ..config(1) };
    let now = pair.now;
    let change = pair.sides[0].configure(shut, now).expect("a change");
    assert_eq!((change.to, change.diagnostic), (State::AdminDown, Diagnostic::ADMINISTRATIVE));
    pair.run(now + SECOND);
    assert_eq!(pair.states(), [State::AdminDown, State::Down]);
    assert_eq!(pair.sides[1].diagnostic(), Diagnostic::NEIGHBOUR_DOWN);
    let now = pair.now;
    assert!(pair.sides[0].configure(config(1), now).is_some());
    pair.run(now + 4 * SECOND);
    assert_eq!(pair.states(), [State::Up; 2]);
}

#[test]
fn longer_intervals_come_into_force_once_confirmed() {
    let mut pair = up();
    let slower = Config { min_tx: 400_000, min_rx: 20_000, ..config(1) };
    let now = pair.now;
    assert_eq!(pair.sides[0].configure(slower, now), None);
    assert_eq!((pair.sides[0].tx, pair.sides[0].rx), (50_000, 50_000), "the other side does not know yet");
    let packet = pair.sides[0].send(now).expect("it is told at once");
    assert!(packet.is_poll && packet.desired_tx == 400_000 && packet.required_rx == 20_000);
    pair.sides[1].take(&packet, now);
    let answer = pair.sides[1].send(now).expect("an answer");
    assert!(answer.is_final && !answer.is_poll);
    pair.sides[0].take(&answer, now);
    assert_eq!((pair.sides[0].tx, pair.sides[0].rx), (400_000, 20_000));
    assert_eq!(pair.sides[1].detection_time(), 1_200_000);
    pair.run(now + 5 * SECOND);
    assert_eq!(pair.states(), [State::Up; 2]);
}

#[test]
fn an_answer_to_an_older_question_confirms_nothing() {
    let mut pair = up();
    let now = pair.now;
    pair.sides[0].configure(Config { min_tx: 100_000, ..config(1) }, now);
    let first = pair.sides[0].send(now).expect("a poll");
    pair.sides[0].configure(Config { min_tx: 400_000, ..config(1) }, now);
    pair.sides[1].take(&first, now);
    let answer = pair.sides[1].send(now).expect("an answer");
    pair.sides[0].take(&answer, now);
    assert_eq!(pair.sides[0].tx, 50_000);
    pair.run(now + SECOND);
    assert_eq!((pair.sides[0].tx, pair.sides[0].poll), (400_000, Poll::None));
}

#[test]
fn silence_that_is_asked_for_is_kept() {
    let mut pair = up();
    let now = pair.now;
    let base = Packet {
        state: State::Up,
        multiplier: 3,
        mine: 2,
        yours: 1,
        desired_tx: 50_000,
        ..Packet::default()
    };
    pair.sides[0].take(&base, now);
    assert_eq!(pair.sides[0].sends(), None, "it cannot receive");
    pair.sides[0].take(&Packet { required_rx: 50_000, is_demand: true, ..base }, now);
    assert_eq!(pair.sides[0].sends(), None, "it works in demand mode");
    pair.sides[0].take(&Packet { required_rx: 50_000, is_demand: true, is_poll: true, ..base }, now);
    assert!(pair.sides[0].send(now).is_some_and(|packet| packet.is_final));
    let mut passive = Session::new(Config { is_passive: true, ..config(1) }, 0, 0, 1);
    assert_eq!(passive.due(), None);
    passive.take(&Packet { state: State::Down, yours: 0, required_rx: 1, ..base }, 5);
    assert!(passive.send(5).is_some());
}

#[test]
fn a_first_packet_may_be_held() {
    let mut held = Session::new(config(1), 100, 7_000, 1);
    assert_eq!((held.send(7_099), held.due()), (None, Some(7_100)));
    assert!(held.send(7_100).is_some());
}

proptest! {
    #[test]
    fn sessions_come_up_over_wires_that_lose_packets_and_stay_up_over_good_ones(
        seed in 0u64..1000, mult in 1u8..5, tx in 10_000u32..900_000, rx in 10_000u32..900_000,
        lossy in prop::collection::vec(any::<[bool; 2]>(), 0..20),
    ) {
        let other = Config { number: 2, min_tx: rx, min_rx: tx / 2 + 1, multiplier: mult, ..Config::default() };
        let mut pair = Pair::new([Config { multiplier: mult, min_tx: tx, min_rx: rx, ..config(1) }, other], seed);
        for lost in &lossy {
            pair.lost = *lost;
            pair.run(pair.now + SECOND / 3);
        }
        pair.lost = [false; 2];
        pair.run(pair.now + 15 * SECOND);
        prop_assert_eq!(pair.states(), [State::Up; 2]);
        pair.changes = Default::default();
        pair.run(pair.now + 20 * SECOND);
        prop_assert!(pair.changes.iter().all(Vec::is_empty), "{:?}", pair.changes);
    }

    #[test]
    fn arbitrary_packets_do_no_harm(inputs in prop::collection::vec((any::<[u8; 24]>(), 0u64..3_000_000), 0..60)) {
        let (mut session, mut now) = (Session::new(config(1), 0, 0, 1), 0);
        for (mut octets, later) in inputs {
            (octets[0], octets[3]) = (octets[0] & 0x1f | 0x20, 24);
            now += later;
            if let Ok(packet) = Packet::parse(&octets) { session.take(&packet, now); }
            session.expire(now);
            let sent = std::iter::from_fn(|| session.send(now)).take(4).count();
            prop_assert!(sent <= 2, "an answer, and a periodic packet");
            prop_assert!(session.due().is_none_or(|at| at >= now));
        }
    }
}
