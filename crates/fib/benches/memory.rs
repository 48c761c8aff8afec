//! Memory in MiB of both tables with as many routes as the Internet has, a million of IPv4 and 250,000 of IPv6: the pages that routes
//! touch, which are those that the kernel allocates for a router, and the writer's own list of the routes, by which the process grows.
//! One line a table, and one for both.
//!
//! `cargo bench -p ringroad-fib --bench memory`

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use fib::layout::{BUCKETS, GROUP, NEXT_HOPS, TBL24};
use fib::six::layout as layout6;
use fib::{Memory, NextHop, Rib, six, synthetic};

const ROUTES: usize = 1_000_000;
const ROUTES_OF_SIX: usize = 250_000;
/// Next hops, which the routes have in turn.
const HOPS: u32 = 200;
/// Octets of a page, and of a MiB.
const PAGE: usize = 4096;
const MIB: f64 = (1 << 20) as f64;

fn main() {
    let four = with_four();
    let six = with_six();
    println!("both: {:.1} MiB of tables, {:.1} MiB of the writer's list", four.0 + six.0, four.1 + six.1);
}

/// Fills an IPv4 table; returns the MiB of its pages, and by how much the process has grown.
fn with_four() -> (f64, f64) {
    let routes = synthetic::prefixes(ROUTES, 1);
    let long = routes.iter().filter(|route| route.len > 24).count();
    let memory = Memory {
        header: Box::leak(Box::default()),
        next_hops: words(NEXT_HOPS).try_into().expect("of this length"),
        buckets: words(BUCKETS).try_into().expect("of this length"),
        tbl24: halves(TBL24).try_into().expect("of this length"),
        tbl8: halves(long * GROUP),
    };
    let before = resident();
    let mut rib = Rib::new(memory);
    for (at, route) in (0..).zip(&routes) {
        let next_hop = NextHop::Gateway { nic: 1, gateway: 0x0a00_0000 | (at % HOPS + 1) };
        rib.add(route.prefix, route.len, next_hop).expect("there is room");
    }
    let grown = resident() - before;
    let pages = 1
        + touched(memory.next_hops)
        + touched(memory.buckets)
        + touched_halves(memory.tbl24)
        + touched_halves(memory.tbl8);
    tell(&format!("{} routes of IPv4", rib.len()), pages, grown)
}

/// Fills an IPv6 table, as [`with_four`] does.
fn with_six() -> (f64, f64) {
    let routes = six::synthetic::prefixes(ROUTES_OF_SIX, 1);
    let memory = six::Memory {
        header: Box::leak(Box::new(six::Header::default())),
        next_hops: words(layout6::HOP_WORDS * layout6::NEXT_HOPS).try_into().expect("of this length"),
        buckets: words(layout6::BUCKETS).try_into().expect("of this length"),
        root: words(layout6::ROOT).try_into().expect("of this length"),
        nodes: words(32_768 * layout6::NODE),
        ranges: words(4 << 20),
    };
    let before = resident();
    let mut rib = six::Rib::new(memory);
    for (at, route) in (0..).zip(&routes) {
        let gateway = 0xfe80 << 112 | u128::from(at % HOPS + 1);
        rib.add(route.prefix, route.len, NextHop::Gateway6 { nic: 1, gateway }).expect("there is room");
    }
    let grown = resident() - before;
    let pages = 1
        + touched(memory.next_hops)
        + touched(memory.buckets)
        + touched(memory.root)
        + touched(memory.nodes)
        + touched(memory.ranges);
    tell(&format!("{} routes of IPv6", rib.len()), pages, grown)
}

/// Prints the line of a table; returns both figures in MiB.
fn tell(what: &str, pages: usize, grown: f64) -> (f64, f64) {
    let table = (pages * PAGE) as f64 / MIB;
    println!("{what}: {table:.1} MiB of table, {grown:.1} MiB of the writer's list");
    (table, grown)
}

/// Number of pages with words other than 0.
fn touched(all: &[AtomicU64]) -> usize {
    let is_touched = |page: &&[AtomicU64]| page.iter().any(|word| word.load(Relaxed) != 0);
    all.chunks(PAGE / 8).filter(is_touched).count()
}

/// See [`touched`].
fn touched_halves(all: &[AtomicU32]) -> usize {
    let is_touched = |page: &&[AtomicU32]| page.iter().any(|word| word.load(Relaxed) != 0);
    all.chunks(PAGE / 4).filter(is_touched).count()
}

/// MiB of memory that this process has at present (proc_pid_statm(5)).
fn resident() -> f64 {
    let told = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = told.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    (pages.expect("a number") * PAGE) as f64 / MIB
}

/// Words in ordinary memory, all of whose pages are there; leaked.
fn words(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect())
}

/// See [`words`].
fn halves(count: usize) -> &'static [AtomicU32] {
    Vec::leak((0..count).map(|_| AtomicU32::new(0)).collect())
}
