//! Objects of a namespace that are, or were, in the router's configuration. All others belong to other
//! programs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::Prefix;

use crate::{Origin, RouterConfig};

/// Objects that are, or were, configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManagedObjects {
    /// Addresses by interface.
    pub(crate) addresses: BTreeSet<(String, Prefix)>,
    /// Neighbours by interface and address.
    pub(crate) neighbours: BTreeSet<(String, IpAddr)>,
    /// Interfaces that others provide.
    pub(crate) given: BTreeSet<String>,
    /// Interfaces with threaded NAPI, in the present, the former or the new configuration.
    pub(crate) threaded: BTreeSet<String>,
    /// Pairs with a queueing discipline at the other end, in the present, the former or the new configuration.
    pub(crate) queued: BTreeSet<String>,
    /// True if there is a VRF in one of the configurations.
    pub(crate) has_vrfs: bool,
}

impl ManagedObjects {
    /// Adds the objects of a configuration.
    pub(crate) fn with(mut self, wanted: &RouterConfig) -> Self {
        for interface in &wanted.interfaces {
            let name = &interface.name;
            self.addresses.extend(interface.addresses.iter().map(|own| (name.clone(), *own)));
            self.given.extend((interface.origin == Origin::External).then(|| name.clone()));
            self.threaded.extend(interface.threaded.then(|| name.clone()));
            self.queued.extend(interface.queue.map(|_| name.clone()));
            self.has_vrfs |= interface.is_vrf();
        }
        let neighbours = wanted.neighbours.iter().map(|one| (one.interface.clone(), one.ip));
        self.neighbours.extend(neighbours);
        self
    }
}
