//! Routes that are not zebra's: of connected networks, local addresses, and those that somebody adds with `ip route`. The kernel
//! reports them; where there is one, it precedes zebra's route to the same network, as it does for zebra.

use std::collections::BTreeMap;

use crate::rib::{Key, Target};

/// Route of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalRoute {
    pub(crate) metric: u32,
    pub(crate) protocol: u8,
    pub(crate) target: Target,
}

impl LocalRoute {
    fn is(&self, other: &Self) -> bool {
        (self.metric, self.target) == (other.metric, other.target)
    }
}

/// Routes of the kernel by destination, for each the one with the smallest metric first; with equal metrics the oldest.
#[derive(Debug, Default)]
pub(crate) struct LocalRoutes {
    routes: BTreeMap<Key, Vec<LocalRoute>>,
}

impl LocalRoutes {
    /// Adds a route; returns false if it was there, perhaps with another protocol.
    pub(crate) fn add(&mut self, key: Key, route: LocalRoute) -> bool {
        let routes = self.routes.entry(key).or_default();
        if let Some(same) = routes.iter_mut().find(|other| other.is(&route)) {
            *same = route;
            return false;
        }
        let at = routes.partition_point(|other| other.metric <= route.metric);
        routes.insert(at, route);
        true
    }

    /// Removes a route, given by its metric and target; returns whether it was there.
    pub(crate) fn remove(&mut self, key: Key, route: LocalRoute) -> bool {
        let Some(routes) = self.routes.get_mut(&key) else { return false };
        let Some(at) = routes.iter().position(|other| other.is(&route)) else { return false };
        routes.remove(at);
        if routes.is_empty() {
            self.routes.remove(&key);
        }
        true
    }

    /// The route that holds.
    pub(crate) fn get(&self, key: Key) -> Option<&LocalRoute> {
        self.routes.get(&key)?.first()
    }
}
