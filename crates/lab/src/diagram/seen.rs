//! Interfaces and threads that exist while a topology runs.

use std::collections::{BTreeMap, BTreeSet};

/// Existing interfaces and threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Interfaces outside of the routers.
    pub outside: BTreeSet<String>,
    /// Interfaces in the namespace of each kernel or container router.
    pub inside: BTreeMap<String, BTreeSet<String>>,
    /// Other ends of veth pairs outside of the routers, where frames of the load enter and leave, by the end next to the router.
    pub other_ends: BTreeMap<String, String>,
    /// Roles of the threads of each router, group (`lb0`), and member: `vcpu0`.
    pub threads: BTreeMap<String, BTreeSet<String>>,
    /// Ports of the bridge that joins the stages of a group, by its name.
    pub ports: BTreeMap<String, BTreeSet<String>>,
}

/// Parses the names in the table of interfaces, /proc/net/dev (proc(5)).
pub(crate) fn interfaces(table: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
    table.lines().filter_map(name).collect()
}
