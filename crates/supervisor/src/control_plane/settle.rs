//! Brings the settings of a router into its control namespace, and follows their changes.

use std::io;

use anyhow::{Context, Result};
use config::Router;
use config::forwarding::{Interface, RefusedRoute, RouteType};
use netlink::{Kind, Netlink, Route, RouteId, RouteKind, Settings};
use rustix::io::Errno;

use super::namespace::ControlNamespace;
use super::taught::MAIN;
use super::wanted;

/// Protocol of routes of the file (RTPROT_*), as kernel routers have it.
const PROTOCOL: u8 = 114;

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
    namespace.apply(wanted::of(now))?;
    let former = before.map_or(&[][..], |before| &before.forwarding.refused[..]);
    refuse(&kernel, former, &now.forwarding.refused)
}

/// Brings routes by which nothing is forwarded into force.
fn refuse(kernel: &Netlink, before: &[RefusedRoute], now: &[RefusedRoute]) -> Result<()> {
    let doing = |own: &RefusedRoute| format!("setting the route to {}", own.to);
    for own in before.iter().filter(|own| !now.contains(own)) {
        let gone = refused(own).map_or(Ok(()), |route| kernel.remove_route(&route));
        unless(gone, Errno::SRCH).with_context(|| doing(own))?;
    }
    for own in now {
        let set = refused(own).map_or(Ok(()), |route| kernel.insert_route(&route));
        unless(set, Errno::EXIST).with_context(|| doing(own))?;
    }
    Ok(())
}

fn refused(own: &RefusedRoute) -> Option<Route> {
    let kind = match own.kind {
        RouteType::Blackhole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
    };
    let id = RouteId { table: MAIN, to: wanted::prefix(own.to)?, tos: 0, metric: 0 };
    Some(Route { id, kind, next_hops: Vec::new(), group: None, protocol: PROTOCOL })
}

/// An interface for a VLAN, on the shadow of its NIC.
#[derive(PartialEq, Eq)]
struct Vlan<'r> {
    name: &'r str,
    nic: &'r str,
    id: u16,
}

fn vlan<'r>(router: &'r Router, own: &'r Interface) -> Option<Vlan<'r>> {
    Some(Vlan { name: &own.name, nic: &router.nics.get(own.nic)?.name, id: own.tags.id })
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
        // It may have gone with its NIC.
        unless(kernel.delete_link(self.name), Errno::NODEV)
            .with_context(|| format!("deleting the interface {}", self.name))
    }
}

/// Takes an error with this number for success.
pub(super) fn unless(outcome: io::Result<()>, fine: Errno) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(fine.raw_os_error()) => Ok(()),
        other => other,
    }
}
