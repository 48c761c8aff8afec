use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use port::{IngressSource, Source, ingress};
use proptest::prelude::*;
use ring::Bytes;

use super::*;

/// A frame of UDP from one of so many ports, with its number at its end.
fn frame(flow: u16, number: u32) -> Vec<u8> {
    let mut octets = vec![0; 64];
    octets[12..15].copy_from_slice(&[8, 0, 0x45]);
    octets[23] = 17;
    octets[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 1, 1]);
    octets[34..36].copy_from_slice(&flow.to_be_bytes());
    octets[36..38].copy_from_slice(&80_u16.to_be_bytes());
    octets[60..].copy_from_slice(&number.to_be_bytes());
    octets
}

/// The frame of the answer.
fn back(flow: u16, number: u32) -> Vec<u8> {
    let mut octets = frame(flow, number);
    octets[26..34].copy_from_slice(&[10, 0, 1, 1, 10, 0, 0, 1]);
    octets[34..36].copy_from_slice(&80_u16.to_be_bytes());
    octets[36..38].copy_from_slice(&flow.to_be_bytes());
    octets
}

fn bucket_of(octets: &[u8]) -> usize {
    steer::bucket(Bytes::from_slice(&mut octets.to_vec()), Hash::Symmetric).into()
}

fn deliver(balancer: &Balancer, mut frames: Vec<Vec<u8>>) {
    let shown: Vec<_> = frames.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    assert_eq!(balancer.deliver(&shown), shown.len());
}

/// A balancer, and the queues of its members.
struct Bench {
    balancer: Balancer,
    queues: BTreeMap<u16, IngressSource>,
}

impl Bench {
    fn new(members: &[u16], queue_len: u32) -> Self {
        let (balancer, mut queues) = (Balancer::new(Hash::Symmetric), BTreeMap::new());
        for &number in members {
            let (sink, source) = ingress(queue_len).expect("a queue");
            assert!(balancer.add(number, &format!("core_{number}"), sink));
            queues.insert(number, source);
        }
        Self { balancer, queues }
    }

    /// Deals the buckets out to these in turn.
    fn spread(&self, members: &[u16]) {
        let owners: Vec<Option<u16>> = members.iter().copied().map(Some).cycle().take(BUCKETS).collect();
        self.balancer.spread(&owners);
    }

    /// Numbers of the frames that came to a member since this was asked last.
    fn came(&mut self, member: u16) -> Vec<u32> {
        let source = self.queues.get_mut(&member).expect("a member");
        let mut numbers = Vec::new();
        let mut take = |frames: &[Frame<'_>]| {
            numbers.extend(frames.iter().filter_map(|frame| frame.octets().read(60).map(u32::from_be_bytes)));
        };
        while source.drain(BURST, &mut take) != 0 {}
        numbers
    }

    fn member(&self, name: &str) -> (u64, u64) {
        let mut found = (0, 0);
        self.balancer.each_member(&mut |known, counters| {
            if known == name {
                found = (counters.out_frames.get(), counters.drop_full.get());
            }
        });
        found
    }

    /// In, out, lost at full queues, lost without a member.
    fn books(&self) -> (u64, u64, u64, u64) {
        let counters = self.balancer.counters();
        let lost = (counters.drop_full.get(), counters.drop_no_member.get());
        (counters.in_frames.get(), counters.out_frames.get(), lost.0, lost.1)
    }
}

#[test]
fn both_directions_of_a_flow_come_to_one_member() {
    let mut bench = Bench::new(&[0, 1, 2], 1000);
    bench.spread(&[0, 1, 2]);
    let flows: Vec<u16> = (1000..1200).collect();
    deliver(&bench.balancer, flows.iter().map(|flow| frame(*flow, u32::from(*flow))).collect());
    deliver(&bench.balancer, flows.iter().map(|flow| back(*flow, u32::from(*flow))).collect());
    let came = [0, 1, 2].map(|member| bench.came(member));
    for numbers in &came {
        let (there, back) = numbers.split_at(numbers.len() / 2);
        assert_eq!(there, back);
        assert!(there.len() > 20, "200 flows on three members: {}", there.len());
    }
    assert_eq!(bench.books(), (400, 400, 0, 0));
    assert_eq!(bench.balancer.loads().iter().sum::<u64>(), 400);
    assert_eq!(bench.balancer.counters().in_bytes.get(), 400 * 64);
}

#[test]
fn what_is_not_ip_is_bucket_0() {
    let mut bench = Bench::new(&[4, 9], 100);
    let mut owners = vec![Some(4); BUCKETS];
    owners[0] = Some(9);
    bench.balancer.spread(&owners);
    let mut arp = frame(1, 77);
    arp[12..14].copy_from_slice(&[8, 6]);
    deliver(&bench.balancer, vec![arp, vec![1; 3]]);
    assert_eq!((bench.came(9), bench.came(4)), (vec![77], vec![]));
    assert_eq!((bench.balancer.loads()[0], bench.member("core_9")), (2, (2, 0)));
}

