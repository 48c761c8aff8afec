//! Cost in nanoseconds of a lookup, plain and in bursts with prefetch, with 2 routes and with a million; and the cost
//! to the writer of changing a million routes. One number a line, the best of several slices.
//!
//! `cargo bench -p ringroad-fib`

mod slices;

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Instant;

use fib::layout::{BUCKETS, GROUP, NEXT_HOPS, TBL24};
use fib::synthetic::{Prefix, destinations, prefixes};
use fib::{Header, Memory, NextHop, Rib, Table};
use router::Routes;

use slices::{best, shuffle, tell_changes};

const BURST: usize = 64;
const ROUTES: usize = 1_000_000;

fn main() {
    let routes = prefixes(ROUTES, 1);
    let long = routes.iter().filter(|p| p.len > 24).count();
    let to = destinations(&routes, 1 << 16, 2);
    let memory = memory(long);
    let table = Table::new(memory);
    let mut rib = Rib::new(memory);

    rib.add(0, 1, via(1)).expect("an empty table has room");
    rib.add(0x8000_0000, 1, via(2)).expect("an empty table has room");
    lookups("2 routes", table, &to);
    rib.remove(0, 1).expect("added above");
    rib.remove(0x8000_0000, 1).expect("added above");

    let mut order = routes;
    shuffle(&mut order);
    changes("add", &order, |i, p| rib.add(p.prefix, p.len, via(i as u32 % 200)).is_ok());
    lookups("1M routes", table, &to);
    changes("replace", &order, |i, p| rib.add(p.prefix, p.len, via(i as u32 % 199)).is_ok());
    changes("remove", &order, |_, p| rib.remove(p.prefix, p.len).is_ok());
}

fn changes(name: &str, order: &[Prefix], mut change: impl FnMut(usize, &Prefix) -> bool) {
    let start = Instant::now();
    let done = order.iter().enumerate().filter(|(i, p)| change(*i, p)).count();
    tell_changes(name, done, order.len(), start);
}

fn lookups(name: &str, table: Table<'_>, to: &[u32]) {
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
    println!("{name}: {plain:.2} ns/lookup plain, {burst:.2} ns/lookup in bursts of {BURST}");
}

fn look_up_burst(table: Table<'_>, ips: &[u32]) {
    let mut steps = [<Table<'_> as Routes>::Step::default(); BURST];
    for ip in ips {
        table.prefetch(*ip);
    }
    for (step, ip) in steps.iter_mut().zip(ips) {
        *step = table.first(*ip);
    }
    for step in &steps[..ips.len()] {
        black_box(table.second(*step));
    }
}

const fn via(number: u32) -> NextHop {
    NextHop::Gateway { nic: 1, gateway: 0x0a00_0000 | number }
}

/// Creates a table in ordinary memory, leaked.
fn memory(groups: usize) -> Memory<'static> {
    let words = |n: usize| Vec::leak((0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let long = |n: usize| &*Vec::leak((0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    Memory {
        header: Box::leak(Box::new(Header::default())),
        next_hops: long(NEXT_HOPS).try_into().expect("of this length"),
        buckets: long(BUCKETS).try_into().expect("of this length"),
        tbl24: (&*words(TBL24)).try_into().expect("of this length"),
        tbl8: words(groups * GROUP),
    }
}
