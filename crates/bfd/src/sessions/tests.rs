use std::net::Ipv4Addr;

use super::*;
use crate::MULTIHOP_PORT;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn config(number: u32) -> Config {
    Config { number, min_tx: 50_000, min_rx: 50_000, multiplier: 3, ..Config::default() }
}

fn path() -> Path {
    Path { local: A, remote: B, index: 3, is_multihop: false, least_ttl: 0 }
}

fn watch(number: u32, path: Path) -> Watch {
    Watch { config: config(number), path, hold: 0 }
}

fn back(path: &Path) -> Path {
    Path { local: path.remote, remote: path.local, ..*path }
}

/// What a turn or a packet has led to: payloads to send, and states entered.
#[derive(Default)]
struct Outcome {
    sent: Vec<[u8; LEN]>,
    states: Vec<State>,
}

impl Outcome {
    fn note(&mut self) -> impl FnMut(Out<'_>) {
        move |out| match out {
            Out::Send { source_port, payload, .. } => {
                assert!(source_port >= FIRST_SOURCE);
                self.sent.push(*payload);
            }
            Out::Changed { change, .. } => self.states.push(change.to),
        }
    }
}

fn arrived(payload: &[u8], at: u64) -> Arrived<'_> {
    Arrived { source: B, destination: A, index: 3, port: PORT, ttl: TTL, payload, at }
}

/// Two tables with a session each, up. Returns them and the time.
fn up() -> ([Sessions; 2], u64) {
    let mut tables = [Sessions::new(1), Sessions::new(2)];
    tables[0].set(&watch(10, path()), 0, &mut |_| {});
    tables[1].set(&watch(20, back(&path())), 0, &mut |_| {});
    let now = exchange(&mut tables, 0, 3_000_000);
    assert_eq!(tables[0].get(10).expect("a session").0.state(), State::Up);
    (tables, now)
}

/// Lets both tables talk until `end`.
fn exchange(tables: &mut [Sessions; 2], mut now: u64, end: u64) -> u64 {
    while let Some(due) = tables.iter().filter_map(Sessions::due).min().filter(|due| *due < end) {
        now = now.max(due);
        for side in 0..2 {
            let mut outcome = Outcome::default();
            tables[side].turn(now, &mut outcome.note());
            for payload in &outcome.sent {
                let [source, destination] = if side == 0 { [A, B] } else { [B, A] };
                let packet = Arrived { source, destination, ..arrived(payload, now) };
                tables[1 - side].take(&packet, &mut |_| {}).expect("taken");
            }
        }
    }
    end
}

#[test]
fn sessions_come_up_and_their_silence_is_found() {
    let (mut tables, now) = up();
    let mut outcome = Outcome::default();
    tables[0].turn(now + 200_000, &mut outcome.note());
    assert_eq!(outcome.states, [State::Down]);
    let counters = tables[0].counters();
    assert_eq!((counters.up.get(), counters.down.get(), counters.expired.get()), (1, 1, 1));
}

#[test]
fn packets_that_wait_are_taken_before_the_time_is() {
    let (mut tables, now) = up();
    let mut outcome = Outcome::default();
    tables[1].turn(now + 60_000, &mut outcome.note());
    let payload = outcome.sent[0];
    tables[0].take(&arrived(&payload, now + 60_000), &mut |_| {}).expect("taken");
    let mut outcome = Outcome::default();
    tables[0].turn(now + 200_000, &mut outcome.note());
    assert_eq!(outcome.states, [], "the thread was late, the packet was not");
}

#[test]
fn a_packet_that_is_not_for_a_session_is_dropped_and_counted() {
    let (mut tables, now) = up();
    let packet =
        Packet { state: State::Up, multiplier: 3, mine: 20, yours: 10, required_rx: 1, ..Packet::default() };
    let octets = packet.octets();
    let good = arrived(&octets, now);
    let mut take = |arrived: &Arrived<'_>| tables[0].take(arrived, &mut |_| {});
    assert_eq!(take(&good), Ok(()));
    assert_eq!(take(&Arrived { ttl: 254, ..good }), Err(Dropped::Ttl));
    assert_eq!(take(&Arrived { source: A, ..good }), Err(Dropped::Unknown), "somebody else");
    assert_eq!(take(&Arrived { destination: B, ..good }), Err(Dropped::Unknown));
    assert_eq!(take(&Arrived { index: 4, ..good }), Err(Dropped::Unknown));
    assert_eq!(take(&Arrived { port: MULTIHOP_PORT, ..good }), Err(Dropped::Unknown));
    assert_eq!(take(&Arrived { payload: &octets[..9], ..good }), Err(Dropped::Malformed));
    let unknown = Packet { yours: 11, ..packet }.octets();
    assert_eq!(take(&Arrived { payload: &unknown, ..good }), Err(Dropped::Unknown));
    let mut authenticated = [&octets[..], &[0; 4]].concat();
    (authenticated[1], authenticated[3]) = (authenticated[1] | 4, 28);
    assert_eq!(take(&Arrived { payload: &authenticated, ..good }), Err(Dropped::Authentication));
    let counters = tables[0].counters();
    assert_eq!((counters.drop_ttl.get(), counters.drop_unknown.get()), (1, 5));
    assert_eq!((counters.drop_malformed.get(), counters.drop_authentication.get()), (1, 1));
}

