//! The interfaces and threads of a topology that exist.

use std::collections::{BTreeMap, BTreeSet};

/// Interfaces and threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Interfaces outside of the routers.
    pub outside: BTreeSet<String>,
    /// The interfaces in each router's namespace, where the host's kernel forwards.
    pub inside: BTreeMap<String, BTreeSet<String>>,
    /// The other ends of veth pairs outside of the routers: the load goes in and comes out there.
    pub other_ends: BTreeMap<String, String>,
    /// The roles of each router's threads: `vcpu0`.
    pub threads: BTreeMap<String, BTreeSet<String>>,
}

/// The names in the table of interfaces, /proc/net/dev (proc(5)).
pub(crate) fn interfaces(table: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
    table.lines().filter_map(name).collect()
}
