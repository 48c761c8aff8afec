//! Synthetic route tables similar to those of the Internet: the same seed yields the same routes everywhere.

use alloc::vec::Vec;

/// Prefix of one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Network address, in host byte order.
    pub prefix: u32,
    /// Length of the prefix.
    pub len: u8,
}

/// Percentage of prefixes of each length (about as in public route collectors of the 2020s, but with more than a tenth
/// longer than /24, as in the routers of a single organisation).
const SHARES: [(u8, u32); 12] = [
    (16, 2),
    (17, 1),
    (18, 2),
    (19, 3),
    (20, 5),
    (21, 6),
    (22, 11),
    (23, 10),
    (24, 48),
    (26, 3),
    (28, 4),
    (32, 5),
];

/// Pseudo-random number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ b >> 31
    }

    /// Returns a number below `n` (n > 0).
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// Returns `count` different prefixes in unicast space (1.0.0.0 to 223.255.255.255, without 127/8), sorted.
pub fn prefixes(count: usize, seed: u64) -> Vec<Prefix> {
    let mut random = Random::new(seed);
    let mut all = Vec::with_capacity(count + count / 8);
    while all.len() < count {
        while all.len() < count + count / 16 + 16 {
            all.push(prefix(&mut random));
        }
        all.sort_unstable();
        all.dedup();
    }
    // There are too many: leaves some out evenly, instead of the last ones.
    let surplus = all.len() - count;
    let mut left = all.len();
    let mut drop = surplus;
    all.retain(|_| {
        let out = random.below(left as u32) < drop as u32;
        left -= 1;
        drop -= usize::from(out);
        !out
    });
    all
}

fn prefix(random: &mut Random) -> Prefix {
    let mut share = random.below(100);
    let len = SHARES
        .iter()
        .find(|(_, percent)| {
            let found = share < *percent;
            share = share.saturating_sub(*percent);
            found
        })
        .map_or(24, |(len, _)| *len);
    loop {
        let address = random.next_u64() as u32;
        let first = address >> 24;
        if (1..224).contains(&first) && first != 127 {
            return Prefix { prefix: address & u32::MAX << (32 - u32::from(len)), len };
        }
    }
}

/// Returns destinations, one in each of `count` different prefixes picked evenly from `prefixes`, in random order. An
/// address may lie in a longer prefix as well.
pub fn destinations(prefixes: &[Prefix], count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let count = count.min(prefixes.len());
    let mut chosen: Vec<u32> = (0..count)
        .map(|i| {
            let at = prefixes[(i as u64 * prefixes.len() as u64 / count.max(1) as u64) as usize];
            at.prefix | (random.next_u64() as u32 & !(u32::MAX << (32 - u32::from(at.len)).min(31)))
        })
        .collect();
    for i in (1..chosen.len()).rev() {
        chosen.swap(i, random.below(i as u32 + 1) as usize);
    }
    chosen
}
