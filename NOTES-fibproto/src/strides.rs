//! Strides with lists of intervals: 16 bits, optionally a second stage of 16 bits, then nodes of 8 bits; a subtree whose
//! intervals are few is a list with 32-bit keys.

use crate::design::{Design, prefetch};
use crate::routes::{Route, below, intervals, mask};
use crate::strides_cover::cover_of;

const LEAF: u64 = 0;
const NODE: u64 = 1;
const LIST: u64 = 2;
const WIDE: u64 = 3;

fn entry(kind: u64, number: usize, count: usize) -> u64 {
    kind << 60 | (count as u64) << 32 | number as u64
}

pub struct Strides {
    root: Vec<u64>,
    nodes: Vec<u64>,
    ranges: Vec<u64>,
    most: usize,
    /// Bits of the second stage: 8 or 16.
    second: u8,
}

#[derive(Clone, Copy, Default)]
pub struct Step {
    ip: u128,
    entry: u64,
    depth: u8,
    bits: u8,
}

impl Strides {
    pub fn new(routes: &[Route], most: usize, second: u8) -> Self {
        let mut built = Self {
            root: vec![0; 1 << 16],
            nodes: Vec::new(),
            ranges: Vec::new(),
            most,
            second,
        };
        let short: Vec<Route> = routes.iter().copied().filter(|r| r.len <= 16).collect();
        for n in 0..1u128 << 16 {
            let prefix = n << 112;
            let cover = short
                .iter()
                .filter(|r| (prefix ^ r.prefix) & mask(r.len) == 0)
                .max_by_key(|r| r.len);
            let part = below(routes, prefix, 16);
            built.root[n as usize] = built.build(part, prefix, 16, cover.map_or(0, |r| r.hop));
        }
        built
    }

    fn bits(&self, depth: u8) -> u8 {
        if depth == 16 { self.second } else { 8 }
    }

    fn build(&mut self, routes: &[Route], prefix: u128, depth: u8, cover: u32) -> u64 {
        let found = intervals(prefix, prefix | !mask(depth), cover, routes);
        if found.len() == 1 {
            return entry(LEAF, found[0].1 as usize, 0);
        }
        if depth >= 64 {
            let at = self.ranges.len();
            self.ranges.extend(
                found
                    .iter()
                    .flat_map(|(at, hop)| [*at as u64, u64::from(*hop)]),
            );
            return entry(WIDE, at, found.len());
        }
        let longest = routes.iter().map(|r| r.len).max().unwrap_or(0);
        if found.len() <= self.most && longest <= depth + 32 {
            // As the store of crates/fib does: lists of more than a line begin at one.
            let size = found.len().next_power_of_two();
            self.ranges
                .resize(self.ranges.len().next_multiple_of(size.min(8)), 0);
            let at = self.ranges.len();
            let key = |at: u128| ((at << depth >> 96) as u64) << 32;
            self.ranges
                .extend(found.iter().map(|(at, hop)| key(*at) | u64::from(*hop)));
            self.ranges.resize(at + size, 0);
            return entry(LIST, at, found.len());
        }
        let bits = self.bits(depth);
        let first = self.nodes.len();
        self.nodes.resize(first + (1 << bits), 0);
        for n in 0..1u128 << bits {
            let child = prefix | n << (128 - depth - bits);
            let shorter = routes
                .iter()
                .filter(|r| r.len <= depth + bits && (child ^ r.prefix) & mask(r.len) == 0);
            // The routes of a part are few: a scan is good enough for a prototype, except at the top.
            let cover = if routes.len() < 4096 {
                shorter.max_by_key(|r| r.len).map_or(cover, |r| r.hop)
            } else {
                cover_of(routes, child, depth + bits).unwrap_or(cover)
            };
            let part = below(routes, child, depth + bits);
            self.nodes[first + n as usize] = self.build(part, child, depth + bits, cover);
        }
        entry(NODE, first, 0)
    }

    #[inline(always)]
    fn slot(step: &Step) -> usize {
        (step.entry as u32 as usize) + (step.ip << step.depth >> (128 - step.bits)) as usize
    }

    #[inline(always)]
    fn look_ahead(&self, step: &Step) {
        match step.entry >> 60 {
            NODE => prefetch(&self.nodes, Self::slot(step)),
            LEAF => {}
            _ => {
                let at = step.entry as u32 as usize;
                prefetch(&self.ranges, at);
                prefetch(&self.ranges, at + (step.entry >> 33) as usize % 0x8000);
            }
        }
    }
}

impl Design for Strides {
    type Step = Step;
    const STEPS: usize = 6;

    fn octets(&self) -> usize {
        let touched = self.root.iter().filter(|word| **word != 0).count() * 8;
        touched + 8 * (self.nodes.len() + self.ranges.len())
    }

    #[inline(always)]
    fn first(&self, ip: u128) -> Step {
        let step = Step {
            ip,
            entry: self.root[(ip >> 112) as usize],
            depth: 16,
            bits: self.second,
        };
        self.look_ahead(&step);
        step
    }

    #[inline(always)]
    fn is_done(&self, step: Step) -> bool {
        step.entry >> 60 != NODE
    }

    #[inline(always)]
    fn next(&self, step: Step) -> Step {
        if self.is_done(step) {
            return step;
        }
        let entry = self.nodes[Self::slot(&step)];
        let step = Step {
            entry,
            depth: step.depth + step.bits,
            bits: 8,
            ..step
        };
        self.look_ahead(&step);
        step
    }

    #[inline(always)]
    fn found(&self, step: Step) -> u32 {
        let (at, count) = (
            step.entry as u32 as usize,
            (step.entry >> 32) as u16 as usize,
        );
        match step.entry >> 60 {
            LIST => {
                let key = (step.ip << step.depth >> 96) as u32;
                let (mut at, mut left) = (at, count);
                while left > 1 {
                    let half = left / 2;
                    let before = (self.ranges[at + half] >> 32) as u32 <= key;
                    at = if before { at + half } else { at };
                    left = if before { left - half } else { half };
                }
                self.ranges[at] as u32
            }
            WIDE => {
                let pairs = &self.ranges[at..at + 2 * count];
                let key = step.ip as u64;
                pairs
                    .chunks_exact(2)
                    .take_while(|pair| pair[0] <= key)
                    .last()
                    .map_or(0, |pair| pair[1] as u32)
            }
            _ => step.entry as u32,
        }
    }

    fn reads(&self, ip: u128) -> usize {
        let (mut step, mut reads) = (self.first(ip), 1);
        while !self.is_done(step) {
            step = self.next(step);
            reads += 1;
        }
        let count = (step.entry >> 32) as u16 as usize;
        // Lines of a list of 8-octet elements.
        reads
            + if step.entry >> 60 == LEAF {
                0
            } else {
                (count.div_ceil(8)).ilog2() as usize + 1
            }
    }
}
