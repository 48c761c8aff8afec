//! How a router forwards: IPv6 routes and neighbours, IPv4 routes by IPv6 gateways (RFC 8950), routes with several gateways,
//! VRFs, interfaces for VLANs, the sizes of route and neighbour tables, redirects.

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

use crate::fault::Fault;
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
/// Spare room of a route table, in /24 networks with longer prefixes: the most for all tables of a router together, which is a GiB of
/// address space; by default; and by default where routes come while the table cannot move.
const MOST_LONG_ROUTES: u32 = 1 << 20;
const DEFAULT_LONG_ROUTES: u32 = 4096;
const LASTING_LONG_ROUTES: u32 = 32_768;

/// Settings of a router about forwarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    /// Number of neighbours of both families that it knows at most.
    pub neighbours: u32,
    /// Number of /24 networks with longer prefixes for which a route table has room beyond those of the file; `None`: the file does not
    /// say it, and [`Router::long_routes`] decides.
    pub long_routes: Option<u32>,
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
            long_routes: None,
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

/// Key `long_routes` of a router.
pub(crate) const LONG_ROUTES: Entry<Router> = Entry::new(
    "long_routes",
    ("0 to 1048576", "4096; 32768 in a group or with a control plane"),
    "room of its route table for so many /24 networks with longer prefixes, beyond those of the file",
    Change::Replaces,
    |router| router.forwarding.long_routes.map(Value::Number),
);

/// Key `redirects` of a router.
pub(crate) const REDIRECTS: Entry<Router> = Entry::new(
    "redirects",
    ("true, false", "false"),
    "tell a host that its next hop is on its own network",
    Change::Replaces,
    |router| router.forwarding.redirects.then(|| Value::Text("true".to_owned())),
);

impl Router {
    /// Number of /24 networks with longer prefixes for which each of its route tables has room beyond those of the file. A group's table,
    /// and one that a control plane fills, cannot move when routes come.
    pub fn long_routes(&self) -> u32 {
        let is_lasting = self.control.is_some() || self.membership().is_some();
        let default = if is_lasting { LASTING_LONG_ROUTES } else { DEFAULT_LONG_ROUTES };
        self.forwarding.long_routes.unwrap_or(default)
    }
}

/// Reports a router whose route tables are to have more room than there is for all of them.
pub(crate) fn verify(index: usize, router: &Router, faults: &mut Vec<Fault>) {
    let tables = router.tables() as u32;
    let most = MOST_LONG_ROUTES / tables;
    if let Some(long) = router.forwarding.long_routes.filter(|long| *long > most) {
        let what = format!("{long} for each of {tables} route tables are too many; write at most {most}");
        faults.push(Fault::new(index, "long_routes", what));
    }
}

/// Reads the settings of a router with these NICs.
pub(crate) fn read(section: &Section<'_>, nics: &[Nic]) -> Forwarding {
    let interfaces = interface::read(section, nics);
    let links = links(nics, &interfaces);
    let long_routes = section.number("long_routes", 0..=MOST_LONG_ROUTES, DEFAULT_LONG_ROUTES);
    Forwarding {
        long_routes: section.has("long_routes").then_some(long_routes),
        neighbours: section.number("neighbours", LEAST_NEIGHBOURS..=MOST_NEIGHBOURS, DEFAULT_NEIGHBOURS),
        redirects: section.flag("redirects", false),
        routes6: route::routes(section, &links),
        spread: spread::routes(section, &links),
        refused: refused::routes(section, &links),
        neighbours6: route::neighbours(section, &links),
        interfaces,
    }
}
