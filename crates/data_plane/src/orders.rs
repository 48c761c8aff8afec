//! From the supervisor's orders to a plan and what it stands on.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use attach::Handed;
use config::{HostFacts, Pin, Plan};
use engine::{Images, Supplies};
use link::{Need, Orders, Supply};

use super::wire::Wire;

/// Orders that were understood.
pub(super) struct Order {
    pub(super) plan: Plan,
    pub(super) supplies: Supplies,
    pub(super) locks: Vec<OwnedFd>,
}

/// Reads the file and takes each descriptor for what it is said to be.
///
/// # Errors
/// The file is not a good one, or descriptors are missing.
pub(super) fn understand(orders: &Orders, descriptors: Vec<OwnedFd>, wire: &Arc<Wire>) -> Result<Order> {
    let mut plan = match orders.apart {
        Some(_) => config::parse_part(&orders.text, &orders.file)?,
        None => config::parse(&orders.text, &orders.file)?,
    };
    // The supervisor has asked the host.
    plan.choose_engines(&HostFacts { no_kvm: orders.no_kvm.clone(), ..HostFacts::default() });
    if let Some(name) = &orders.apart {
        plan = plan
            .of_apart(name)
            .with_context(|| format!("no router {name} is to have a process of its own"))?;
    }
    // It places no threads: the supervisor does, and tells nobody here where they are.
    plan.routers.iter_mut().for_each(|router| router.pin = Pin::default());
    let mut supplies =
        Supplies { spawner: Some(wire.clone()), threads: Some(wire.clone()), ..Supplies::default() };
    let (mut locks, mut left) = (Vec::new(), descriptors.into_iter());
    for Supply { need, of, what, descriptors: count } in orders.supplies.clone() {
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
