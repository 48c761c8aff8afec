//! From the supervisor's orders to a plan and what it stands on.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use config::Plan;
use engine::{Images, Supplies};
use link::{Orders, Supply};
use uplink::Opened;

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
    for supply in orders.supplies.iter() {
        let missing = || format!("the supervisor sent no descriptor for {supply:?}");
        match supply {
            Supply::Kvm => {
                let kvm = left.next().with_context(missing)?;
                supplies.kvm = Some(Arc::new(vmm::vm::adopt_kvm(kvm)?));
            }
            Supply::Images { router } => {
                let plan = plan.routers.iter().find(|plan| plan.name == *router);
                let linux = plan.and_then(|plan| plan.linux.as_ref()).with_context(missing)?;
                let images = Images::adopt(linux, &mut left).with_context(missing)?;
                supplies.images.insert(router.clone(), images);
            }
            Supply::Lock => locks.push(left.next().with_context(missing)?),
            Supply::VhostNets { nic, devices } => {
                let devices: Vec<_> = left.by_ref().take(*devices).collect();
                supplies.vhost_nets.insert(nic.clone(), devices);
            }
            Supply::Uplink { nic, what } => {
                supplies.opened.insert(nic.clone(), Opened::adopt(what, &mut left).with_context(missing)?);
            }
            Supply::Door { nic, what } => {
                let Opened::Door(door) = Opened::adopt(what, &mut left).with_context(missing)? else {
                    bail!("the supervisor sent no door for NIC {nic}");
                };
                supplies.doors.insert(nic.clone(), door);
            }
        }
    }
    Ok(Order { plan, supplies, locks })
}

#[cfg(test)]
mod tests;
