//! From the supervisor's orders to a plan and what it stands on.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use attach::Handed;
use config::Plan;
use engine::{Images, Supplies};
use link::{Need, Orders, Supply};

use super::wire::Wire;

/// Orders that were understood.
pub(super) struct Order {
    pub(super) plan: Plan,
    pub(super) supplies: Supplies,
    pub(super) locks: Vec<OwnedFd>,
}

/// Takes each descriptor for what it is said to be.
///
/// # Errors
/// Descriptors are missing, or are not what they should be.
pub(super) fn understand(orders: Orders, descriptors: Vec<OwnedFd>, wire: &Arc<Wire>) -> Result<Order> {
    let plan = orders.plan;
    let mut supplies =
        Supplies { spawner: Some(wire.clone()), threads: Some(wire.clone()), ..Supplies::default() };
    let (mut locks, mut left) = (Vec::new(), descriptors.into_iter());
    for Supply { need, of, what, descriptors: count } in orders.supplies {
        let missing = || format!("the supervisor sent no descriptor for {need:?} {of}");
        let mut handed = Handed { what, descriptors: left.by_ref().take(count).collect() };
        ensure!(handed.descriptors.len() == count, missing());
        match need {
            Need::Kvm => supplies.kvm = Some(Arc::new(vmm::vm::adopt_kvm(handed.last()?)?)),
            Need::Images => {
                let plan = plan.routers.iter().find(|plan| plan.name == of);
                let linux = plan.and_then(|plan| plan.linux.as_ref()).with_context(missing)?;
                let images = Images::adopt(linux, &mut handed.descriptors.into_iter());
                supplies.images.insert(of.clone(), images.with_context(missing)?);
            }
            Need::Locks => locks.extend(handed.descriptors),
            Need::VhostNets => drop(supplies.vhost_nets.insert(of, handed.descriptors)),
            Need::Uplink => drop(supplies.opened.insert(of, handed)),
            Need::Door => drop(supplies.doors.insert(of, handed)),
        }
    }
    Ok(Order { plan, supplies, locks })
}

#[cfg(test)]
mod tests;
