//! What each attachment of a plan needs of this host, and whether it is there.

use attach::Traits;
use config::{Nic, Plan, Router};

use crate::{Finding, State, net_admin, tun_device};

/// One line for each NIC that is plugged into something outside, and before them what several need.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let any = |wanted: fn(Traits) -> bool| plan.nics().any(|(_, nic)| wanted(nic.attach.traits()));
    if any(|traits| traits.needs_tun) {
        findings.push(tun_device());
    }
    if any(|traits| traits.changes_interfaces) {
        findings.push(net_admin());
    }
    findings.extend(plan.nics().filter_map(|(router, nic)| finding(router, nic)));
    findings
}

/// What is to be said of one NIC; nothing where nothing outside is needed.
fn finding(router: &Router, nic: &Nic) -> Option<Finding> {
    let wanted = router.wanted(nic);
    let (state, meaning) = match wanted.look() {
        Ok(found) => found?,
        Err(lacks) => (State::No, lacks.into_iter().next()?.1),
    };
    Some(Finding::new(state, wanted.label(), nic.attach.to_string(), meaning))
}
