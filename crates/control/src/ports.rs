//! Interfaces of the control namespace as NICs of the router.

use std::collections::{BTreeMap, HashMap};

use netlink::{Change, Link};

/// Port of the router: a NIC, or a VLAN of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Number of the NIC; where interfaces for VLANs are numbered behind the NICs, that of either.
    pub nic: u8,
    /// VLAN; 0: the NIC itself, or whatever has its number.
    pub vlan: u16,
}

/// Ports by the index of their shadow interface.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    by_name: BTreeMap<String, Port>,
    by_index: HashMap<u32, Port>,
}

impl Ports {
    /// Ports of a router, by the names of their shadow interfaces. None is there yet.
    pub fn new(named: impl IntoIterator<Item = (String, Port)>) -> Self {
        Self { by_name: named.into_iter().collect(), by_index: HashMap::new() }
    }

    /// Takes a change of an interface. A macvlan on top of a shadow (VRRP's) is the shadow's port; no other interface there
    /// is, as its frames have a tag or another header. Returns true if the meaning of an index has changed.
    pub fn take(&mut self, change: &Change<Link>) -> bool {
        match change {
            Change::Set(link) => self.set(link.index, self.port_of(link)),
            Change::Gone(link) => self.set(link.index, None),
        }
    }

    /// Port with this shadow.
    pub fn get(&self, index: u32) -> Option<Port> {
        self.by_index.get(&index).copied()
    }

    fn port_of(&self, link: &Link) -> Option<Port> {
        let named = self.by_name.get(&link.name).copied();
        named.or_else(|| self.get(link.lower.filter(|_| link.is_macvlan)?))
    }

    fn set(&mut self, index: u32, port: Option<Port>) -> bool {
        let before = match port {
            Some(port) => self.by_index.insert(index, port),
            None => self.by_index.remove(&index),
        };
        before != port
    }
}

#[cfg(test)]
mod tests;
