//! Cost of an IPv6 lookup, plain and in bursts with prefetch, with 2 routes and with 250,000; and the cost to the writer of
//! changing these routes. One number a line, the best of several slices.
//!
//! `cargo bench -p ringroad-fib --bench lookup6`

mod slices;

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use fib::six::layout::{BUCKETS, HOP_WORDS, NEXT_HOPS, NODE, ROOT};
use fib::six::synthetic::{Prefix, destinations, prefixes};
use fib::six::{Header, Memory, Rib, Table};
use fib::{NextHop, Routes6};

use slices::{best, shuffle, tell_changes};

const BURST: usize = 64;
const ROUTES: usize = 250_000;

fn main() {
    let routes = prefixes(ROUTES, 1);
    let to = destinations(&routes, 1 << 16, 2);
    let memory = memory();
    let table = Table::new(memory);
    let mut rib = Rib::new(memory);

    let halves = [(0x2000 << 112, 4), (0x3000 << 112, 4)];
    for (n, (prefix, len)) in (1..).zip(halves) {
        rib.add(prefix, len, via(n)).expect("an empty table has room");
    }
    lookups("2 routes", table, &to);
    for (prefix, len) in halves {
        rib.remove(prefix, len).expect("added above");
    }

    let mut order = routes;
    shuffle(&mut order);
    changes(&mut rib, "add", &order, |rib, i, p| rib.add(p.prefix, p.len, via(i as u32 % 200)).is_ok());
    let (nodes, words) = rib.used();
    println!("250k routes: {:.1} MiB", (8 * (nodes * NODE + words)) as f64 / f64::from(1 << 20));
    lookups("250k routes", table, &to);
    changes(&mut rib, "replace", &order, |rib, i, p| rib.add(p.prefix, p.len, via(i as u32 % 199)).is_ok());
    changes(&mut rib, "remove", &order, |rib, _, p| rib.remove(p.prefix, p.len).is_ok());
}

/// Changes all routes, and reclaims what is out of use as a router without readers would.
fn changes<'a>(
    rib: &mut Rib<'a>,
    name: &str,
    order: &[Prefix],
    change: impl Fn(&mut Rib<'a>, usize, &Prefix) -> bool,
) {
    let (start, mut done) = (Instant::now(), 0);
    for (i, prefix) in order.iter().enumerate() {
        done += usize::from(change(rib, i, prefix));
        if i % BURST == 0 {
            let epoch = rib.publish();
            rib.reclaim(epoch);
        }
    }
    tell_changes(name, done, order.len(), start);
}

fn lookups(name: &str, table: Table<'_>, to: &[u128]) {
    let plain = best(to.len(), || {
        for ip in to {
            black_box(table.lookup(*ip));
        }
    });
    let burst = best(to.len(), || {
        for ips in to.chunks(BURST) {
            look_up_burst(table, ips);
        }
    });
    let rate = 1e3 / burst;
    println!("{name}: {plain:.2} ns/lookup plain, {burst:.2} ns/lookup in bursts of {BURST}: {rate:.0} M/s");
}

/// Looks a burst up as the router does.
fn look_up_burst(table: Table<'_>, ips: &[u128]) {
    let mut steps = [<Table<'_> as Routes6>::Step::default(); BURST];
    for (step, ip) in steps.iter_mut().zip(ips) {
        *step = table.first(*ip);
    }
    for _ in 0..<Table<'_> as Routes6>::STEPS {
        let mut left = false;
        for step in &mut steps[..ips.len()] {
            if !table.is_done(*step) {
                *step = table.next(*step);
                left = true;
            }
        }
        if !left {
            break;
        }
    }
    for step in &steps[..ips.len()] {
        black_box(table.found(*step));
    }
}

const fn via(number: u32) -> NextHop {
    NextHop::Gateway6 { nic: 1, gateway: 0xfe80 << 112 | number as u128 }
}

/// Creates a table in ordinary memory, leaked.
fn memory() -> Memory<'static> {
    let words = |n: usize| &*Vec::leak((0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    Memory {
        header: Box::leak(Box::new(Header::default())),
        next_hops: words(HOP_WORDS * NEXT_HOPS).try_into().expect("of this length"),
        buckets: words(BUCKETS).try_into().expect("of this length"),
        root: words(ROOT).try_into().expect("of this length"),
        nodes: words(32_768 * NODE),
        ranges: words(4 << 20),
    }
}