#[test]
fn several_hops_are_found_by_addresses_and_have_a_least_ttl() {
    let mut table = Sessions::new(1);
    let far = Path { index: 0, is_multihop: true, least_ttl: 250, ..path() };
    table.set(&watch(10, far), 0, &mut |_| {});
    let first = Packet { multiplier: 3, mine: 20, required_rx: 1, ..Packet::default() }.octets();
    let packet = Arrived { port: MULTIHOP_PORT, ttl: 250, index: 9, ..arrived(&first, 0) };
    assert_eq!(table.take(&packet, &mut |_| {}), Ok(()));
    assert_eq!(table.take(&Arrived { ttl: 249, ..packet }, &mut |_| {}), Err(Dropped::Ttl));
    assert_eq!(table.take(&Arrived { port: PORT, ..packet }, &mut |_| {}), Err(Dropped::Unknown));
}

#[test]
fn a_session_of_any_interface_takes_what_one_of_its_own_does_not() {
    let mut table = Sessions::new(1);
    table.set(&watch(10, Path { index: 0, local: unspecified(A), ..path() }), 0, &mut |_| {});
    table.set(&watch(11, path()), 0, &mut |_| {});
    let first = Packet { multiplier: 3, mine: 20, required_rx: 1, ..Packet::default() }.octets();
    table.take(&arrived(&first, 0), &mut |_| {}).expect("taken");
    table.take(&Arrived { index: 9, destination: B, ..arrived(&first, 0) }, &mut |_| {}).expect("taken");
    assert_eq!(table.get(11).expect("there").2.packets_in, 1);
    assert_eq!(table.get(10).expect("there").2.packets_in, 1);
}

#[test]
fn a_number_may_change_while_a_session_is_up() {
    let (mut tables, now) = up();
    assert!(!tables[0].renumber(99, 5) && !tables[0].renumber(10, 10));
    assert!(tables[0].renumber(10, 77));
    let late = Packet {
        state: State::Up,
        multiplier: 3,
        mine: 20,
        yours: 10,
        required_rx: 50_000,
        ..Packet::default()
    };
    tables[0].take(&arrived(&late.octets(), now), &mut |_| {}).expect("the other side does not know yet");
    exchange(&mut tables, now, now + 1_000_000);
    let [one, other] = [tables[0].get(77).expect("there").0, tables[1].get(20).expect("there").0];
    assert_eq!((one.state(), other.state(), other.remote().number), (State::Up, State::Up, 77));
    assert!(tables[0].former.is_empty());
    assert_eq!(tables.iter().map(|table| table.counters().down.get()).sum::<u64>(), 0);
}

#[test]
fn a_new_session_with_a_former_number_of_another_takes_its_own_packets() {
    let (mut tables, now) = up();
    let [table, _] = &mut tables;
    assert!(table.renumber(10, 77));
    let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
    table.set(&watch(10, Path { remote: other, ..path() }), now, &mut |_| {});
    let packet = Packet { multiplier: 3, mine: 20, yours: 10, required_rx: 1, ..Packet::default() };
    let octets = packet.octets();
    let packets = |table: &Sessions| [77, 10].map(|number| table.get(number).expect("there").2.packets_in);
    let before = packets(table);
    table.take(&arrived(&octets, now), &mut |_| {}).expect("the other side of 77 does not know yet");
    assert_eq!(packets(table), [before[0] + 1, 0]);
    table.take(&Arrived { source: other, ..arrived(&octets, now) }, &mut |_| {}).expect("for 10");
    assert_eq!(packets(table), [before[0] + 1, 1]);
    assert!(table.remove(10));
    table.take(&arrived(&octets, now), &mut |_| {}).expect("it still leads to 77");
    assert!(table.remove(77) && table.former.is_empty());
}

#[test]
fn former_numbers_are_kept_for_each_session_and_not_without_end() {
    let (mut tables, now) = up();
    let [table, _] = &mut tables;
    let last = 1_000 + MOST_FORMER as u32;
    assert!(table.renumber(10, 1_000));
    for number in 1_000..last {
        assert!(table.renumber(number, number + 1));
    }
    let numbers: BTreeSet<u32> = table.former.keys().copied().collect();
    assert!(numbers.into_iter().eq(1_000..last), "the first one was forgotten");
    assert!(table.former.values().all(|present| *present == last));
    let up = Packet { state: State::Up, multiplier: 3, mine: 20, required_rx: 1, ..Packet::default() };
    let packet = |yours| Packet { yours, ..up }.octets();
    let mut take = |yours| table.take(&arrived(&packet(yours), now), &mut |_| {});
    assert_eq!([take(10), take(1_000)], [Err(Dropped::Unknown), Ok(())]);
    // A former number that is given once more is the present one.
    assert!(table.renumber(last, 1_000));
    assert!(!table.former.contains_key(&1_000));
    table.take(&arrived(&packet(1_000), now), &mut |_| {}).expect("taken");
    assert!(table.former.is_empty(), "the other side has learnt it");
}

#[test]
fn what_is_removed_is_due_no_more() {
    let mut table = Sessions::new(1);
    table.set(&watch(10, path()), 0, &mut |_| {});
    table.set(&watch(11, path()), 0, &mut |_| {});
    assert_eq!((table.len(), table.number_of(&path())), (1, Some(11)), "a path has one session");
    assert!(table.remove(11) && !table.remove(11));
    assert_eq!((table.due(), table.is_empty(), table.queue.len(), table.paths.len()), (None, true, 0, 0));
}

#[test]
fn thousands_of_sessions_are_turned_one_by_one() {
    let mut table = Sessions::new(1);
    for number in 1..=5_000u32 {
        let remote = Ipv4Addr::from_bits(0x0a00_0000 + number).into();
        table.set(&watch(number, Path { remote, ..path() }), 0, &mut |_| {});
    }
    let mut sent = 0;
    table.turn(0, &mut |out| sent += usize::from(matches!(out, Out::Send { .. })));
    assert_eq!(sent, 5_000);
    assert!(table.due().expect("due").checked_sub(700_000).is_some(), "each waits for its own time");
}
