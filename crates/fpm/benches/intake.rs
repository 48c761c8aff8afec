//! Routes taken in per second: a recorded-like stream of FPM frames through framing, decoding and table, batch by batch.
//!
//! `cargo bench -p ringroad-fpm` prints a line for each stream; pass a number of routes to change the default of a million.

use std::time::Instant;

use fpm::{Change, Session};
use fpm_peer::{By, Stream};
use netlink::{NextHop, Prefix};

fn main() {
    let routes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(1_000_000u32);
    let mut session = Session::default();
    session.connected();
    for (name, stream) in [("add", adds(routes)), ("replace", replaces(routes)), ("delete", deletes(routes))]
    {
        let (seconds, changes) = taken(&mut session, stream.octets());
        let rate = f64::from(routes) / seconds / 1000.0;
        println!("{name}: {routes} routes, {changes} changes, {seconds:.3} s, {rate:.0} k routes/s");
    }
}

/// Feeds a stream in pieces of at most 64 KiB, a batch each; returns seconds and changes of routes.
fn taken(session: &mut Session, octets: &[u8]) -> (f64, usize) {
    let (start, mut changes, mut rest) = (Instant::now(), 0, octets);
    while !rest.is_empty() {
        let room = session.room();
        let len = room.len().min(rest.len()).min(64 << 10);
        room[..len].copy_from_slice(&rest[..len]);
        session.filled(len);
        rest = &rest[len..];
        session.take().expect("a sound stream");
        session.changes(&mut |change| {
            changes += usize::from(matches!(change, Change::Route(..) | Change::NoRoute(_)))
        });
        session.published();
    }
    (start.elapsed().as_secs_f64(), changes)
}

/// The `n`-th of 2^24 distinct /24 networks, in no order of addresses: a product with an odd number is a permutation.
fn nth(n: u32) -> Prefix {
    let [_, a, b, c] = (n.wrapping_mul(0x9e37_79b1) & 0x00ff_ffff).to_be_bytes();
    Prefix::new([a, b, c, 0], 24).expect("a prefix")
}

fn adds(routes: u32) -> Stream {
    let mut stream = Stream::default();
    for id in 1..=16u8 {
        stream.hop(id.into(), NextHop { via: Some([192, 0, 2, id].into()), index: 3, weight: 1 });
    }
    (0..routes).for_each(|n| {
        stream.add(nth(n), By::Group(1 + n % 16));
    });
    stream
}

fn replaces(routes: u32) -> Stream {
    let mut stream = Stream::default();
    (0..routes).for_each(|n| {
        stream.replace(nth(n), By::Group(1 + (n + 1) % 16));
    });
    stream
}

fn deletes(routes: u32) -> Stream {
    let mut stream = Stream::default();
    (0..routes).for_each(|n| {
        stream.delete(nth(n));
    });
    stream
}
