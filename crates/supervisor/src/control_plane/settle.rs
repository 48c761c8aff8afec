//! Brings the settings of a router into its control namespace, and follows their changes.

use std::io;

use anyhow::{Context, Result};
use config::forwarding::Interface;
use config::{Nic, Router};
use netlink::{Kind, Netlink, Settings};
use rustix::io::Errno;

use super::namespace::ControlNamespace;
use super::wanted;

/// Brings the settings of `now` into force; `before`: those that are.
///
/// # Errors
/// One line: what the kernel refuses.
pub(super) fn settle(namespace: &ControlNamespace, before: Option<&Router>, now: &Router) -> Result<()> {
    let kernel = namespace.namespace().netlink()?;
    let kept = now.forwarding.interfaces.iter().filter_map(|own| vlan(now, own));
    let kept: Vec<Vlan<'_>> = kept.collect();
    if let Some(before) = before {
        let former = before.forwarding.interfaces.iter().filter_map(|own| vlan(before, own));
        former.filter(|vlan| !kept.contains(vlan)).try_for_each(|vlan| vlan.delete(&kernel))?;
    }
    kept.iter().try_for_each(|vlan| vlan.make(&kernel))?;
    namespace.apply(wanted::of(now))
}

/// An interface for a VLAN, on the shadow of its NIC.
#[derive(PartialEq, Eq)]
struct Vlan<'r> {
    name: &'r str,
    nic: &'r str,
    id: u16,
}

fn vlan<'r>(router: &'r Router, own: &'r Interface) -> Option<Vlan<'r>> {
    let Nic { name: nic, .. } = router.nics.get(own.nic)?;
    Some(Vlan { name: &own.name, nic, id: own.tags.id })
}

impl Vlan<'_> {
    fn make(&self, kernel: &Netlink) -> Result<()> {
        if kernel.link(self.name).is_ok() {
            return Ok(());
        }
        let making = || format!("making the interface {} of VLAN {}", self.name, self.id);
        let lower = kernel.link(self.nic).with_context(making)?.index;
        let named = Settings::default().name(self.name);
        kernel.make_link(Kind::Vlan { lower, id: self.id }, &named).with_context(making)
    }

    fn delete(&self, kernel: &Netlink) -> Result<()> {
        match kernel.delete_link(self.name) {
            // It has gone with its NIC.
            Err(error) if is(&error, Errno::NODEV) => Ok(()),
            other => other.with_context(|| format!("deleting the interface {}", self.name)),
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
