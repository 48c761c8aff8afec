//! Requirements of a plan's attachments, and whether this host meets them.

use config::{Nic, Plan, Router};

use crate::{Finding, State, net_admin, tun_device};

/// A finding for each NIC with an external attachment, preceded by common requirements.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.nics().any(|(router, nic)| router.wanted(nic).needs_tun()) {
        findings.push(tun_device());
    }
    if plan.nics().any(|(router, nic)| router.is_in_kernel() || nic.attach.traits().changes_interfaces) {
        findings.push(net_admin());
    }
    findings.extend(plan.nics().filter_map(|(router, nic)| finding(router, nic)));
    findings
}

/// Finding about one NIC; `None` if it needs nothing external.
fn finding(router: &Router, nic: &Nic) -> Option<Finding> {
    let wanted = router.wanted(nic);
    let (state, meaning) = match wanted.look() {
        Ok(found) => found?,
        Err(lacks) => (State::No, lacks.into_iter().next()?.1),
    };
    Some(Finding::new(state, wanted.label(), nic.attach.to_string(), meaning))
}
