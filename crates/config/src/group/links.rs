//! What is plugged in for a plan: by each NIC of a router, and by each NIC of a group for all of its members.

use attach::NicRequirements;

use super::{Group, GroupKind, Interconnect};
use crate::plan::{Nic, Plan, Router};

impl Group {
    /// Whether members are plugged into the links of the group itself.
    fn shares_links(&self) -> bool {
        self.kind == GroupKind::Parallel
    }

    /// Whether a NIC of a balancer that is a virtual machine is plugged into the link of the group's NIC of that name.
    fn leads_outside(&self, nic: &str) -> bool {
        self.pattern.nics.iter().any(|own| own.name == nic)
    }

    /// Whether each member is plugged in for itself, into an interconnection that balancers reach by NICs of their own.
    pub fn is_apart(&self) -> bool {
        match &self.kind {
            GroupKind::Parallel => false,
            GroupKind::Multistage(stages) => {
                self.has_machines() || stages.interconnect != Interconnect::Switch
            }
        }
    }
}

impl Plan {
    /// What is plugged in, as it is wanted: once for each NIC of a router, once for each NIC of a group, whatever members it has, and the
    /// tunnels of groups.
    pub fn links(&self) -> impl Iterator<Item = NicRequirements> + '_ {
        let of_routers = self.nics().filter(move |(router, nic)| !self.shares_link(router, nic));
        let of_routers = of_routers.map(|(router, nic)| router.wanted(nic));
        let of_group = |group: &Group| -> Vec<NicRequirements> {
            group.pattern.nics.iter().map(|nic| group.wanted(nic)).collect()
        };
        let of_groups = self.groups.iter().flat_map(of_group);
        of_routers.chain(of_groups).chain(self.tunnelled().map(|(_, wanted)| wanted))
    }

    /// Whether a NIC of a router is plugged into a link of its group: each of a member in parallel, and of a balancer those that lead
    /// outside.
    fn shares_link(&self, router: &Router, nic: &Nic) -> bool {
        let group = router.group().and_then(|group| self.group(group));
        group.is_some_and(|group| match router.balancing() {
            Some(_) => group.leads_outside(&nic.name),
            None => group.shares_links(),
        })
    }

    /// Whether a NIC of a router is plugged into the interconnection of its group.
    pub fn is_interconnected(&self, router: &Router, nic: &Nic) -> bool {
        let group = router.group().and_then(|group| self.group(group));
        group.is_some_and(|group| match router.balancing() {
            Some(_) => !group.leads_outside(&nic.name),
            None => group.is_apart(),
        })
    }

    /// What a NIC of a router wants of the host, to be looked at before anything is built; none where that is looked at elsewhere: a
    /// link of a group by its first member.
    pub fn wanted_outside(&self, router: &Router, number: usize) -> Option<NicRequirements> {
        let nic: &Nic = router.nics.get(number)?;
        let Some(group) = router.group() else { return Some(router.wanted(nic)) };
        let group = self.group(group)?;
        let is_first = match (router.membership(), router.balancing()) {
            (_, Some((_, balancer))) if group.leads_outside(&nic.name) => balancer == 0,
            (_, Some(_)) => return Some(router.wanted(nic)),
            (Some(_), _) if group.is_apart() => return Some(router.wanted(nic)),
            (member, None) => member.is_some_and(|(_, member)| member == 0),
        };
        is_first.then(|| group.pattern.nics.get(number).map(|nic| group.wanted(nic))).flatten()
    }
}
