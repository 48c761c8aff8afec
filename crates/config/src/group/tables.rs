//! Which groups have one route table and one neighbour table for all of their members.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Group;
use crate::forwarding::Destination;
use crate::plan::{Plan, Router};

impl Group {
    /// Whether it takes part in IPv6.
    pub fn has_six(&self) -> bool {
        let vlans = self.pattern.forwarding.interfaces.iter().map(|own| &own.six);
        self.pattern.nics.iter().map(|nic| &nic.six).chain(vlans).any(|six| !six.addresses.is_empty())
    }

    /// Whether its members have one route table and one neighbour table, which the host writes.
    pub fn shares_tables(&self) -> bool {
        let Router { forwarding, .. } = &self.pattern;
        let is_six = |to: &Destination| matches!(to, Destination::V6(_));
        let spreads_six = forwarding.spread.iter().any(|route| is_six(&route.to));
        let leads_six = spreads_six || !forwarding.routes6.is_empty() || !forwarding.neighbours6.is_empty();
        let refuses_six = forwarding.refused.iter().any(|route| is_six(&route.to));
        // Whether there are tables for IPv6 depends on addresses alone: with other addresses members are plugged in again. With a
        // control plane, which a group has for its life, there are such tables in any case.
        let has_table = self.has_six() || self.pattern.control.is_some();
        let is_without_six = !has_table && (leads_six || refuses_six);
        !is_without_six && self.pattern.tables() == 1 && !self.pattern.is_in_kernel()
    }

    /// The gateways of its routes by several ones, each with the number of its NIC or interface, where the host sees for all members
    /// whether they answer.
    pub fn common_gateways(&self) -> BTreeSet<(usize, IpAddr)> {
        if !self.shares_tables() {
            return BTreeSet::new();
        }
        let ways = self.pattern.forwarding.spread.iter().flat_map(|route| &route.ways);
        ways.map(|way| (way.nic, way.via)).collect()
    }
}

impl Plan {
    /// The groups whose members have one route table and one neighbour table, each with its members, of which there is one at least.
    pub fn sharing(&self) -> impl Iterator<Item = (&Group, Vec<&Router>)> {
        let groups = self.groups.iter().filter(|group| group.shares_tables());
        let groups = groups.map(move |group| (group, self.members(&group.name).collect::<Vec<_>>()));
        groups.filter(|(_, members)| !members.is_empty())
    }

    /// Whether a router reads the tables of its group, which another process writes.
    pub(crate) fn reads_tables(&self, router: &Router) -> bool {
        let group = router.membership().and_then(|(group, _)| self.group(group));
        group.is_some_and(Group::shares_tables)
    }

    /// Forgets the routes that the supervisor keeps for the members of groups: no other process needs them, but for those by several
    /// gateways of a group, of which the data plane sees whether they answer.
    pub(crate) fn forget_common_routes(&mut self) {
        let routers = std::mem::take(&mut self.routers);
        let without = |mut router: Router| {
            if self.reads_tables(&router) {
                router.forget_routes();
            }
            router
        };
        self.routers = routers.into_iter().map(without).collect();
        for group in self.groups.iter_mut().filter(|group| group.shares_tables()) {
            let spread = std::mem::take(&mut group.pattern.forwarding.spread);
            group.pattern.forget_routes();
            group.pattern.forwarding.spread = spread;
        }
    }
}

impl Router {
    /// Forgets its routes, which are in the common table of its group.
    pub(crate) fn forget_routes(&mut self) {
        self.routes.clear();
        self.forwarding.routes6.clear();
        self.forwarding.refused.clear();
        self.forwarding.spread.clear();
    }
}
