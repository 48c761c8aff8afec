//! Full tables: as many routes as a router on the Internet has, with the Internet's prefix lengths, and a BGP speaker that replays
//! them ([`Gobgpd`]). The same seed yields the same routes everywhere.

mod gobgpd;
mod mrt;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::six::synthetic;
use fib::synthetic::Random;

pub use gobgpd::{Family, Gobgpd, Speaker};
pub use mrt::Dump;

/// Share of each prefix length among IPv4 routes, in ten thousandths: about as route collectors saw it in the early 2020s.
const FOUR: [(u8, u32); 17] = [
    (8, 1),
    (9, 1),
    (10, 1),
    (11, 2),
    (12, 4),
    (13, 7),
    (14, 13),
    (15, 22),
    (16, 143),
    (17, 86),
    (18, 144),
    (19, 262),
    (20, 455),
    (21, 540),
    (22, 1130),
    (23, 1030),
    (24, 6159),
];
/// Sum of all shares.
const WHOLE: u32 = 10_000;
/// IPv4 networks without routes of the Internet, where tests and experiments have their own addresses (RFC 6890).
const RESERVED: [(Ipv4Addr, u8); 9] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 16),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 16, 0, 0), 14),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
];
/// IPv6 network that is for documentation, where tests and experiments have their own addresses (RFC 3849).
const DOCUMENTATION: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32);

/// Route of a full table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableRoute {
    /// First address of the network.
    pub to: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// Number of its next hop, from 0.
    pub hop: usize,
}

/// Full table.
#[derive(Clone, Debug)]
pub struct FullTable {
    /// In order of networks, IPv4 first; each network once.
    routes: Vec<TableRoute>,
}

impl FullTable {
    /// Creates a table of so many IPv4 and IPv6 routes, which follow `hops` next hops (at least one).
    ///
    /// # Panics
    /// More than two million IPv4 or 500,000 IPv6 routes are asked for: there may not be so many networks.
    pub fn new((four, six): (usize, usize), hops: usize, seed: u64) -> Self {
        assert!(four <= 2_000_000 && six <= 500_000, "a full table of {four} and {six} routes");
        let mut random = Random::new(seed);
        let mut networks = BTreeSet::new();
        while networks.len() < four {
            networks.insert(four_network(&mut random));
        }
        networks.extend(six_networks(six, seed));
        let hops = u32::try_from(hops.max(1)).unwrap_or(u32::MAX);
        let route = |(to, len)| TableRoute { to, len, hop: random.below(hops) as usize };
        Self { routes: networks.into_iter().map(route).collect() }
    }

    /// Returns all routes, in order of networks, IPv4 first.
    pub fn routes(&self) -> &[TableRoute] {
        &self.routes
    }

    /// Returns the routes of a family.
    pub fn of(&self, family: Family) -> &[TableRoute] {
        let (four, six) = self.routes.split_at(self.routes.partition_point(|route| route.to.is_ipv4()));
        match family {
            Family::V4 => four,
            Family::V6 => six,
        }
    }

    /// Adds routes, in place of those that have the same networks.
    pub fn put(&mut self, routes: impl IntoIterator<Item = TableRoute>) {
        for route in routes {
            match self.place(route.to, route.len) {
                Ok(at) => self.routes[at] = route,
                Err(at) => self.routes.insert(at, route),
            }
        }
    }

    /// Returns the route of packets to an address: the longest match.
    pub fn find(&self, ip: IpAddr) -> Option<&TableRoute> {
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let at = (0..=longest).rev().find_map(|len| self.place(masked(ip, len), len).ok())?;
        self.routes.get(at)
    }

    /// Returns so many addresses, each in the network of another route, evenly over the whole table; its longest match may be
    /// another route.
    pub fn addresses(&self, count: usize, seed: u64) -> Vec<IpAddr> {
        let mut random = Random::new(seed);
        let count = count.min(self.routes.len());
        let pick = |n: usize| self.routes[n * self.routes.len() / count.max(1)];
        (0..count).map(pick).map(|route| inside(&route, &mut random)).collect()
    }

    fn place(&self, to: IpAddr, len: u8) -> Result<usize, usize> {
        self.routes.binary_search_by_key(&(to, len), |route| (route.to, route.len))
    }
}

/// An address in the network of a route.
fn inside(route: &TableRoute, random: &mut Random) -> IpAddr {
    match route.to {
        IpAddr::V4(to) => {
            let host = !mask_four(route.len) & random.next_u64() as u32;
            Ipv4Addr::from_bits(to.to_bits() | host).into()
        }
        IpAddr::V6(to) => {
            let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            Ipv6Addr::from_bits(to.to_bits() | !mask_six(route.len) & bits).into()
        }
    }
}

const fn mask_four(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len as u32) }
}

const fn mask_six(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len as u32) }
}

/// First address of the network of this length in which an address is.
fn masked(ip: IpAddr, len: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & mask_four(len)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & mask_six(len)).into(),
    }
}

/// A prefix length, by the shares.
fn length(random: &mut Random) -> u8 {
    let mut left = random.below(WHOLE);
    for (len, share) in FOUR {
        match left.checked_sub(share) {
            Some(rest) => left = rest,
            None => return len,
        }
    }
    24
}

fn four_network(random: &mut Random) -> (IpAddr, u8) {
    let len = length(random);
    loop {
        let ip = Ipv4Addr::from_bits(random.next_u64() as u32 & mask_four(len));
        let is_within = |net: &(Ipv4Addr, u8)| len >= net.1 && masked(ip.into(), net.1) == net.0;
        if (1..224).contains(&ip.octets()[0]) && !RESERVED.iter().any(is_within) {
            return (ip.into(), len);
        }
    }
}

fn six_networks(count: usize, seed: u64) -> impl Iterator<Item = (IpAddr, u8)> {
    // The registries' blocks contain the network for documentation.
    let spare = count / 1000 + 8;
    let networks = synthetic::prefixes(count + spare, seed).into_iter();
    let networks = networks.map(|network| (IpAddr::from(Ipv6Addr::from_bits(network.prefix)), network.len));
    let (documentation, len) = DOCUMENTATION;
    networks.filter(move |(ip, _)| masked(*ip, len) != documentation).take(count)
}

#[cfg(test)]
mod tests;
