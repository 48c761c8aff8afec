//! `lookup`: the route table alone, in one thread: bursts of destinations, one of each route in random order, looked up as the router
//! does.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result};
use fib::{NextHop, Routes, Routes6, layout, six, synthetic};
use ring::BURST;

use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::scenario::for_about;

/// Seed of routes and destinations.
const SEED: u64 = 1;
/// Number of next hops, which the routes have in turn.
const HOPS: u32 = 200;
/// Nodes and words of lists of an IPv6 table.
const NODES: usize = 32_768;
const RANGES: usize = 4 << 20;

/// Creates the case with family and routes of `options`.
pub(super) fn case(options: &Options) -> Experiment {
    let (six, routes) = (options.six, options.routes as usize);
    let name = format!("{}/routes={routes}", if six { "ipv6" } else { "ipv4" });
    Experiment::new(
        ("lookup", "mpps"),
        name,
        move || if six { Lookups::six(routes) } else { Lookups::four(routes) },
    )
}

/// A table with routes, and destinations. Its memory is leaked: the program reads it until it exits.
enum Lookups {
    Four { table: fib::Table<'static>, to: Vec<u32> },
    Six { table: six::Table<'static>, to: Vec<u128> },
}

impl Lookups {
    fn four(routes: usize) -> Result<Self> {
        let prefixes = synthetic::prefixes(routes, SEED);
        let long = prefixes.iter().filter(|prefix| prefix.len > 24).count();
        let memory = fib::Memory {
            header: Box::leak(Box::default()),
            next_hops: array(words(layout::NEXT_HOPS))?,
            buckets: array(words(layout::BUCKETS))?,
            tbl24: array(halves(layout::TBL24))?,
            tbl8: halves(long * layout::GROUP),
        };
        let mut rib = fib::Rib::new(memory);
        for (at, prefix) in (0..).zip(&prefixes) {
            let gateway = 0x0a00_0000 | (at % HOPS + 1);
            rib.add(prefix.prefix, prefix.len, NextHop::Gateway { nic: 1, gateway })?;
        }
        let to = synthetic::destinations(&prefixes, prefixes.len(), SEED);
        Ok(Self::Four { table: fib::Table::new(memory), to })
    }

    fn six(routes: usize) -> Result<Self> {
        let prefixes = six::synthetic::prefixes(routes, SEED);
        let memory = six::Memory {
            header: Box::leak(Box::default()),
            next_hops: array(words(six::layout::HOP_WORDS * six::layout::NEXT_HOPS))?,
            buckets: array(words(six::layout::BUCKETS))?,
            root: array(words(six::layout::ROOT))?,
            nodes: words(NODES * six::layout::NODE),
            ranges: words(RANGES),
        };
        let mut rib = six::Rib::new(memory);
        for (at, prefix) in (0..).zip(&prefixes) {
            let gateway = 0xfe80 << 112 | u128::from(at % HOPS + 1);
            rib.add(prefix.prefix, prefix.len, NextHop::Gateway6 { nic: 1, gateway })?;
        }
        let to = six::synthetic::destinations(&prefixes, prefixes.len(), SEED);
        Ok(Self::Six { table: six::Table::new(memory), to })
    }

    /// Looks all destinations up; returns how many there are.
    fn pass(&self) -> u64 {
        match self {
            Self::Four { table, to } => to.chunks(BURST).map(|ips| burst(*table, ips)).sum(),
            Self::Six { table, to } => to.chunks(BURST).map(|ips| burst6(*table, ips)).sum(),
        }
    }
}

fn burst(table: fib::Table<'_>, ips: &[u32]) -> u64 {
    ips.iter().for_each(|ip| table.prefetch(*ip));
    let mut steps = [<fib::Table<'_> as Routes>::Step::default(); BURST];
    for (step, ip) in steps.iter_mut().zip(ips) {
        *step = table.first(*ip);
    }
    for step in &steps[..ips.len()] {
        black_box(table.second(*step));
    }
    ips.len() as u64
}

fn burst6(table: six::Table<'_>, ips: &[u128]) -> u64 {
    let mut steps = [<six::Table<'_> as Routes6>::Step::default(); BURST];
    let steps = &mut steps[..ips.len()];
    for (step, ip) in steps.iter_mut().zip(ips) {
        *step = table.first(*ip);
    }
    for _ in 0..<six::Table<'_> as Routes6>::STEPS {
        let mut left = false;
        for step in steps.iter_mut() {
            if !table.is_done(*step) {
                *step = table.next(*step);
                left = true;
            }
        }
        if !left {
            break;
        }
    }
    for step in steps {
        black_box(table.found(*step));
    }
    ips.len() as u64
}

impl Rig for Lookups {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let mut done = 0;
        let seconds = for_about(length, 1, || done += self.pass());
        Ok(Sample::mpps(done, seconds))
    }
}

fn words(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect())
}

fn halves(count: usize) -> &'static [AtomicU32] {
    Vec::leak((0..count).map(|_| AtomicU32::new(0)).collect())
}

/// Returns all of a slice as an array of its length.
fn array<T, const N: usize>(slice: &'static [T]) -> Result<&'static [T; N]> {
    slice.try_into().context("a part of the table has another length")
}
