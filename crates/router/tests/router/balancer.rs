//! The role balancer: frames go to members as orders say, and come back as the group's.

use frame::order::{CHOICES, LONGEST, NOBODY, Order, TO, Table};
use frame::{Mac, ipv4, udp};
use ledger::BalancerTally;
use router::roles::Balancer;

use crate::world::{Octets, World};

/// The group, at its two links.
const OWN: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
/// What the NICs that lead inside have.
const INNER: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 3]), Mac([2, 0, 0, 0, 0, 4])];
const HOST: Mac = Mac([2, 0, 0, 0, 7, 7]);

fn member(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, number])
}

fn between(to: Mac, from: Mac, flow: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    let header = ipv4::Header { ttl: 64, ..ipv4::Header::new(ipv4::UDP, 0x0a00_0001, 0x0a00_0002, 26) };
    frame::ethernet::Header { destination: to, source: from, ethertype: frame::ethernet::IPV4 }
        .write(&mut frame)
        .unwrap();
    header.write(&mut frame[14..]).unwrap();
    udp::Header { source: 1000 + flow, destination: 9, len: 26, checksum: 0 }
        .write(&mut frame[34..])
        .unwrap();
    frame
}

fn order(generation: u32, number: u32, table: Option<&Table>) -> Vec<u8> {
    let mut octets = [0; LONGEST];
    let len = Order { generation, number, known: 0 }.write(table, &mut octets);
    octets[..len].to_vec()
}

/// Buckets dealt out evenly over so many members.
fn even(members: u8) -> Table {
    let mut table = Table { members: members.into(), ..Table::EMPTY };
    (0..members).for_each(|number| table.stations[usize::from(number)] = member(number));
    (0..CHOICES).for_each(|place| table.choices[place] = place as u8 % members);
    table
}

struct Bench {
    world: World,
    balancer: Balancer<Octets>,
    tally: BalancerTally,
}

impl Bench {
    fn new() -> Self {
        let nics = [OWN[0], OWN[1], INNER[0], INNER[1]];
        Self { world: World::new(4), balancer: Balancer::new(&nics), tally: BalancerTally::default() }
    }

    /// Sends frames into a NIC; what leaves by the other side of the link.
    fn pass(&mut self, nic: usize, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
        self.world.rx[nic].extend(frames);
        while self.balancer.pass(&mut self.world, &self.tally) > 0 {}
        assert_eq!(self.world.out, 0, "it keeps no buffer");
        let sent = self.world.sent((nic + 2) % 4);
        assert!((0..4).all(|other| self.world.sent(other).is_empty()), "nothing leaves elsewhere");
        let tally = &self.tally;
        let counted = [
            &tally.spread,
            &tally.passed,
            &tally.returned,
            &tally.orders,
            &tally.drop_foreign,
            &tally.drop_no_member,
            &tally.drop_stranger,
        ];
        assert_eq!(counted.iter().map(|counter| counter.get()).sum::<u64>(), self.world.received);
        sent
    }
}

#[test]
fn flows_go_to_members_and_come_back_as_the_groups() {
    let mut bench = Bench::new();
    let told = bench.pass(0, [order(5, 1, Some(&even(3)))]);
    assert_eq!(Order::read(&told[0]), Some(Order { generation: 5, number: 1, known: 5 }));
    let sent: Vec<Vec<u8>> = (0..200).map(|flow| between(OWN[0], HOST, flow)).collect();
    let came = bench.pass(0, sent.clone());
    let mut counts = [0; 3];
    for (came, sent) in came.iter().zip(&sent) {
        assert_eq!(came[6..], sent[6..], "nothing but the destination changes");
        let to = (0..3).find(|number| came[..6] == member(*number).0).expect("a member");
        counts[usize::from(to)] += 1;
        // The same flow, again and again, and in the other direction at any link.
        let mut back = sent.clone();
        back[26..30].copy_from_slice(&sent[30..34]);
        back[30..34].copy_from_slice(&sent[26..30]);
        back[34..36].copy_from_slice(&sent[36..38]);
        back[36..38].copy_from_slice(&sent[34..36]);
        assert_eq!(bench.pass(0, [back])[0][..6], member(to).0);
    }
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
    let returned = bench.pass(2, [between(HOST, member(2), 1), between(HOST, INNER[0], 1)]);
    assert_eq!(returned, [between(HOST, OWN[0], 1)], "a stranger's frame goes nowhere");
    assert_eq!(bench.tally.drop_stranger.get(), 1);
    // Each link has a table of its own.
    assert!(bench.pass(1, [between(OWN[1], HOST, 1)]).is_empty());
    assert_eq!(bench.tally.drop_no_member.get(), 1);
}

/// A frame with one tag, or two, between its addresses and the rest.
fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], &tags.concat(), &frame[12..]].concat()
}

