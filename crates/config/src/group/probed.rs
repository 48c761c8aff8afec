//! What members are given beside what the file says, so that probes pass them: a route for each NIC, and the neighbour behind it where
//! probes are taken out ([`::group::probe`]).

use std::net::Ipv4Addr;

use ::group::probe::{BACK, destination};

use crate::address::Prefix;
use crate::mac::Mac;
use crate::plan::{Neighbour, Route, Router};

/// Has a member forward probes.
pub(super) fn add(router: &mut Router) {
    for nic in 0..router.nics.len() {
        let address = Ipv4Addr::from_bits(destination(u8::try_from(nic).unwrap_or(u8::MAX)));
        router.routes.push(Route { to: Prefix::containing(address, 32), via: None, nic });
        router.neighbours.push(Neighbour { address, mac: Mac(BACK.0), nic });
    }
}
