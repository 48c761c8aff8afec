//! What a file may say of groups and this version cannot run.

use super::{Group, GroupKind, Interconnect};
use crate::fault::Fault;
use crate::forwarding::ReversePath;
use crate::plan::{Nic, Plan};

impl Plan {
    /// What this version cannot run of what the plan says of groups.
    pub fn not_yet(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for group in &self.groups {
            let first = self.routers.iter().position(|router| router.name == group.member(0));
            let index = first.unwrap_or_default();
            faults.extend(of_group(group).map(|(key, what)| Fault::new(index, key, what)));
            for (n, nic) in group.pattern.nics.iter().enumerate() {
                let what = of_forwarding(group, nic);
                faults.extend(what.map(|(key, what)| Fault::of_nic(index, n, key, what.to_owned())));
            }
        }
        faults
    }
}

/// What VLANs do not go with: ARP of members that run elsewhere is not heard there. A bridge has room for one tag beyond its MTU.
fn of_group(group: &Group) -> Option<(&'static str, &'static str)> {
    let interfaces = &group.pattern.forwarding.interfaces;
    if interfaces.is_empty() {
        return None;
    }
    if is_elsewhere(group) {
        let what = "a group with kernel routers or back ends on other hosts has no interfaces for VLANs in this version; remove [[group.interface]]";
        return Some(("name", what));
    }
    let is_bridged =
        matches!(&group.kind, GroupKind::Multistage(stages) if stages.interconnect != Interconnect::Switch);
    let what = "a bridge passes frames with one tag beyond its MTU, not with two; remove outer, or write interconnect = \"switch\"";
    let is_refused = is_bridged && interfaces.iter().any(|own| own.tags.outer.is_some());
    is_refused.then_some(("interconnect", what))
}

/// Whether some of its members run outside of the data plane.
fn is_elsewhere(group: &Group) -> bool {
    group.pattern.is_in_kernel() || group.remote_members().next().is_some()
}

/// What of a NIC's forwarding its members cannot do together: of members that run elsewhere neighbour discovery is not heard, and the
/// routes are not ours, of which one has to lead back to the source of probes.
fn of_forwarding(group: &Group, nic: &Nic) -> Option<(&'static str, &'static str)> {
    let is_elsewhere = is_elsewhere(group);
    if is_elsewhere && !nic.six.addresses.is_empty() {
        let what = "a group with kernel routers or back ends on other hosts has no IPv6 in this version; remove the IPv6 address";
        return Some(("address", what));
    }
    let what = "a group with kernel routers or back ends on other hosts has no filter of sources in this version; write rpf = \"off\"";
    (is_elsewhere && nic.reverse_path != ReversePath::Off).then_some(("rpf", what))
}
