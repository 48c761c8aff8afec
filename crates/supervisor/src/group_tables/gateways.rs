//! Gateways of groups whose members have one route table: the data plane sees for all members which of them do not answer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use config::learned::LearnedGateway;
use engine::next_hop_changes;
use telemetry::Kind;

use super::GroupTables;
use crate::Supervisor;

/// A gateway: the number of its NIC, and its address.
type Gateway = (usize, IpAddr);

impl GroupTables {
    /// Has the flows of a group avoid these gateways, and no others; returns those that were avoided before. `None`: its members have no
    /// table in common.
    pub(super) fn avoid(&self, group: &str, gateways: BTreeSet<Gateway>) -> Option<BTreeSet<Gateway>> {
        Some(self.open.groups.get(group)?.routes.set_down(gateways))
    }

    /// The gateways of the routes by several ones that a group has.
    fn ways(&self, group: &str) -> BTreeSet<Gateway> {
        self.open.groups.get(group).map(|tables| tables.routes.ways()).unwrap_or_default()
    }
}

impl Supervisor {
    /// The data plane has told which gateways of a group do not answer: all of them. It is believed nothing of those that the group does
    /// not have, or has no more.
    pub(crate) fn avoid_gateways(&mut self, group: &str, silent: &[LearnedGateway], at: Instant) {
        let gateway = |told: &LearnedGateway| (usize::from(told.link), told.ip);
        let now: BTreeSet<Gateway> = silent.iter().map(gateway).collect();
        let Some(before) = self.resources.tables.avoid(group, now.clone()) else { return };
        let ways = self.resources.tables.ways(group);
        let (before, now) = (&before & &ways, &now & &ways);
        let pattern = self.running.plan.group(group).map(|group| &group.pattern);
        let lines = pattern.map_or_else(Vec::new, |pattern| next_hop_changes(pattern, &before, &now));
        for line in lines {
            let line = format!("group {group}: {line}");
            self.events.record_from_data_plane(Kind::Notice.name(), None, line, at);
            self.display.leave();
        }
    }
}
