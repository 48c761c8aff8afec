//! What a file may say of groups and this version cannot run.

use super::{Balancer, Group, GroupKind, Interconnect, Spread};
use crate::fault::Fault;
use crate::plan::Plan;

impl Plan {
    /// What this version cannot run of what the plan says of groups.
    pub fn not_yet(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for group in &self.groups {
            let first = self.routers.iter().position(|router| router.name == group.member(0));
            let index = first.unwrap_or_default();
            faults.extend(of_group(group).map(|(key, what)| Fault::new(index, key, what)));
            for (n, nic) in group.pattern.nics.iter().enumerate() {
                let what = of_nic(group, nic.attach.kind());
                faults.extend(what.map(|what| Fault::of_nic(index, n, "attach", what)));
            }
        }
        faults
    }
}

fn of_group(group: &Group) -> impl Iterator<Item = (&'static str, String)> {
    let mut found = Vec::new();
    if let GroupKind::Multistage(stages) = &group.kind {
        if stages.balancer == Balancer::Vm {
            found.push(("name", "balancer = \"vm\" is not in this version; write balancer = \"switch\""));
        }
        if stages.interconnect != Interconnect::Switch {
            found.push(("name", "only interconnect = \"switch\" is in this version; remove interconnect"));
        }
    }
    found.into_iter().map(|(key, what)| (key, what.to_owned()))
}

/// What of an attachment does not go with how the group is built.
fn of_nic(group: &Group, kind: &str) -> Option<String> {
    match (&group.kind, group.spread, kind) {
        (_, _, "xdp") => Some(
            "members cannot share the rings of AF_XDP in this version; write tap:, macvtap: or switch:"
                .to_owned(),
        ),
        (GroupKind::Parallel, Spread::RoundRobin, kind) => Some(format!(
            "spread = \"round-robin\" is for kind = \"multistage\" in this version, not for {kind}: of a parallel group; \
             write spread = \"flow\""
        )),
        _ => None,
    }
}
