//! Conversion of the supervisor's orders into a plan and the resources for it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use attach::Handed;
use config::Plan;
use engine::{Images, Supplies};
use link::{Need, Orders, Supply};

use super::wire::Wire;

/// Decoded orders.
pub(super) struct Order {
    pub(super) plan: Plan,
    pub(super) supplies: Supplies,
    pub(super) locks: Vec<OwnedFd>,
}

/// Decodes orders, and assigns each descriptor its declared purpose.
///
/// # Errors
/// Descriptors are missing, or have the wrong type.
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
