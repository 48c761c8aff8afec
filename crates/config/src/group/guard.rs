//! Groups that a file may describe and that this version cannot run.

use super::{Group, GroupKind, Interconnect};
use crate::fault::Fault;
use crate::forwarding::ReversePath;
use crate::plan::{Nic, Plan};

impl Plan {
    /// Reports the parts of the plan's groups that this version cannot run.
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

/// Refuses VLANs with members that run elsewhere, whose ARP in VLANs is not handled, and second tags at a bridge, which passes one tag
/// beyond its MTU.
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

/// Returns true if some of its members run outside of the data plane.
fn is_elsewhere(group: &Group) -> bool {
    group.pattern.is_in_kernel() || group.remote_members().next().is_some()
}

/// Refuses settings of a NIC that its members cannot have together. With `rpf` a route has to lead back to the source of probes, and routes
/// of members that run elsewhere are not ours.
fn of_forwarding(group: &Group, nic: &Nic) -> Option<(&'static str, &'static str)> {
    let what = "a group with kernel routers or back ends on other hosts has no filter of sources in this version; write rpf = \"off\"";
    let filter = (is_elsewhere(group) && nic.reverse_path != ReversePath::Off).then_some(("rpf", what));
    of_six(group, nic).or(filter)
}

/// Refuses IPv6 settings that its members cannot have together. A back end on another host does duplicate address detection for its
/// addresses, which all members share. Our switch, and the NICs of members that the data plane serves, keep that from others; a bridge does
/// not.
fn of_six(group: &Group, nic: &Nic) -> Option<(&'static str, &'static str)> {
    let GroupKind::Multistage(stages) = &group.kind else { return None };
    let is_in_kernel = group.pattern.is_in_kernel();
    if nic.six.addresses.is_empty() {
        return None;
    }
    if stages.remote > 1 {
        let what = "back ends on other hosts that one bridge leads to take each other's IPv6 addresses for a stranger's; write remote = 1, \
                    or tunnels and interconnect = \"switch\"";
        return Some(("address", what));
    }
    if stages.remote > 0 && is_in_kernel {
        let what = "kernel routers at a bridge take the IPv6 addresses of a back end on another host for a stranger's; write \
                    engine = \"kvm\", or tunnels and interconnect = \"switch\"";
        return Some(("address", what));
    }
    let what = "kernel routers in a group advertise nothing in this version; remove [group.nic.ra], or write engine = \"kvm\"";
    (is_in_kernel && nic.six.advertise.is_some()).then_some(("ra", what))
}
