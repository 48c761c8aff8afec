//! How a router forwards: IPv6 routes and neighbours, IPv4 routes by IPv6 gateways (RFC 8950), routes with several gateways,
//! VRFs, interfaces for VLANs, the size of the neighbour table, redirects.

mod interface;
mod link;
mod own;
mod refused;
mod reverse_path;
mod route;
mod spread;
#[cfg(test)]
mod tests;
pub(crate) mod vrf;

use serde::{Deserialize, Serialize};

pub use interface::{Interface, Tags};
pub use refused::{RefusedRoute, RouteType};
pub use reverse_path::ReversePath;
pub use route::{Destination, Neighbour6, Route6};
pub use spread::{MOST_WAYS, SpreadRoute, Way};

use crate::keys::{Change, Entry, Value};
use crate::plan::{Nic, Router};
use crate::section::Section;

pub(crate) use link::{Link, links};
pub(crate) use own::{own_addresses, own_networks};
pub(crate) use reverse_path::{FILTERS, KEY as REVERSE_PATH};
pub(crate) use route::{SPREAD, is_other_route, is_six_neighbour};

/// Smallest, largest and default number of neighbours of a router.
const LEAST_NEIGHBOURS: u32 = 64;
const MOST_NEIGHBOURS: u32 = 65_536;
const DEFAULT_NEIGHBOURS: u32 = bootinfo::DEFAULT_NEIGHBOURS;

/// Settings of a router about forwarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    /// Number of neighbours of both families that it knows at most.
    pub neighbours: u32,
    /// True if it sends redirects.
    pub redirects: bool,
    /// Static routes whose destination or gateway is an IPv6 one, in the order of the file.
    pub routes6: Vec<Route6>,
    /// Static routes with several gateways, in the order of the file.
    pub spread: Vec<SpreadRoute>,
    /// Static routes of both families by which nothing is forwarded, in the order of the file.
    pub refused: Vec<RefusedRoute>,
    /// Static IPv6 neighbours, which need no solicitation.
    pub neighbours6: Vec<Neighbour6>,
    /// Interfaces for VLANs of its NICs, in the order of the file.
    pub interfaces: Vec<Interface>,
}

impl Default for Forwarding {
    fn default() -> Self {
        Self {
            neighbours: DEFAULT_NEIGHBOURS,
            redirects: false,
            routes6: Vec::new(),
            spread: Vec::new(),
            refused: Vec::new(),
            neighbours6: Vec::new(),
            interfaces: Vec::new(),
        }
    }
}

/// Key `neighbours` of a router.
pub(crate) const NEIGHBOURS: Entry<Router> = Entry::new(
    "neighbours",
    ("64 to 65536", "4096"),
    "most neighbours that it knows, IPv4 and IPv6 together",
    Change::Replaces,
    |router| Some(Value::Number(router.forwarding.neighbours)),
);

/// Key `redirects` of a router.
pub(crate) const REDIRECTS: Entry<Router> = Entry::new(
    "redirects",
    ("true, false", "false"),
    "tell a host that its next hop is on its own network",
    Change::Replaces,
    |router| router.forwarding.redirects.then(|| Value::Text("true".to_owned())),
);

/// Reads the settings of a router with these NICs.
pub(crate) fn read(section: &Section<'_>, nics: &[Nic]) -> Forwarding {
    let interfaces = interface::read(section, nics);
    let links = links(nics, &interfaces);
    Forwarding {
        neighbours: section.number("neighbours", LEAST_NEIGHBOURS..=MOST_NEIGHBOURS, DEFAULT_NEIGHBOURS),
        redirects: section.flag("redirects", false),
        routes6: route::routes(section, &links),
        spread: spread::routes(section, &links),
        refused: refused::routes(section, &links),
        neighbours6: route::neighbours(section, &links),
        interfaces,
    }
}
