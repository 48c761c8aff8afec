extern crate std;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

use proptest::prelude::*;
use router::{NextHop, Refusal, Routes6};

use super::layout::{BUCKETS, HOP_WORDS, Header, Memory, NEXT_HOPS, NODE, ROOT};
use super::{Rib, Table, synthetic};
use crate::synthetic::Random;
use crate::{Error, OFFLINE, Way};

/// Creates a table in ordinary memory, leaked because tests are few.
pub(crate) fn memory(nodes: usize, ranges: usize) -> Memory<'static> {
    let words = |n: usize| &*Vec::leak((0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    Memory {
        header: Box::leak(Box::new(Header::default())),
        next_hops: words(HOP_WORDS * NEXT_HOPS).try_into().unwrap(),
        buckets: words(BUCKETS).try_into().unwrap(),
        root: words(ROOT).try_into().unwrap(),
        nodes: words(nodes * NODE),
        ranges: words(ranges),
    }
}

fn via(gateway: u32) -> NextHop {
    NextHop::Gateway6 { nic: 1, gateway: 0xfe80 << 112 | u128::from(gateway) }
}

fn lookup(table: &Table<'_>, ip: u128) -> NextHop {
    table.next_hop(table.lookup(ip))
}

fn mask(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - u32::from(len)) }
}

/// Longest prefix match by a scan of all routes.
fn longest(routes: &[(u128, u8, u32)], ip: u128) -> Option<(u128, u8, u32)> {
    let covering = routes.iter().copied().filter(|(prefix, len, _)| (ip ^ prefix) & mask(*len) == 0);
    covering.max_by_key(|(_, len, _)| *len)
}

/// Next hop by the longest prefix match.
fn naive(routes: &[(u128, u8, u32)], ip: u128) -> NextHop {
    longest(routes, ip).map_or(NextHop::None, |(_, _, gateway)| via(gateway))
}

/// The first and the last addresses of a route, and those beside them.
fn borders(prefix: u128, len: u8) -> [u128; 4] {
    let last = prefix | !mask(len);
    [prefix, prefix.wrapping_sub(1), last, last.wrapping_add(1)]
}

const NET: u128 = 0x2001_0db8 << 96;

