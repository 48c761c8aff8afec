//! Routes with the Internet's prefix lengths (the same generator as crates/fib/src/six/synthetic.rs), destinations, and a
//! naive table to check against.

use std::collections::HashMap;

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ b >> 31
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(n)) >> 32) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub prefix: u128,
    pub len: u8,
    /// Not 0.
    pub hop: u32,
}

const SHARES: [(u8, u32); 23] = [
    (20, 1),
    (24, 2),
    (28, 5),
    (29, 32),
    (30, 7),
    (31, 3),
    (32, 118),
    (33, 15),
    (34, 12),
    (35, 7),
    (36, 38),
    (38, 12),
    (39, 7),
    (40, 82),
    (41, 7),
    (42, 28),
    (43, 10),
    (44, 84),
    (45, 20),
    (46, 34),
    (47, 28),
    (48, 445),
    (64, 3),
];
const BLOCKS: [(u16, u16, u32); 9] = [
    (0x2001, 0x2001, 12),
    (0x2400, 0x240f, 22),
    (0x2600, 0x2610, 10),
    (0x2620, 0x2620, 8),
    (0x2800, 0x2806, 8),
    (0x2a00, 0x2a0f, 28),
    (0x2a10, 0x2a14, 8),
    (0x2c0f, 0x2c0f, 3),
    (0x2003, 0x2003, 1),
];
const PARTS: usize = 9;

pub fn mask(len: u8) -> u128 {
    if len == 0 {
        0
    } else {
        u128::MAX << (128 - u32::from(len))
    }
}

pub fn routes(count: usize, seed: u64) -> Vec<Route> {
    let mut random = Random::new(seed);
    let allocations: Vec<u128> = (0..count.div_ceil(PARTS))
        .map(|_| allocation(&mut random))
        .collect();
    let mut all = Vec::new();
    while all.len() < count {
        for _ in 0..count - all.len() + 16 {
            let (prefix, len) = prefix(&mut random, &allocations);
            all.push(Route {
                prefix,
                len,
                hop: 0,
            });
        }
        all.sort_unstable();
        all.dedup();
    }
    all.truncate(count);
    for route in &mut all {
        route.hop = random.below(200) + 1;
    }
    all
}

fn allocation(random: &mut Random) -> u128 {
    let mut share = random.below(100);
    let found = BLOCKS.iter().find(|(_, _, percent)| {
        let found = share < *percent;
        share = share.saturating_sub(*percent);
        found
    });
    let (first, last, _) = found.copied().unwrap_or(BLOCKS[0]);
    let block = u32::from(first) + random.below(u32::from(last - first) + 1);
    let at = random.below(1 << 13) << 3;
    u128::from(block) << 112 | u128::from(at) << 96
}

fn prefix(random: &mut Random, allocations: &[u128]) -> (u128, u8) {
    let mut share = random.below(1000);
    let found = SHARES.iter().find(|(_, mille)| {
        let found = share < *mille;
        share = share.saturating_sub(*mille);
        found
    });
    let len = found.map_or(48, |(len, _)| *len);
    let [a, b, c] = [(); 3].map(|()| u64::from(random.below(1 << 16)));
    let skewed = (((a * b * c) >> 16) * allocations.len() as u64) >> 32;
    // Short ones are the allocations themselves.
    let even = random.below(allocations.len() as u32) as usize;
    let own = allocations[if len <= 36 { even } else { skewed as usize }];
    let inside = u128::from(random.next_u64()) << 35 & !(u128::MAX << 99);
    let inside = if random.below(4) > 0 {
        inside >> 4
    } else {
        inside
    };
    ((own | inside) & mask(len), len)
}

pub fn destinations(routes: &[Route], count: usize, seed: u64) -> Vec<u128> {
    let mut random = Random::new(seed);
    let count = count.min(routes.len());
    let mut chosen: Vec<u128> = (0..count)
        .map(|i| {
            let at = routes[i * routes.len() / count];
            let host = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            at.prefix | host & !mask(at.len)
        })
        .collect();
    for i in (1..chosen.len()).rev() {
        chosen.swap(i, random.below(i as u32 + 1) as usize);
    }
    chosen
}

/// One hash table a length.
pub struct Naive(Vec<(u8, HashMap<u128, u32>)>);

impl Naive {
    pub fn new(routes: &[Route]) -> Self {
        let mut lens: Vec<u8> = routes.iter().map(|route| route.len).collect();
        lens.sort_unstable();
        lens.dedup();
        lens.reverse();
        let of = |len: u8| {
            routes
                .iter()
                .filter(|r| r.len == len)
                .map(|r| (r.prefix, r.hop))
                .collect()
        };
        Self(lens.into_iter().map(|len| (len, of(len))).collect())
    }

    pub fn look_up(&self, ip: u128) -> u32 {
        self.0
            .iter()
            .find_map(|(len, table)| table.get(&(ip & mask(*len))).copied())
            .unwrap_or(0)
    }
}

/// Intervals of `first..=last`, with the next hop of what no route covers; the routes in the order of (prefix, length).
pub fn intervals(first: u128, last: u128, cover: u32, routes: &[Route]) -> Vec<(u128, u32)> {
    let mut found = vec![(first, cover)];
    let mut open = vec![(last, cover)];
    let begin = |found: &mut Vec<(u128, u32)>, at: u128, hop: u32| {
        if found.last().is_some_and(|(start, _)| *start == at) {
            found.pop();
        }
        if found.last().is_none_or(|(_, last)| *last != hop) {
            found.push((at, hop));
        }
    };
    let close = |found: &mut Vec<(u128, u32)>, open: &mut Vec<(u128, u32)>, at: u128| {
        while open.len() > 1 && open[open.len() - 1].0 < at {
            let (end, _) = open.pop().unwrap();
            let outer = open[open.len() - 1].1;
            begin(found, end + 1, outer);
        }
    };
    for route in routes {
        close(&mut found, &mut open, route.prefix);
        begin(&mut found, route.prefix, route.hop);
        open.push((route.prefix | !mask(route.len), route.hop));
    }
    close(&mut found, &mut open, last);
    found
}

/// Routes of a sorted slice that are below a prefix and longer than it.
pub fn below(routes: &[Route], prefix: u128, depth: u8) -> &[Route] {
    let last = prefix | !mask(depth);
    let start = routes.partition_point(|r| (r.prefix, r.len) < (prefix, depth + 1));
    let end = routes.partition_point(|r| r.prefix <= last);
    &routes[start..end.max(start)]
}
