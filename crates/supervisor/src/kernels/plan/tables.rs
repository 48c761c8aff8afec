//! Route tables of a kernel router: the main one, and one for each VRF, which is an interface of the VRF's name.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use config::Router;
use kernel_router::{Interface, MAIN, Origin, TypedRoute};
use netlink::RouteKind;

use super::prefix;

/// Numbers of tables of VRFs are larger, by less than [`RANGE`].
const FIRST: u32 = 0x5200_0000;
const RANGE: u32 = 0x00ff_ffff;
/// Metric of the last route of a table, which is larger than those of all others.
const LAST: u32 = 4_278_198_272;

/// The tables of a router.
pub(super) struct Tables<'r> {
    /// Names of the VRFs, in the order of the file's tables.
    vrfs: Vec<&'r str>,
    /// Number of the kernel's table for each table of the file: the first one is that of NICs without a VRF.
    numbers: Vec<u32>,
    /// Number of the file's table for each NIC and VLAN.
    links: Vec<usize>,
}

impl<'r> Tables<'r> {
    /// Returns the tables of a router. The number of a VRF follows from its name, so that it stays when others come and go.
    pub(super) fn of(router: &'r Router) -> Self {
        let vrfs = router.vrfs();
        let (numbers, links) = (numbers(&vrfs), 0..router.nics.len() + router.forwarding.interfaces.len());
        let links = links.map(|link| router.table_of(link)).collect();
        Self { vrfs, numbers, links }
    }

    /// Returns the number of the kernel's table for this table of the file.
    pub(super) fn number(&self, table: usize) -> u32 {
        self.numbers.get(table).copied().unwrap_or(MAIN)
    }

    /// Returns the number of the kernel's table of a NIC or VLAN.
    pub(super) fn table_of(&self, link: usize) -> u32 {
        self.number(self.links.get(link).copied().unwrap_or_default())
    }

    /// Returns the number of the kernel's table of a NIC or VLAN that is in a VRF.
    pub(super) fn vrf_of(&self, link: usize) -> Option<u32> {
        Some(self.table_of(link)).filter(|table| *table != MAIN)
    }

    /// Returns the interfaces that are the VRFs.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = Interface> {
        let all = self.vrfs.iter().zip(self.numbers.iter().skip(1));
        all.map(|(name, table)| Interface::new(name, Origin::Vrf { table: *table }))
    }

    /// Returns the routes by which a packet that finds no other one in the table of its VRF is not looked up in the main table.
    pub(super) fn last_routes(&self, interfaces: &[Interface]) -> Result<Vec<TypedRoute>> {
        let (four, six) = (prefix(Ipv4Addr::UNSPECIFIED, 0)?, prefix(Ipv6Addr::UNSPECIFIED, 0)?);
        let mut routes = Vec::new();
        for table in self.numbers.iter().skip(1).copied() {
            let route = |to| TypedRoute { to, kind: RouteKind::Unreachable, metric: LAST, table };
            let mut ports = interfaces.iter().filter(|port| port.vrf == Some(table));
            let has_six = ports.any(|port| port.addresses.iter().any(|own| own.ip.is_ipv6()));
            routes.extend([Some(route(four)), has_six.then(|| route(six))].into_iter().flatten());
        }
        Ok(routes)
    }
}

/// Returns the numbers of the tables: the main one, and those of these VRFs.
fn numbers(vrfs: &[&str]) -> Vec<u32> {
    let mut known: BTreeSet<(u32, &str)> = BTreeSet::new();
    let sorted: BTreeSet<&str> = vrfs.iter().copied().collect();
    for name in sorted {
        let mut number = FIRST | (hash(name) & RANGE);
        while known.iter().any(|(taken, _)| *taken == number) {
            number += 1;
        }
        known.insert((number, name));
    }
    let of = |name: &&str| known.iter().find(|(_, known)| known == name).map(|(number, _)| *number);
    [MAIN].into_iter().chain(vrfs.iter().filter_map(of)).collect()
}

/// FNV-1a of a name.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_vrfs_stay_when_another_goes() {
        let all = numbers(&["red", "blue", "green"]);
        assert_eq!(all[0], MAIN);
        assert_eq!(numbers(&["blue", "red"]), [MAIN, all[2], all[1]]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4);
        assert!(all[1..].iter().all(|number| (FIRST..=FIRST + RANGE).contains(number)));
    }

    #[test]
    fn two_vrfs_of_one_hash_have_two_tables() {
        let same = ["red5639", "red14884"];
        assert_eq!(hash(same[0]) & RANGE, hash(same[1]) & RANGE);
        let all = numbers(&same);
        assert_eq!(all[1].abs_diff(all[2]), 1);
        assert_eq!(numbers(&["red14884", "red5639"]), [MAIN, all[2], all[1]], "whatever their order");
    }
}