#[test]
fn the_longest_prefix_wins_and_the_cover_comes_back() {
    let memory = memory(16, 1000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    assert_eq!(lookup(&table, NET), NextHop::None);
    let host = NET | 7;
    let routes = [(0, 0), (0x2000 << 112, 3), (NET, 32), (NET, 48), (NET, 64), (NET, 96), (host, 128)];
    for (n, (prefix, len)) in (1..).zip(routes) {
        rib.add(prefix, len, via(n)).unwrap();
        assert_eq!(lookup(&table, host), via(n), "/{len}");
    }
    assert_eq!(lookup(&table, host + 1), via(6));
    assert_eq!(lookup(&table, NET | 1 << 40), via(5));
    assert_eq!(lookup(&table, NET | 1 << 70), via(4));
    assert_eq!(lookup(&table, NET | 1 << 90), via(3));
    assert_eq!(lookup(&table, NET + (1 << 96)), via(2));
    assert_eq!(lookup(&table, 1), via(1));
    for n in (1..routes.len()).rev() {
        rib.remove(routes[n].0, routes[n].1).unwrap();
        assert_eq!(lookup(&table, host), via(n as u32), "without {:?}", routes[n]);
    }
    rib.remove(0, 0).unwrap();
    assert_eq!(lookup(&table, host), NextHop::None);
    assert!(rib.is_empty());
}

#[test]
fn each_next_hop_comes_back() {
    let memory = memory(16, 1000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let hops = [
        NextHop::None,
        NextHop::Local,
        NextHop::Connected { nic: 7 },
        NextHop::Gateway { nic: 9, gateway: 0xffff_fffe },
        NextHop::Gateway6 { nic: 255, gateway: u128::MAX - 1 },
        NextHop::Refused(Refusal::Silent),
        NextHop::Refused(Refusal::Unreachable),
        NextHop::Refused(Refusal::Prohibited),
    ];
    for (n, hop) in (0..).zip(hops) {
        rib.add(NET | n << 88, 40, hop).unwrap();
        assert_eq!(lookup(&table, NET | n << 88 | 5), hop);
    }
}

#[test]
fn routes_may_have_several_next_hops() {
    let memory = memory(16, 1000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let ways = [1, 2, 3].map(|gateway| Way { next_hop: via(gateway), weight: 1 });
    rib.add_ways(NET, 32, &ways[..2]).unwrap();
    assert_eq!(lookup(&table, NET | 5), NextHop::Group);
    let chosen = |ip: u128| {
        let group = table.lookup(ip);
        (0..64_u32).map(|hash| table.next_hop(table.member(group, hash << 26))).collect::<Vec<_>>()
    };
    let before = chosen(NET | 5);
    assert_eq!(before.iter().filter(|hop| **hop == via(1)).count(), 32);
    // A third one takes a third of the flows, and all others stay.
    rib.add_ways(NET, 32, &ways).unwrap();
    let moved = before.iter().zip(chosen(NET | 5)).filter(|(old, new)| *old != new).count();
    assert!((21..=22).contains(&moved), "{moved}");
    assert_eq!(rib.set_down(|_, hop| hop == via(2)), 1);
    assert!(chosen(NET | 5).iter().all(|hop| *hop == via(1) || *hop == via(3)));
    assert_eq!(rib.add_ways(NET, 32, &[]), Err(Error::Ways));
    rib.remove(NET, 32).unwrap();
    for _ in 0..2 {
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    assert_eq!(rib.retired(), 0);
}

#[test]
fn what_cannot_be_leaves_the_table_as_it_was() {
    let memory = memory(0, 8);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    assert_eq!(rib.add(NET | 1, 32, via(1)), Err(Error::Prefix));
    assert_eq!(rib.add(NET, 129, via(1)), Err(Error::Prefix));
    assert_eq!(rib.remove(NET, 32), Err(Error::Absent));
    // Needs a node.
    assert_eq!(rib.add(NET, 64, via(1)), Err(Error::Nodes));
    rib.add(NET, 32, via(2)).unwrap();
    assert_eq!(rib.add(NET + (4 << 96), 32, via(3)), Err(Error::Nodes));
    assert_eq!((lookup(&table, NET), lookup(&table, NET + (4 << 96)), rib.len()), (via(2), NextHop::None, 1));
    assert_eq!(rib.retired(), 2, "the next hops of the refused routes");
    let epoch = rib.publish();
    rib.reclaim(epoch);
    assert_eq!(rib.retired(), 0);
}

#[test]
fn lists_become_nodes_and_nodes_lists() {
    let memory = memory(64, 10_000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let part = |n: u32| NET | u128::from(n) << 80;
    for n in 0..1000 {
        rib.add(part(n), 48, via(n % 7 + 1)).unwrap();
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    assert!((0..1000).all(|n| lookup(&table, part(n) | 99) == via(n % 7 + 1)));
    let (nodes, _) = rib.used();
    assert!((2..=20).contains(&nodes), "{nodes}");
    for n in 0..999 {
        rib.remove(part(n), 48).unwrap();
        let epoch = rib.publish();
        rib.reclaim(epoch);
        assert_eq!(lookup(&table, part(n)), NextHop::None);
        assert_eq!(lookup(&table, part(999)), via(999 % 7 + 1));
    }
    rib.remove(part(999), 48).unwrap();
    let epoch = rib.publish();
    rib.reclaim(epoch);
    assert!(memory.root.iter().chain(memory.nodes).all(|word| word.load(Relaxed) == 0));
    // All that was used can be used again.
    let used = rib.used();
    for n in 0..1000 {
        rib.add(part(n), 48, via(n % 7 + 1)).unwrap();
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    assert_eq!(rib.used(), used);
}

#[test]
fn a_list_is_used_again_only_after_its_readers_have_left() {
    let memory = memory(16, 1000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(NET, 40, via(1)).unwrap();
    let stuck = rib.publish();
    // The reader stays between the steps of a lookup.
    let step = table.first(NET | 5);
    for round in 0..200_u32 {
        rib.add(NET + (1 << 88), 40, via(round % 5 + 2)).unwrap();
        rib.publish();
        rib.reclaim_for([stuck, rib.epoch()]);
        assert_eq!(table.next_hop(table.found(step)), via(1));
    }
    rib.reclaim_for([OFFLINE, rib.epoch()]);
    assert_eq!(rib.retired(), 0);
}

#[test]
fn many_synthetic_routes_are_found() {
    let count = if cfg!(debug_assertions) { 10_000 } else { 250_000 };
    let prefixes = synthetic::prefixes(count, 1);
    assert_eq!(prefixes.len(), count);
    assert!(prefixes.is_sorted());
    let memory = memory(count / 4 + 4096, 8 * count + 65_536);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = Random::new(3);
    (1..count).rev().for_each(|i| order.swap(i, random.below(i as u32 + 1) as usize));
    for i in order {
        rib.add(prefixes[i].prefix, prefixes[i].len, via(i as u32 % 200 + 1)).unwrap();
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    for p in prefixes.iter().step_by(97) {
        let mut best = NextHop::None;
        for len in 0..=128u8 {
            let key = synthetic::Prefix { prefix: p.prefix & mask(len), len };
            if let Ok(at) = prefixes.binary_search(&key) {
                best = via(at as u32 % 200 + 1);
            }
        }
        assert_eq!(lookup(&table, p.prefix), best, "{p:x?}");
    }
    let (nodes, words) = rib.used();
    std::println!("{count} routes: {nodes} nodes, {} KiB of lists", words * 8 / 1024);
    let destinations = synthetic::destinations(&prefixes, 65_536.min(count), 2);
    assert!(destinations.iter().all(|ip| lookup(&table, *ip) != NextHop::None));
}

fn prefix() -> impl Strategy<Value = (u128, u8)> {
    // Few networks, so that prefixes overlap.
    let lens = [0u8, 3, 12, 16, 17, 20, 24, 29, 32, 36, 40, 44, 47, 48, 52, 56, 63, 64, 65, 80, 96, 127, 128];
    let address = (0u128..3, 0u128..4, any::<u16>(), 0u128..3, 0u128..3)
        .prop_map(|(a, b, c, d, e)| NET | a << 104 | b << 92 | u128::from(c) << 80 | d << 64 | e);
    (address, prop::sample::select(lens.to_vec())).prop_map(|(address, len)| (address & mask(len), len))
}

/// Prefix, next hop, and whether the route is added rather than removed.
type Step = ((u128, u8), u32, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((prefix(), 1u32..6, prop::bool::weighted(0.7)), 1..200)
}

fn probes() -> impl Strategy<Value = Vec<u128>> {
    prop::collection::vec(any::<u128>(), 20)
}

/// Adds and removes routes, and compares lookups with those of a naive table.
fn agrees(steps: Vec<Step>, probes: &[u128]) -> Result<(), TestCaseError> {
    let memory = memory(2000, 20_000);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let mut routes: Vec<(u128, u8, u32)> = Vec::new();
    for (n, ((prefix, len), gateway, add)) in steps.into_iter().enumerate() {
        let known = routes.iter().position(|r| (r.0, r.1) == (prefix, len));
        if let Some(at) = known {
            routes.swap_remove(at);
        }
        if add {
            rib.add(prefix, len, via(gateway)).unwrap();
            routes.push((prefix, len, gateway));
        } else {
            prop_assert_eq!(rib.remove(prefix, len).is_ok(), known.is_some());
        }
        let epoch = rib.publish();
        rib.reclaim(epoch);
        prop_assert_eq!(rib.len(), routes.len());
        // The change itself, at once; everything now and then.
        let near = borders(prefix, len);
        let all: Vec<u128> = routes.iter().flat_map(|(prefix, len, _)| borders(*prefix, *len)).collect();
        for ip in near.iter().chain(if n % 16 == 0 { &all[..] } else { &[] }) {
            prop_assert_eq!(lookup(&table, *ip), naive(&routes, *ip), "{:#x}", ip);
        }
    }
    let all = routes.iter().flat_map(|(prefix, len, _)| borders(*prefix, *len));
    for ip in all.chain(probes.iter().copied()).chain(probes.iter().map(|ip| NET | ip >> 24)) {
        prop_assert_eq!(lookup(&table, ip), naive(&routes, ip), "{:#x}", ip);
        let route = longest(&routes, ip).map(|(prefix, len, _)| (prefix, len));
        prop_assert_eq!(rib.route_of(ip), route, "{:#x}", ip);
    }
    for (prefix, len, _) in routes {
        rib.remove(prefix, len).unwrap();
    }
    let epoch = rib.publish();
    rib.reclaim(epoch);
    prop_assert!(memory.root.iter().chain(memory.nodes).all(|word| word.load(Relaxed) == 0));
    prop_assert_eq!((memory.header.default_route.load(Relaxed), rib.retired()), (0, 0));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn agrees_with_a_naive_longest_prefix_match(steps in steps(), probes in probes()) {
        agrees(steps, &probes)?;
    }
}

mod all {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_a_naive_longest_prefix_match_in_many_cases(steps in steps(), probes in probes()) {
            agrees(steps, &probes)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The list of intervals says the same as the routes.
    #[test]
    fn intervals_agree(routes in prop::collection::btree_map((0u128..64, 0u8..=8), 1u32..4, 0..20)) {
        let mask = |len: u8| 255u128 << (8 - len) & 255;
        let routes: alloc::collections::BTreeMap<(u128, u8), u32> =
            routes.into_iter().map(|((at, len), hop)| (((at * 4) & mask(len), len), hop)).collect();
        let spans = routes.iter().map(|((at, len), hop)| (*at, at | !mask(*len) & 255, *hop));
        let found = super::list::intervals((0, 255), 9, spans);
        prop_assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        for ip in 0..256u128 {
            let covering = routes.iter().filter(|((at, len), _)| (ip ^ at) & mask(*len) == 0);
            let expected = covering.max_by_key(|((_, len), _)| *len).map_or(9, |(_, hop)| *hop);
            let at = found.partition_point(|(start, _)| *start <= ip);
            prop_assert_eq!(found[at - 1].1, expected);
        }
    }
}

/// A reader looks up addresses of routes that come and go, while a little memory serves all of them.
#[test]
fn readers_that_come_and_go_never_see_a_foreign_route() {
    const NETS: u32 = 16;
    let memory = memory(40, 400);
    let mut rib = Rib::new(memory);
    rib.publish();
    let net = |n: u32| NET | u128::from(n) << 84;
    let words = [const { AtomicU32::new(OFFLINE) }; 2];
    let stop = AtomicBool::new(false);
    let (mut updates, mut lookups) = (0u64, 0u64);
    std::thread::scope(|scope| {
        let (stop, words) = (&stop, &words);
        let readers = [true, false].map(|naps| {
            scope.spawn(move || {
                let (table, word, mut lookups) = (Table::new(memory), &words[usize::from(naps)], 0u64);
                while !stop.load(Relaxed) {
                    word.store(table.epoch(), Relaxed);
                    fence(SeqCst);
                    for n in (0..NETS).cycle().take(1000) {
                        let found = lookup(&table, net(n) | 1);
                        assert!(found == via(n + 1) || found == NextHop::None, "{n}: {found:?}");
                        lookups += 1;
                        word.store(table.epoch(), Release);
                    }
                    if naps {
                        word.store(OFFLINE, Release);
                        std::thread::yield_now();
                    }
                }
                word.store(OFFLINE, Release);
                lookups
            })
        });
        let start = std::time::Instant::now();
        let mut random = Random::new(8);
        let goes_on = |updates| start.elapsed().as_secs() < if updates > 1000 { 1 } else { 30 };
        while goes_on(updates) && !readers.iter().any(|reader| reader.is_finished()) {
            let n = random.below(NETS);
            let len = if random.below(3) == 0 { 64 } else { 44 };
            match rib.add(net(n), len, via(n + 1)) {
                Ok(()) => {
                    rib.publish();
                    updates += u64::from(rib.remove(net(n), len).is_ok());
                }
                Err(error) => assert_eq!(error, Error::Waiting),
            }
            rib.publish();
            rib.reclaim_for(words.iter().map(|word| word.load(Acquire)));
        }
        stop.store(true, Relaxed);
        lookups = readers.into_iter().map(|reader| reader.join().expect("a reader")).sum();
    });
    assert!(updates > 1000 && lookups > 10_000, "{updates} updates, {lookups} lookups");
}