#[test]
fn what_is_nobodys_is_dropped_under_a_name() {
    let mut bench = Bench::new(&[0], 100);
    deliver(&bench.balancer, vec![frame(1, 1)]);
    assert_eq!(bench.books(), (1, 0, 0, 1), "nothing was spread yet");
    // Half of the buckets, and a number that no member has.
    let owners: Vec<Option<u16>> = (0..128).map(|n| if n % 2 == 0 { Some(0) } else { Some(5) }).collect();
    bench.balancer.spread(&owners);
    let frames: Vec<Vec<u8>> = (0..100).map(|n| frame(n, n.into())).collect();
    let due: Vec<u32> = (0..100)
        .zip(&frames)
        .filter(|(_, octets)| bucket_of(octets) < 128 && bucket_of(octets).is_multiple_of(2))
        .map(|(n, _)| n)
        .collect();
    deliver(&bench.balancer, frames);
    assert!(!due.is_empty());
    assert_eq!(bench.came(0), due);
    assert_eq!(bench.books(), (101, due.len() as u64, 0, 101 - due.len() as u64));
}

#[test]
fn a_full_queue_costs_nobody_else() {
    let mut bench = Bench::new(&[0, 1], 10);
    bench.spread(&[0, 1]);
    deliver(&bench.balancer, (0..500).map(|n| frame(7, n)).collect());
    let owner = bucket_of(&frame(7, 0)) as u16 % 2;
    let other: u16 = (0..).find(|flow| bucket_of(&frame(*flow, 0)) as u16 % 2 != owner).expect("a flow");
    deliver(&bench.balancer, vec![frame(other, 900)]);
    assert_eq!(bench.came(owner), (0..10).collect::<Vec<_>>());
    assert_eq!(bench.came(1 - owner), [900]);
    assert_eq!((bench.books(), bench.member(&format!("core_{owner}"))), ((501, 11, 490, 0), (10, 490)));
}

#[test]
fn frames_are_dealt_out_in_turn() {
    let mut bench = Bench::new(&[3, 5], 1000);
    bench.balancer.spread_in_turn(&[3, 5, 3]);
    deliver(&bench.balancer, (0..99).map(|n| frame(7, n)).collect());
    assert_eq!((bench.came(3).len(), bench.came(5).len()), (66, 33));
    assert_eq!(bench.balancer.counters().out_in_turn.get(), 99);
    bench.balancer.spread_in_turn(&[]);
    deliver(&bench.balancer, vec![frame(7, 0)]);
    assert_eq!(bench.books(), (100, 99, 0, 1));
}

#[test]
fn members_have_numbers_of_their_own() {
    let bench = Bench::new(&[2], 10);
    let (sink, _source) = ingress(10).expect("a queue");
    assert!(!bench.balancer.add(2, "again", sink.clone()), "there is one of this number");
    assert!(!bench.balancer.remove(3) && bench.balancer.remove(2) && !bench.balancer.remove(2));
    for number in 0..MOST_MEMBERS as u16 {
        assert!(bench.balancer.add(number, "one", sink.clone()));
    }
    assert!(!bench.balancer.add(MOST_MEMBERS as u16, "one", sink), "one too many");
    let every: Vec<Option<u16>> = (0..BUCKETS).map(|bucket| Some((bucket % MOST_MEMBERS) as u16)).collect();
    bench.balancer.spread(&every);
    deliver(&bench.balancer, (0..10).map(|n| frame(n, 0)).collect());
    assert_eq!(bench.books(), (10, 10, 0, 0));
}

/// A sink of a member that is gone or not.
struct Touchy(AtomicBool);

impl Sink for Touchy {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        assert!(!self.0.load(Ordering::SeqCst), "somebody delivers to a member that is gone");
        std::thread::yield_now();
        assert!(!self.0.load(Ordering::SeqCst), "it went during a burst");
        frames.len()
    }
}

/// Ends those who wait for it, also where a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn who_is_removed_is_not_touched_any_more() {
    let balancer = Balancer::new(Hash::Symmetric);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = Done(&is_done);
        let send = || {
            while !is_done.load(Ordering::SeqCst) {
                deliver(&balancer, (0..20).map(|n| frame(n, 0)).collect());
                std::thread::yield_now();
            }
        };
        // More threads than lanes.
        let senders: Vec<_> = (0..LANES + 4).map(|_| scope.spawn(send)).collect();
        for number in 0..40 {
            let sink = Arc::new(Touchy(AtomicBool::new(false)));
            assert!(balancer.add(number, "touchy", sink.clone()));
            balancer.spread(&[Some(number); BUCKETS]);
            std::thread::sleep(Duration::from_micros(100));
            assert!(balancer.remove(number));
            sink.0.store(true, Ordering::SeqCst);
        }
        drop(done);
        senders.into_iter().for_each(|sender| sender.join().expect("no sink was touched"));
    });
    let counters = balancer.counters();
    assert_eq!(counters.in_frames.get(), counters.out_frames.get() + counters.drop_no_member.get());
}

