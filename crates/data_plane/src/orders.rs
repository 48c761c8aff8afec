//! Conversion of the supervisor's orders into a plan and the resources for it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use attach::HandedOver;
use config::Plan;
use engine::{HostServices, Images};
use link::{PlanWithSupplies, Supply, SupplyKind};

use super::wire::LinkEndpoint;

/// Decoded orders.
pub(super) struct Order {
    pub(super) plan: Plan,
    pub(super) supplies: HostServices,
    pub(super) locks: Vec<OwnedFd>,
}

/// Decodes orders, and assigns each descriptor its declared purpose.
///
/// # Errors
/// Descriptors are missing, or have the wrong type.
pub(super) fn understand(
    orders: PlanWithSupplies,
    descriptors: Vec<OwnedFd>,
    wire: &Arc<LinkEndpoint>,
) -> Result<Order> {
    let plan = orders.plan;
    let mut supplies =
        HostServices { spawner: Some(wire.clone()), threads: Some(wire.clone()), ..HostServices::default() };
    let (mut locks, mut left) = (Vec::new(), descriptors.into_iter());
    for Supply { need, of, what, descriptors: count } in orders.supplies {
        let missing = || format!("the supervisor sent no descriptor for {need:?} {of}");
        let mut handed = HandedOver { what, descriptors: left.by_ref().take(count).collect() };
        ensure!(handed.descriptors.len() == count, missing());
        match need {
            SupplyKind::Kvm => supplies.kvm = Some(Arc::new(vmm::vm::adopt_kvm(handed.last()?)?)),
            SupplyKind::Images => {
                let plan = plan.routers.iter().find(|plan| plan.name == of);
                let linux = plan.and_then(|plan| plan.linux.as_ref()).with_context(missing)?;
                let images = Images::adopt(linux, &mut handed.descriptors.into_iter());
                supplies.images.insert(of.clone(), images.with_context(missing)?);
            }
            SupplyKind::Locks => locks.extend(handed.descriptors),
            SupplyKind::VhostNets => drop(supplies.vhost_nets.insert(of, handed.descriptors)),
            SupplyKind::Uplink => drop(supplies.opened.insert(of, handed)),
            SupplyKind::Door => drop(supplies.doors.insert(of, handed)),
            SupplyKind::GroupRoutes => drop(supplies.groups.routes.insert(of, handed.last()?)),
            SupplyKind::GroupNeighbours => {
                drop(supplies.groups.neighbours.insert(of, handed.descriptors));
            }
            SupplyKind::Desk => drop(supplies.groups.desks.insert(of, handed.last()?)),
            SupplyKind::Shadow => drop(supplies.shadows.insert(of, handed)),
        }
    }
    Ok(Order { plan, supplies, locks })
}

#[cfg(test)]
mod tests;
