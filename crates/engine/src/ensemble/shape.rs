//! Which parts of a group are fixed while it runs, and which of its members a plan wants to serve.

use anyhow::{Result, ensure};
use config::forwarding::Interface;
use config::{Group, GroupKind, Nic, Plan, Router};

/// Returns true if a plan wants a member of a group to run, with no cable pulled that is in for the others: at a cable that is pulled for
/// all, no member is probed.
pub(super) fn has_serving(plan: &Plan, group: &Group, name: &str) -> bool {
    let is_in = |(nic, of_all): (&Nic, &Nic)| !nic.is_pulled() || of_all.is_pulled();
    // A balancer that is a virtual machine has two NICs for each of the group.
    let of_all = || group.pattern.nics.iter().cycle();
    let serves = |router: &Router| !router.is_stopped() && router.nics.iter().zip(of_all()).all(is_in);
    // The plan of a data plane does not contain members that are served elsewhere: their probes tell whether they forward.
    let is_behind = || group.is_elsewhere(name);
    plan.routers.iter().find(|router| router.name == name).map_or_else(is_behind, serves)
}

/// Returns the parts of a group that are fixed while its members run.
pub(super) fn shape(group: &Group) -> (&str, GroupKind, Vec<Nic>, &[Interface]) {
    let nics = group.pattern.nics.iter().map(|nic| Nic { link: None, ..nic.clone() });
    let mut kind = group.kind.clone();
    if let GroupKind::Multistage(stages) = &mut kind {
        // The number of balancers and the placement of their threads may change.
        (stages.balancers, stages.pin) = Default::default();
    }
    (&group.name, kind, nics.collect(), &group.pattern.forwarding.interfaces)
}

/// Refuses changes of a group that are impossible while its members run.
pub(super) fn may_become((before, after): (&Group, &Group), plan: &Plan) -> Result<()> {
    let ((name, kind, nics, vlans), (_, other_kind, other_nics, other_vlans)) = (shape(before), shape(after));
    ensure!(kind == other_kind, "group {name}: its kind stays as long as it runs: start the run anew");
    let (most, wanted) = (before.balancers(), after.balancers());
    ensure!(
        wanted <= most || after.has_machines(),
        "group {name}: it has {most} balancers while the run lasts, too few for {wanted}: start the run anew"
    );
    ensure!(
        before.pattern.control.is_some() == after.pattern.control.is_some(),
        "group {name}: whether it has a control plane stays as long as it runs: start the run anew"
    );
    ensure!(
        (&nics, vlans) == (&other_nics, other_vlans) || plan.members(name).all(Router::is_isolated),
        "group {name}: its NICs stay as long as it runs, as its members are no virtual machines: start the run anew"
    );
    let has_ports = kind == GroupKind::Parallel && nics.iter().any(|nic| nic.attach.kind() == "switch");
    ensure!(
        before.spread == after.spread || !has_ports,
        "group {name}: its spread stays as long as it runs, as ports of switches are made with it: start the run anew"
    );
    Ok(())
}
