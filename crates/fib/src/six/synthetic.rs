//! Synthetic IPv6 route tables similar to that of the Internet: the same seed yields the same routes everywhere.
//!
//! As there, most routes are parts of a few ten thousand allocations of /29 to /32, which lie densely in some sixty blocks
//! of /16; few allocations have thousands of parts, most have none.

use alloc::vec::Vec;

use crate::synthetic::Random;

/// Prefix of one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Network address, in host byte order.
    pub prefix: u128,
    /// Length of the prefix.
    pub len: u8,
}

/// Per mille of routes of each length (about as in public route collectors of the middle of the 2020s).
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
/// Blocks from which registries allocate: the first and the last /16 of each, and the share of allocations in per cent.
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
/// Routes for each allocation.
const PARTS: usize = 9;

/// Returns `count` different prefixes, sorted.
pub fn prefixes(count: usize, seed: u64) -> Vec<Prefix> {
    let mut random = Random::new(seed);
    let allocations: Vec<u128> = (0..count.div_ceil(PARTS)).map(|_| allocation(&mut random)).collect();
    let mut all = Vec::with_capacity(count + count / 8);
    while all.len() < count {
        for _ in 0..count - all.len() + 16 {
            all.push(prefix(&mut random, &allocations));
        }
        all.sort_unstable();
        all.dedup();
    }
    // Leaves out the surplus evenly.
    let surplus = all.len() - count;
    for n in 0..surplus {
        all.remove((n + 1) * count / (surplus + 1));
    }
    all
}

/// Returns the first address of an allocation.
fn allocation(random: &mut Random) -> u128 {
    let mut share = random.below(100);
    let found = BLOCKS.iter().find(|(_, _, percent)| {
        let found = share < *percent;
        share = share.saturating_sub(*percent);
        found
    });
    let (first, last, _) = found.copied().unwrap_or(BLOCKS[0]);
    let block = u32::from(first) + random.below(u32::from(last - first) + 1);
    // Allocations are eight /32 apart, so that each can grow to a /29.
    let at = random.below(1 << 13) << 3;
    u128::from(block) << 112 | u128::from(at) << 96
}

fn prefix(random: &mut Random, allocations: &[u128]) -> Prefix {
    let mut share = random.below(1000);
    let found = SHARES.iter().find(|(_, mille)| {
        let found = share < *mille;
        share = share.saturating_sub(*mille);
        found
    });
    let len = found.map_or(48, |(len, _)| *len);
    // The cube of a number below one: the first allocations have most parts.
    let [a, b, c] = [(); 3].map(|()| u64::from(random.below(1 << 16)));
    let skewed = (((a * b * c) >> 16) * allocations.len() as u64) >> 32;
    // Short ones are the allocations themselves.
    let even = random.below(allocations.len() as u32) as usize;
    let own = allocations[if len <= 36 { even } else { skewed as usize }];
    let inside = u128::from(random.next_u64()) << 35 & !(u128::MAX << 99);
    // Parts are numbered from below: three of four lie in the first sixteenth of the allocation.
    let inside = if random.below(4) > 0 { inside >> 4 } else { inside };
    Prefix { prefix: (own | inside) & u128::MAX << (128 - u32::from(len)), len }
}

/// Returns destinations, one in each of `count` different prefixes picked evenly from `prefixes`, in random order.
pub fn destinations(prefixes: &[Prefix], count: usize, seed: u64) -> Vec<u128> {
    let mut random = Random::new(seed);
    let count = count.min(prefixes.len());
    let mut chosen: Vec<u128> = (0..count)
        .map(|i| {
            let at = prefixes[(i as u64 * prefixes.len() as u64 / count.max(1) as u64) as usize];
            let host = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            at.prefix | host & !(u128::MAX << (128 - u32::from(at.len)))
        })
        .collect();
    for i in (1..chosen.len()).rev() {
        chosen.swap(i, random.below(i as u32 + 1) as usize);
    }
    chosen
}
