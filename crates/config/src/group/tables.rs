//! Which groups have one route table and one neighbour table for all of their members.

use super::Group;
use crate::forwarding::Destination;
use crate::plan::{Plan, Router};

impl Group {
    /// Whether it takes part in IPv6.
    pub fn has_six(&self) -> bool {
        self.pattern.nics.iter().any(|nic| !nic.six.addresses.is_empty())
    }

    /// Whether its members have one route table and one neighbour table, which the host writes. A member with routes by several
    /// gateways has a table of its own: it tells its own host which of them it does not reach.
    pub fn shares_tables(&self) -> bool {
        let Router { forwarding, .. } = &self.pattern;
        let leads_six = !forwarding.routes6.is_empty() || !forwarding.neighbours6.is_empty();
        let refuses_six = forwarding.refused.iter().any(|route| matches!(route.to, Destination::V6(_)));
        // Whether there are tables for IPv6 depends on addresses alone: with other addresses members are plugged in again.
        let is_without_six = !self.has_six() && (leads_six || refuses_six);
        let is_plain = forwarding.spread.is_empty() && forwarding.interfaces.is_empty();
        // What a control plane finds is taught to each member by itself.
        self.pattern.control.is_none()
            && is_plain
            && !is_without_six
            && self.pattern.tables() == 1
            && !self.pattern.is_in_kernel()
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

    /// Forgets the routes that the supervisor keeps for the members of groups: nobody else needs to know them.
    pub(crate) fn forget_common_routes(&mut self) {
        let routers = std::mem::take(&mut self.routers);
        let without = |mut router: Router| {
            if self.reads_tables(&router) {
                router.forget_routes();
            }
            router
        };
        self.routers = routers.into_iter().map(without).collect();
        let groups = self.groups.iter_mut().filter(|group| group.shares_tables());
        groups.for_each(|group| group.pattern.forget_routes());
    }
}

impl Router {
    /// Forgets its routes, which are in the common table of its group.
    pub(crate) fn forget_routes(&mut self) {
        self.routes.clear();
        self.forwarding.routes6.clear();
        self.forwarding.refused.clear();
    }
}
