//! Control planes under load: full tables, failing links, routes that change while packets are forwarded, and floods.

pub(super) mod failover;
mod feed;
pub(super) mod flooded;
pub(super) mod full_table;
mod traffic;
pub(super) mod updates;

use crate::experiment::Options;

/// Routes of a full table unless the options name another number.
const FULL: usize = 1_000_000;

/// Number of routes of a case.
fn routes(options: &Options) -> usize {
    if options.routes > 2 { options.routes as usize } else { FULL }
}

/// One NIC of a router in its file, with a TAP in the room.
fn nic(name: &str, address: &str) -> String {
    format!("[[router.nic]]\nname = \"{name}\"\nattach = \"tap:lab-{name}\"\naddress = \"{address}\"\n")
}