#[test]
fn a_table_that_changes_all_the_time_loses_nothing_uncounted() {
    const SENDERS: u32 = 4;
    const EACH: u32 = 4000;
    let mut bench = Bench::new(&[0, 1, 2], 16_000);
    bench.spread(&[0, 1, 2]);
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let balancer = &bench.balancer;
            scope.spawn(move || {
                for first in (0..EACH).step_by(40) {
                    let number = |n| sender * EACH + first + n;
                    deliver(
                        balancer,
                        (0..40).map(|n| frame((sender * 8 + n % 8) as u16, number(n))).collect(),
                    );
                }
            });
        }
        for turn in 0..100 {
            let members = [[0, 1, 2], [2, 2, 1], [1, 0, 0]][turn % 3];
            bench.spread(&members);
            std::thread::yield_now();
        }
    });
    let came = [0, 1, 2].map(|member| bench.came(member));
    let mut all = came.concat();
    all.sort_unstable();
    assert_eq!(all, (0..SENDERS * EACH).collect::<Vec<_>>(), "each frame came once");
    for numbers in came {
        for sender in 0..SENDERS {
            let own = numbers.iter().filter(|number| **number / EACH == sender);
            assert!(own.is_sorted(), "what one thread sends to one member stays in order");
        }
    }
    assert_eq!(bench.books(), (16_000, 16_000, 0, 0));
}

/// What may be asked of a balancer.
#[derive(Clone, Debug)]
enum Act {
    /// These members have the buckets in turn; none: nobody has.
    Spread(Vec<Option<u16>>),
    /// Frames of these flows come.
    Frames(Vec<u16>),
    Add(u16),
    Remove(u16),
    /// A member takes all that waits for it.
    Drain(u16),
}

const MEMBERS: u16 = 5;
const QUEUE: usize = 24;

fn act() -> impl Strategy<Value = Act> {
    let owners = prop::collection::vec(prop::option::weighted(0.8, 0..MEMBERS), 0..BUCKETS + 5);
    prop_oneof![
        2 => owners.prop_map(Act::Spread),
        6 => prop::collection::vec(0..60_u16, 0..150).prop_map(Act::Frames),
        1 => (0..MEMBERS).prop_map(Act::Add),
        1 => (0..MEMBERS).prop_map(Act::Remove),
        2 => (0..MEMBERS).prop_map(Act::Drain),
    ]
}

/// A balancer as naive as can be: a queue for each member, and a frame at a time.
#[derive(Default)]
struct Naive {
    owners: Vec<Option<u16>>,
    queues: BTreeMap<u16, Vec<u32>>,
    full: u64,
    nobodys: u64,
}

impl Naive {
    fn take(&mut self, octets: &[u8], number: u32) {
        let owner = self.owners.get(bucket_of(octets)).copied().flatten();
        match owner.and_then(|owner| self.queues.get_mut(&owner)) {
            None => self.nobodys += 1,
            Some(queue) if queue.len() < QUEUE => queue.push(number),
            Some(_) => self.full += 1,
        }
    }
}

proptest! {
    #[test]
    fn frames_go_where_a_naive_balancer_sends_them(acts in prop::collection::vec(act(), 1..40)) {
        let mut bench = Bench::new(&[], 1);
        let (mut naive, mut number) = (Naive::default(), 0);
        for act in acts {
            match act {
                Act::Spread(owners) => {
                    bench.balancer.spread(&owners);
                    naive.owners = owners;
                }
                Act::Frames(flows) => {
                    let numbered: Vec<(Vec<u8>, u32)> =
                        flows.iter().zip(number..).map(|(flow, number)| (frame(*flow, number), number)).collect();
                    number += flows.len() as u32;
                    numbered.iter().for_each(|(octets, number)| naive.take(octets, *number));
                    deliver(&bench.balancer, numbered.into_iter().map(|(octets, _)| octets).collect());
                }
                Act::Add(member) => {
                    let (sink, source) = ingress(QUEUE as u32).expect("a queue");
                    let is_new = bench.balancer.add(member, &format!("core_{member}"), sink);
                    prop_assert_eq!(is_new, !naive.queues.contains_key(&member));
                    if is_new {
                        bench.queues.insert(member, source);
                        naive.queues.insert(member, Vec::new());
                    }
                }
                Act::Remove(member) => {
                    let was_there = bench.balancer.remove(member);
                    prop_assert_eq!(was_there, naive.queues.remove(&member).is_some());
                    bench.queues.remove(&member);
                }
                Act::Drain(member) => {
                    if let Some(queue) = naive.queues.get_mut(&member) {
                        prop_assert_eq!(bench.came(member), std::mem::take(queue));
                    }
                }
            }
        }
        let (came, out, full, nobodys) = bench.books();
        prop_assert_eq!((full, nobodys), (naive.full, naive.nobodys));
        prop_assert_eq!((came, came), (u64::from(number), out + full + nobodys));
        for (member, queue) in naive.queues {
            prop_assert_eq!(bench.came(member), queue);
        }
    }
}
