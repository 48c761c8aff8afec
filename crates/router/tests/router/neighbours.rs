//! The neighbour table that vCPUs share: capacity, replacement, and readers concurrent with writers.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use frame::Mac;
use router::neighbours::{Ageing, REACHABLE, State};
use router::{Ip, Neighbour};

use crate::world::{sized_table, table};

fn mac(n: u32) -> Mac {
    let [a, b, c, d] = n.to_be_bytes();
    Mac([2, a, b, c, d, a ^ b ^ c ^ d])
}

fn neighbour(ip: u32, tag: u32) -> Neighbour {
    Neighbour { nic: 1, ip: Ip::v4(ip), mac: mac(tag) }
}

#[test]
fn a_neighbour_is_found_behind_its_nic_only() {
    let table = table();
    assert!(table.add_static(neighbour(7, 1)));
    assert!(table.add_static(Neighbour { nic: 2, ..neighbour(7, 2) }));
    assert_eq!((table.find(1, 7_u32), table.find(2, 7_u32)), (Some(mac(1)), Some(mac(2))));
    assert_eq!((table.find(0, 7_u32), table.find(1, 8_u32)), (None, None));
}

#[test]
fn address_zero_is_not_an_empty_slot() {
    let table = table();
    assert_eq!(table.find(0, 0_u32), None);
}

#[test]
fn only_a_change_moves_the_generation_and_only_news_the_arrivals() {
    let table = table();
    let counts = || (table.generation(), table.arrivals());
    let (generation, arrivals) = counts();
    table.learn(neighbour(7, 1), false, 0);
    assert_eq!((counts(), table.find(1, 7_u32)), ((generation, arrivals), None));
    table.learn(neighbour(7, 1), true, 0);
    assert_eq!(counts(), (generation, arrivals + 1));
    table.learn(neighbour(7, 1), true, 5);
    assert_eq!(counts(), (generation, arrivals + 1));
    table.learn(neighbour(7, 2), false, 9);
    assert_eq!((counts(), table.find(1, 7_u32)), ((generation + 1, arrivals + 1), Some(mac(2))));
}

#[test]
fn many_are_learned_and_the_oldest_make_room_but_never_static_ones() {
    let table = table();
    for ip in 0..256_u32 {
        assert!(table.add_static(neighbour(ip, ip)), "static neighbour {ip}");
    }
    for ip in 256..20_000_u32 {
        table.learn(neighbour(ip, ip), true, u64::from(ip));
        assert_eq!(table.find(1, ip), Some(mac(ip)));
    }
    assert!((0..256_u32).all(|ip| table.find(1, ip) == Some(mac(ip))));
    let kept = (256..20_000_u32).filter(|&ip| table.find(1, ip).is_some()).count();
    assert_eq!(kept, 1024 - 256);
    // The newest neighbours are among those kept.
    assert!((19_900..20_000_u32).all(|ip| table.find(1, ip).is_some()));
    // After a while all have reached that age, and are probed, some at a time.
    let (mut probed, mut now, mut calls) = (0, 30_000 + REACHABLE, 0);
    let mut ageing = Ageing::default();
    while probed < kept {
        let mut burst = 0;
        now = table.age(&mut ageing, now, &mut |_| burst += 1).expect("more is due");
        assert!((1..=32).contains(&burst), "{burst}");
        (probed, calls) = (probed + burst, calls + 1);
    }
    assert_eq!((probed, calls), (kept, kept.div_ceil(32)));
}

#[test]
fn where_all_are_static_there_is_no_room() {
    let table = table();
    let placed = (0..2000).filter(|&ip| table.add_static(neighbour(ip, ip))).count();
    assert_eq!(placed, 1024);
    assert!(!table.add_static(neighbour(99_999, 1)));
    table.learn(neighbour(99_999, 1), true, 5);
    assert_eq!(table.find(1, 99_999_u32), None);
}

/// Writers change, add and replace neighbours; each address that a reader finds must be one that was stored for that
/// neighbour.
#[test]
fn readers_never_see_half_a_change() {
    let table = table();
    let done = AtomicBool::new(false);
    let tag = |ip: u32, round: u32| ip << 16 | round;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..20_000 {
                        // More than fit, so that slots are replaced all the time.
                        let ip = (round * 7 + writer) % 3000;
                        table.learn(neighbour(ip, tag(ip, round & 0xff)), true, u64::from(round));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Relaxed) {
                for ip in 0..3000_u32 {
                    let Some(Mac([_, a, b, c, d, check])) = table.find(1, ip) else { continue };
                    assert_eq!(u32::from_be_bytes([a, b, c, d]) >> 16, ip);
                    assert_eq!(check, a ^ b ^ c ^ d);
                }
            }
        });
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

#[test]
fn twenty_thousand_hosts_of_both_families_displace_nobody() {
    let table = sized_table(32_768);
    for n in 0..20_000_u32 {
        let ip = if n % 2 == 0 { Ip::v4(n) } else { Ip::v6(0x2001_0db8 << 96 | u128::from(n)) };
        table.learn(Neighbour { nic: 1, ip, mac: mac(n) }, true, 0);
    }
    assert_eq!((table.count(), table.arrivals(), table.generation()), (20_000, 20_000, 0));
}

#[test]
fn a_large_table_is_aged_in_parts() {
    let table = sized_table(65_536);
    for n in 0..3 {
        table.learn(neighbour(n * 20_000, n), true, 0);
    }
    let (mut ageing, mut now, mut probed, mut calls) = (Ageing::default(), REACHABLE, 0, 0);
    while probed < 3 {
        now = table.age(&mut ageing, now, &mut |_| probed += 1).expect("more is due");
        calls += 1;
    }
    assert!(calls <= 32, "{calls}");
    assert_eq!(table.state(1, 0_u32), State::Probe);
}