#[test]
fn flows_in_a_vlan_are_spread_and_come_back() {
    let mut bench = Bench::new();
    bench.pass(0, [order(5, 1, Some(&even(3)))]);
    let (customer, service) = ([0x81, 0, 0, 100], [0x88, 0xa8, 0x60, 200]);
    for tags in [&[customer][..], &[service, customer]] {
        let mut counts = [0; 3];
        for flow in 0..200 {
            let sent = between(OWN[0], HOST, flow);
            let mut back = sent.clone();
            back[26..30].copy_from_slice(&sent[30..34]);
            back[30..34].copy_from_slice(&sent[26..30]);
            back[34..36].copy_from_slice(&sent[36..38]);
            back[36..38].copy_from_slice(&sent[34..36]);
            let came = bench.pass(0, [tagged(&sent, tags), tagged(&back, tags), sent.clone()]);
            assert_eq!(came[0][6..], tagged(&sent, tags)[6..], "nothing but the destination changes");
            let to = (0..3).find(|number| came[0][..6] == member(*number).0).expect("a member");
            assert!(came.iter().all(|frame| frame[..6] == member(to).0), "the flow's, with tags and without");
            counts[usize::from(to)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
    }
    let returned = bench.pass(2, [tagged(&between(HOST, member(2), 1), &[customer])]);
    assert_eq!(returned, [tagged(&between(HOST, OWN[0], 1), &[customer])]);
    // One that ends within a tag is spread as well.
    assert_eq!(bench.pass(0, [tagged(&between(OWN[0], HOST, 1), &[customer])[..15].to_vec()]).len(), 1);
}

#[test]
fn frames_are_dealt_out_one_by_one_where_an_order_says_so() {
    let mut bench = Bench::new();
    let mut table = Table { in_turn: true, turns: 3, ..even(2) };
    table.choices[..3].copy_from_slice(&[0, 1, 0]);
    bench.pass(2, [order(1, 1, Some(&table))]);
    let came = bench.pass(0, (0..6).map(|_| between(OWN[0], HOST, 1)));
    let to: Vec<u8> = came.iter().map(|frame| frame[5]).collect();
    assert_eq!(to, [0, 1, 0, 0, 1, 0]);
    assert_eq!(bench.tally.spread_in_turn.get(), 6);
}

#[test]
fn a_probe_passes_to_the_member_that_it_is_for_and_nothing_else_does() {
    let mut bench = Bench::new();
    bench.pass(0, [order(1, 1, Some(&even(2)))]);
    let probe = between(member(1), HOST, 1);
    assert_eq!(bench.pass(0, [probe.clone()]), [probe]);
    let foreign = [between(member(2), HOST, 1), between(Mac::BROADCAST, HOST, 1), between(HOST, HOST, 1)];
    assert!(bench.pass(0, foreign).is_empty());
    assert_eq!((bench.tally.passed.get(), bench.tally.drop_foreign.get()), (1, 3));
}

#[test]
fn nobody_outside_speaks_for_a_member() {
    let mut bench = Bench::new();
    bench.pass(0, [order(1, 1, Some(&even(2)))]);
    let forged = [between(OWN[0], member(1), 1), between(member(0), member(1), 1)];
    assert!(bench.pass(0, forged).is_empty(), "what is inside would look for the member here");
    assert_eq!((bench.tally.drop_foreign.get(), bench.tally.spread.get()), (2, 0));
    let others = [between(OWN[0], member(2), 1), between(OWN[0], HOST, 1)];
    assert_eq!(bench.pass(0, others).len(), 2);
}

#[test]
fn a_table_holds_until_another_one_comes_whole() {
    let mut bench = Bench::new();
    bench.pass(0, [order(1, 1, Some(&even(1)))]);
    // The same generation again, one without a table, and one that is cut off.
    let mut cut = order(3, 4, Some(&even(2)));
    cut.truncate(100);
    let told = bench.pass(0, [order(1, 2, Some(&even(2))), order(2, 3, None), cut]);
    let known: Vec<u32> = told.iter().map(|frame| Order::read(frame).expect("an order").known).collect();
    assert_eq!(known, [1, 1, 1]);
    assert_eq!(bench.pass(0, [between(OWN[0], HOST, 1)])[0][..6], member(0).0);
    let nobody = Table { choices: [NOBODY; CHOICES], ..even(2) };
    bench.pass(0, [order(9, 5, Some(&nobody))]);
    assert!(bench.pass(0, [between(OWN[0], HOST, 1)]).is_empty());
    assert_eq!(bench.tally.tables.get(), 2);
    // A choice of a member that there is not.
    let wrong = Table { choices: [64; CHOICES], ..even(2) };
    bench.pass(0, [order(10, 6, Some(&wrong))]);
    assert!(bench.pass(0, [between(OWN[0], HOST, 1)]).is_empty());
}

#[test]
fn whatever_frames_come_each_is_counted_once() {
    let mut bench = Bench::new();
    bench.pass(0, [order(1, 1, Some(&even(2)))]);
    let mut noise = 1_u32;
    for round in 0..200 {
        let from = if round % 4 < 2 { HOST } else { member(1) };
        let mut frame = between(OWN[round % 2], from, 1);
        for octet in &mut frame {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if noise >> 24 < 40 {
                *octet = (noise >> 16) as u8;
            }
        }
        frame[..6].copy_from_slice(if round % 5 == 0 { &TO.0 } else { &OWN[round % 2].0 });
        bench.pass(round % 4, [frame]);
    }
}
