extern crate std;

mod storm;
mod walk;
mod ways;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::LazyLock;

use proptest::prelude::*;
use router::{NextHop, Routes};

use crate::layout::{BUCKETS, GATEWAYS6, GROUP, Header, Memory, NEXT_HOPS, TBL24};
use crate::{Error, Rib, Table, synthetic};

/// Creates a table in ordinary memory, leaked because tests are few.
fn memory(groups: usize) -> Memory<'static> {
    let words = |n: usize| Vec::leak((0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let long = |n: usize| &*Vec::leak((0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    Memory {
        header: Box::leak(Box::new(Header::default())),
        next_hops: long(NEXT_HOPS).try_into().unwrap(),
        buckets: long(BUCKETS).try_into().unwrap(),
        tbl24: (&*words(TBL24)).try_into().unwrap(),
        tbl8: words(groups * GROUP),
    }
}

fn via(gateway: u32) -> NextHop {
    NextHop::Gateway { nic: 1, gateway }
}

/// Returns a next hop whose gateway has an IPv6 address.
fn via6(gateway: u32) -> NextHop {
    NextHop::Gateway6 { nic: 1, gateway: 0xfe80 << 112 | u128::from(gateway) }
}

fn lookup(table: &Table<'_>, ip: u32) -> NextHop {
    table.next_hop(table.lookup(ip))
}

/// Longest prefix match by a scan of all routes.
fn longest(routes: &[(u32, u8, u32)], ip: u32) -> Option<(u32, u8, u32)> {
    let covers = |prefix: u32, len: u8| len == 0 || (ip ^ prefix) >> (32 - u32::from(len)) == 0;
    let covering = routes.iter().copied().filter(|(prefix, len, _)| covers(*prefix, *len));
    covering.max_by_key(|(_, len, _)| *len)
}

/// Next hop by the longest prefix match.
fn naive(routes: &[(u32, u8, u32)], ip: u32) -> NextHop {
    longest(routes, ip).map_or(NextHop::None, |(_, _, gateway)| via(gateway))
}

#[test]
fn the_longest_prefix_wins_and_the_cover_comes_back() {
    let memory = memory(4);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    assert_eq!(lookup(&table, 0x0a00_0001), NextHop::None);
    rib.add(0, 0, via(1)).unwrap();
    rib.add(0x0a00_0000, 8, via(2)).unwrap();
    rib.add(0x0a00_0000, 24, via(3)).unwrap();
    rib.add(0x0a00_0080, 25, via(4)).unwrap();
    rib.add(0x0a00_0081, 32, NextHop::Local).unwrap();
    let expected =
        [(0x0b00_0000, via(1)), (0x0a01_0000, via(2)), (0x0a00_0001, via(3)), (0x0a00_0080, via(4))];
    for (ip, next_hop) in expected {
        assert_eq!(lookup(&table, ip), next_hop, "{ip:#x}");
    }
    assert_eq!(lookup(&table, 0x0a00_0081), NextHop::Local);
    rib.remove(0x0a00_0081, 32).unwrap();
    assert_eq!(lookup(&table, 0x0a00_0081), via(4));
    rib.remove(0x0a00_0000, 24).unwrap();
    assert_eq!(lookup(&table, 0x0a00_0001), via(2));
    rib.remove(0x0a00_0080, 25).unwrap();
    rib.remove(0x0a00_0000, 8).unwrap();
    assert_eq!(lookup(&table, 0x0a00_0081), via(1));
    rib.remove(0, 0).unwrap();
    assert_eq!(lookup(&table, 0x0a00_0081), NextHop::None);
    assert!(rib.is_empty());
}

#[test]
fn half_of_all_addresses_can_be_one_route() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(0x8000_0000, 1, via(1)).unwrap();
    rib.add(0xffff_ffff, 32, via(2)).unwrap();
    let expected =
        [(0x7fff_ffff, NextHop::None), (0x8000_0000, via(1)), (0xffff_fffe, via(1)), (0xffff_ffff, via(2))];
    for (ip, next_hop) in expected {
        assert_eq!(lookup(&table, ip), next_hop, "{ip:#x}");
    }
    rib.remove(0x8000_0000, 1).unwrap();
    assert_eq!((lookup(&table, 0x8000_0000), lookup(&table, 0xffff_ffff)), (NextHop::None, via(2)));
}

#[test]
fn what_cannot_be_leaves_the_table_as_it_was() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    assert_eq!(rib.add(0x0a00_0001, 24, via(1)), Err(Error::Prefix));
    assert_eq!(rib.add(0x0a00_0000, 33, via(1)), Err(Error::Prefix));
    assert_eq!(rib.remove(0x0a00_0000, 8), Err(Error::Absent));
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    assert_eq!(rib.add(0x0b00_0000, 25, via(2)), Err(Error::Groups));
    assert_eq!(lookup(&table, 0x0b00_0001), NextHop::None);
    assert_eq!(lookup(&table, 0x0a00_0001), via(1));
    assert_eq!(rib.len(), 1);
}

#[test]
fn groups_and_next_hops_are_used_again_only_after_their_readers_have_left() {
    let memory = memory(1);
    let mut rib = Rib::new(memory);
    rib.add(0x0a00_0000, 25, via(1)).unwrap();
    rib.remove(0x0a00_0000, 25).unwrap();
    assert_eq!(rib.add(0x0b00_0000, 25, via(2)), Err(Error::Waiting));
    let epoch = rib.publish();
    rib.reclaim(epoch - 1);
    assert_eq!(rib.add(0x0b00_0000, 25, via(2)), Err(Error::Waiting));
    rib.reclaim(epoch);
    rib.add(0x0b00_0000, 25, via(2)).unwrap();
    assert_eq!(lookup(&Table::new(memory), 0x0b00_0001), via(2));
    assert_eq!(lookup(&Table::new(memory), 0x0b00_0081), NextHop::None);
}

#[test]
fn one_next_hop_too_many_is_refused_and_a_number_is_used_again_after_its_readers_have_left() {
    let memory = memory(0);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let most = NEXT_HOPS as u32 - 1;
    for i in 0..most {
        rib.add(i << 8, 24, via(i)).unwrap();
    }
    assert_eq!(rib.add(most << 8, 24, via(most)), Err(Error::NextHops));
    assert_eq!(lookup(&table, most << 8), NextHop::None);
    rib.add(most << 8, 24, via(5)).expect("known next hops still go");
    rib.add(0, 24, via(6)).unwrap();
    assert_eq!(rib.add(0, 24, via(most)), Err(Error::Waiting), "the number may still be read");
    assert_eq!(lookup(&table, 0), via(6));
    let epoch = rib.publish();
    rib.reclaim(epoch);
    rib.add(0, 24, via(most)).unwrap();
    for (ip, next_hop) in [(0, via(most)), (5 << 8, via(5)), (most << 8, via(5)), (7 << 8, via(7))] {
        assert_eq!(lookup(&table, ip), next_hop);
    }
}

#[test]
fn the_place_of_an_ipv6_gateway_is_used_again_after_its_readers_have_left() {
    let memory = memory(0);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let most = GATEWAYS6 as u32;
    for i in 0..most {
        rib.add(i << 8, 24, via6(i)).unwrap();
    }
    assert_eq!(rib.add(most << 8, 24, via6(most)), Err(Error::NextHops));
    rib.add(0, 24, via6(1)).unwrap();
    assert_eq!(rib.add(most << 8, 24, via6(most)), Err(Error::Waiting), "the address may still be read");
    let epoch = rib.publish();
    rib.reclaim(epoch);
    rib.add(most << 8, 24, via6(most)).unwrap();
    assert_eq!(lookup(&table, 0), via6(1));
    for i in 1..=most {
        assert_eq!(lookup(&table, i << 8), via6(i), "{i}");
    }
}

#[test]
fn a_gateway_whose_ipv6_address_changes_forever_never_fills_the_table() {
    let memory = memory(0);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add(0x0b00_0000, 24, via6(u32::MAX)).unwrap();
    for change in 0..5 * GATEWAYS6 as u32 {
        rib.add(0x0a00_0000, 24, via6(change)).unwrap();
        assert_eq!(lookup(&table, 0x0a00_0001), via6(change));
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    assert_eq!(lookup(&table, 0x0b00_0001), via6(u32::MAX), "what is in use stays");
}

#[test]
fn every_address_of_a_small_network_is_right_after_every_change() {
    const NET: u32 = 0xc633_6400;
    let memory = memory(8);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let mut random = synthetic::Random::new(4);
    let mut routes: Vec<(u32, u8, u32)> = Vec::new();
    for step in 0..400 {
        let len = [0, 8, 21, 22, 23, 24, 25, 26, 29, 30, 31, 32][random.below(12) as usize];
        let mask = if len == 0 { 0 } else { u32::MAX << (32 - u32::from(len)) };
        let prefix = (NET + random.below(1024)) & mask;
        let known = routes.iter().position(|r| (r.0, r.1) == (prefix, len));
        if random.below(3) > 0 {
            rib.add(prefix, len, via(step)).unwrap();
            known.map(|at| routes.swap_remove(at));
            routes.push((prefix, len, step));
        } else if let Some((prefix, len, _)) =
            (!routes.is_empty()).then(|| routes.swap_remove(random.below(routes.len() as u32) as usize))
        {
            rib.remove(prefix, len).unwrap();
        }
        let epoch = rib.publish();
        rib.reclaim(epoch);
        for ip in NET - 2..NET + 1026 {
            assert_eq!(lookup(&table, ip), naive(&routes, ip), "{ip:#x} after step {step}");
        }
    }
    for (prefix, len, _) in routes {
        rib.remove(prefix, len).unwrap();
    }
    let epoch = rib.publish();
    rib.reclaim(epoch);
    for group in 0..8 {
        rib.add(group << 8, 32, via(1)).expect("every group came back");
    }
}

#[test]
fn a_reader_sees_the_old_or_the_new_route_while_the_writer_changes_them() {
    a_reader_beside_a_writer(400);
}

mod all {
    use super::*;

    #[test]
    fn a_reader_sees_the_old_or_the_new_route_while_the_writer_changes_them_thousands_of_times() {
        a_reader_beside_a_writer(4000);
    }
}

fn a_reader_beside_a_writer(rounds: usize) {
    // A group for each round: none is reused while the reader reads it.
    let memory = memory(rounds);
    let mut rib = Rib::new(memory);
    rib.add(0x0a00_0000, 16, via(1)).unwrap();
    let (seen, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let table = Table::new(memory);
            while !stop.load(Relaxed) {
                for ip in [0x0a00_0001, 0x0a00_00c1, 0x0a00_0101] {
                    let found = lookup(&table, ip);
                    assert!(found == via(1) || found == via(2) || found == via(3), "{found:?}");
                }
                seen.fetch_add(1, Relaxed);
            }
        });
        for _ in 0..rounds {
            let before = seen.load(Relaxed);
            rib.add(0x0a00_00c0, 26, via(2)).unwrap();
            rib.add(0x0a00_0000, 23, via(3)).unwrap();
            rib.remove(0x0a00_00c0, 26).unwrap();
            rib.remove(0x0a00_0000, 23).unwrap();
            rib.publish();
            while seen.load(Relaxed) == before && !reader.is_finished() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn many_synthetic_routes_are_found() {
    let count = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let prefixes = synthetic::prefixes(count, 1);
    assert_eq!(prefixes.len(), count);
    let long = prefixes.iter().filter(|p| p.len > 24).count();
    assert!(long * 10 >= count, "{long} of {count} are longer than /24");
    let memory = memory(long);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    for (i, p) in (0..).zip(&prefixes) {
        rib.add(p.prefix, p.len, via(i % 200 + 1)).unwrap();
    }
    for p in prefixes.iter().step_by(97) {
        let mut best = NextHop::None;
        for len in 1..=32u8 {
            let key = synthetic::Prefix { prefix: p.prefix & u32::MAX << (32 - u32::from(len)), len };
            if let Ok(at) = prefixes.binary_search(&key) {
                best = via(at as u32 % 200 + 1);
            }
        }
        assert_eq!(lookup(&table, p.prefix), best);
    }
    let destinations = synthetic::destinations(&prefixes, 65_536.min(count), 2);
    assert!(destinations.iter().all(|ip| lookup(&table, *ip) != NextHop::None));
}

fn prefix() -> impl Strategy<Value = (u32, u8)> {
    // Few networks, so that prefixes overlap.
    (0u32..4, any::<u16>(), prop::sample::select(alloc::vec![0u8, 6, 8, 15, 16, 20, 23, 24, 25, 28, 31, 32]))
        .prop_map(|(net, host, len)| {
            let address = 0x0a00_0000 | net << 16 | u32::from(host);
            (if len == 0 { 0 } else { address & u32::MAX << (32 - u32::from(len)) }, len)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn agrees_with_a_naive_longest_prefix_match(
        steps in prop::collection::vec((prefix(), 1u32..6, any::<bool>()), 1..120),
        probes in prop::collection::vec(any::<u32>(), 40),
    ) {
        // One table for all cases: each must leave it empty again.
        static TABLE: LazyLock<Memory<'static>> = LazyLock::new(|| memory(128));
        let memory = *TABLE;
        let (mut rib, table) = (Rib::new(memory), Table::new(memory));
        let mut routes: Vec<(u32, u8, u32)> = Vec::new();
        for ((prefix, len), gateway, add) in steps {
            let known = routes.iter().position(|r| (r.0, r.1) == (prefix, len));
            if add {
                rib.add(prefix, len, via(gateway)).unwrap();
                known.map(|at| routes.swap_remove(at));
                routes.push((prefix, len, gateway));
            } else {
                prop_assert_eq!(rib.remove(prefix, len).is_ok(), known.is_some());
                known.map(|at| routes.swap_remove(at));
            }
            let epoch = rib.publish();
            rib.reclaim(epoch);
            prop_assert_eq!(rib.len(), routes.len());
        }
        let borders = routes.iter().flat_map(|(prefix, len, _)| {
            let last = prefix | !(if *len == 0 { 0 } else { u32::MAX << (32 - u32::from(*len)) });
            [*prefix, prefix.wrapping_sub(1), last, last.wrapping_add(1)]
        });
        for ip in borders.chain(probes.iter().map(|p| 0x0a00_0000 | p & 0x0003_ffff)).chain(probes.iter().copied()) {
            prop_assert_eq!(lookup(&table, ip), naive(&routes, ip), "{:#x}", ip);
            let route = longest(&routes, ip).map(|(prefix, len, _)| (prefix, len));
            prop_assert_eq!(rib.route_of(ip), route, "{:#x}", ip);
        }
        for (prefix, len, _) in routes {
            rib.remove(prefix, len).unwrap();
        }
        let epoch = rib.publish();
        rib.reclaim(epoch);
        // All prefixes lie in 8.0.0.0/6.
        let touched = &memory.tbl24[0x08_0000..0x0c_0000];
        prop_assert!(touched.iter().chain(memory.tbl8).all(|word| word.load(Relaxed) == 0));
        prop_assert_eq!(memory.header.default_route.load(Relaxed), 0);
    }
}
