//! Requirements of a plan's attachments, and whether this host meets them.

use attach::NicRequirements;
use config::Plan;

use crate::{Finding, State, net_admin, tun_device};

/// A finding for each NIC with an external attachment, preceded by common requirements.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.links().any(|wanted| wanted.needs_tun()) {
        findings.push(tun_device());
    }
    if plan.links().any(|wanted| wanted.in_kernel || wanted.attach.traits().changes_interfaces) {
        findings.push(net_admin());
    }
    findings.extend(plan.links().filter_map(|wanted| finding(&wanted)));
    findings
}

/// Finding about one NIC; `None` if it needs nothing external.
fn finding(wanted: &NicRequirements) -> Option<Finding> {
    let (state, meaning) = match wanted.look() {
        Ok(found) => found?,
        Err(lacks) => (State::No, lacks.into_iter().next()?.1),
    };
    Some(Finding::new(state, wanted.label(), wanted.attach.to_string(), meaning))
}
