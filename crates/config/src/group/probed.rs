//! What members are given beside what the file says, so that probes pass them: a route for each NIC, and the neighbour behind it where
//! probes are taken out ([`::group::probe`]). What they say of a probe that they cannot forward goes there as well, in each VRF by its
//! first NIC, and not by a default route to others. Behind each NIC with a strict reverse-path filter is also the source of the probes
//! that enter it.

use std::net::Ipv4Addr;

use ::group::probe::{BACK, SOURCE, SOURCE_NIC, back, destination, strict_source};

use crate::address::Prefix;
use crate::forwarding::ReversePath;
use crate::mac::Mac;
use crate::plan::{Neighbour, Route, Router};

/// Has a member forward probes. Where an interconnection learns where addresses are, the neighbour behind each NIC has one of its own.
pub(super) fn add(router: &mut Router, is_apart: bool) {
    let nics = router.nics.len();
    let short = |nic: usize| u8::try_from(nic).unwrap_or(u8::MAX);
    let there = (0..nics).map(|nic| (destination(short(nic)), nic));
    // One NIC, if there are so many, has the address that all probes come from.
    let own = usize::from(SOURCE_NIC);
    let mut tables: Vec<usize> = (own < nics).then(|| router.table_of(own)).into_iter().collect();
    let mut sources = Vec::new();
    for nic in 0..nics {
        let table = router.table_of(nic);
        if !tables.contains(&table) {
            tables.push(table);
            sources.push((SOURCE, nic));
        }
        if router.nics[nic].reverse_path == ReversePath::Strict {
            sources.push((strict_source(short(nic)), nic));
        }
    }
    for (address, nic) in there.chain(sources) {
        let address = Ipv4Addr::from_bits(address);
        router.routes.push(Route { to: Prefix::containing(address, 32), via: None, nic });
        let neighbour = if is_apart { back(short(nic)) } else { BACK };
        router.neighbours.push(Neighbour { address, mac: Mac(neighbour.0), nic });
    }
}
