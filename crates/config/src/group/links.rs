//! What is plugged in for a plan: by each NIC of a router, and by each NIC of a group for all of its members.

use attach::NicRequirements;

use super::{Group, GroupKind, Interconnect};
use crate::plan::{Nic, Plan, Router};

impl Group {
    /// Whether members are plugged into the links of the group itself.
    fn shares_links(&self) -> bool {
        self.kind == GroupKind::Parallel
    }
}

impl Plan {
    /// What is plugged in, as it is wanted: once for each NIC of a router, and once for each NIC of a group, whatever members it has.
    pub fn links(&self) -> impl Iterator<Item = NicRequirements> + '_ {
        let of_routers = self.nics().filter(move |(router, _)| !self.shares_links(router));
        let of_routers = of_routers.map(|(router, nic)| router.wanted(nic));
        let of_group = |group: &Group| -> Vec<NicRequirements> {
            group.pattern.nics.iter().map(|nic| group.wanted(nic)).collect()
        };
        of_routers.chain(self.groups.iter().flat_map(of_group))
    }

    /// Whether a router is a member whose NICs are plugged into the links of its group.
    fn shares_links(&self, router: &Router) -> bool {
        let group = router.membership().and_then(|(group, _)| self.group(group));
        group.is_some_and(Group::shares_links)
    }

    /// What a NIC of a router wants of the host, to be looked at before anything is built; none where that is looked at elsewhere: a
    /// link of a group by its first member.
    pub fn wanted_outside(&self, router: &Router, number: usize) -> Option<NicRequirements> {
        let nic: &Nic = router.nics.get(number)?;
        let Some((group, member)) = router.membership() else { return Some(router.wanted(nic)) };
        let group = self.group(group)?;
        let is_inside = match &group.kind {
            GroupKind::Parallel => false,
            GroupKind::Multistage(stages) => stages.interconnect != Interconnect::Switch,
        };
        if is_inside {
            return Some(router.wanted(nic));
        }
        (member == 0).then(|| group.pattern.nics.get(number).map(|nic| group.wanted(nic))).flatten()
    }
}
