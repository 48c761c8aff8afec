//! What a running group can become.

use anyhow::{Result, ensure};
use config::{Group, GroupKind, Nic, Plan, Router};

/// What of a group stays as long as its members run.
pub(super) fn shape(group: &Group) -> (&str, GroupKind, Vec<Nic>) {
    let nics = group.pattern.nics.iter().map(|nic| Nic { link: None, ..nic.clone() });
    let mut kind = group.kind.clone();
    if let GroupKind::Multistage(stages) = &mut kind {
        // Some may be cut.
        stages.balancers = 0;
    }
    (&group.name, kind, nics.collect())
}

/// Refuses what a group cannot become while its members run.
pub(super) fn may_become((before, after): (&Group, &Group), plan: &Plan) -> Result<()> {
    let ((name, kind, nics), (_, other_kind, other_nics)) = (shape(before), shape(after));
    ensure!(kind == other_kind, "group {name}: its kind stays as long as it runs: start the run anew");
    let (most, wanted) = (before.balancers(), after.balancers());
    ensure!(
        wanted <= most,
        "group {name}: it has {most} balancers while the run lasts, too few for {wanted}: start the run anew"
    );
    ensure!(
        nics == other_nics || plan.members(name).all(Router::is_isolated),
        "group {name}: its NICs stay as long as it runs, as its members are no virtual machines: start the run anew"
    );
    let has_ports = kind == GroupKind::Parallel && nics.iter().any(|nic| nic.attach.kind() == "switch");
    ensure!(
        before.spread == after.spread || !has_ports,
        "group {name}: its spread stays as long as it runs, as ports of switches are made with it: start the run anew"
    );
    Ok(())
}
