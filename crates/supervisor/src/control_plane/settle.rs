//! Brings the settings of a router into its control namespace, and follows their changes.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Context, Result, bail};
use config::Router;
use config::forwarding::{Interface, RefusedRoute, SpreadRoute};
use netlink::{Kind, Link, Netlink, NextHop, Route, RouteId, RouteKind, Settings};
use netns::Namespace;
use rustix::io::Errno;

use super::namespace::ControlNamespace;
use super::taught::MAIN;
use super::wanted;
use crate::kernels::plan::{destination, route_kind};

/// Protocol of routes of the file (RTPROT_*), as kernel routers have it.
const PROTOCOL: u8 = 114;
/// Metric of the kernel's IPv6 routes that are given none.
const METRIC_6: u32 = 1024;
/// Index that no interface has: the kernel numbers them from 1 on.
const NOWHERE: u32 = u32::MAX >> 1;

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
    let former = before.map_or(&[][..], |before| &before.forwarding.refused[..]);
    let several = several(&kernel, now)?;
    // What has another kind now would be in the way of its successor.
    withdraw(&kernel, &several)?;
    admit(&kernel, former, &now.forwarding.refused)?;
    namespace.apply(wanted::of(now))?;
    lay(&kernel, &several)?;
    refuse(&kernel, &now.forwarding.refused)
}

/// Removes routes by which nothing is to be forwarded any more.
fn admit(kernel: &Netlink, before: &[RefusedRoute], now: &[RefusedRoute]) -> Result<()> {
    for own in before.iter().filter(|own| !now.contains(own)) {
        let gone = refused(own).map_or(Ok(()), |route| kernel.remove_route(&route));
        unless(gone, Errno::SRCH).with_context(|| format!("removing the route to {}", own.to))?;
    }
    Ok(())
}

/// Brings routes by which nothing is forwarded into force.
fn refuse(kernel: &Netlink, now: &[RefusedRoute]) -> Result<()> {
    for own in now {
        let set = refused(own).map_or(Ok(()), |route| kernel.insert_route(&route));
        unless(set, Errno::EXIST).with_context(|| format!("setting the route to {}", own.to))?;
    }
    Ok(())
}

/// Routes of the file with several gateways. A kernel router has them by groups of next hops, of which the kernel makes none by an
/// interface without carrier; nothing is forwarded here, so that these may have next hops of all.
fn several(kernel: &Netlink, router: &Router) -> Result<Vec<Route>> {
    let wanted = router.forwarding.spread.iter().filter(|own| own.ways.len() > 1);
    let wanted: Vec<&SpreadRoute> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let links: Vec<Link> = kernel.all().context("reading the interfaces of its namespace")?;
    let links: BTreeMap<String, u32> = links.into_iter().map(|link| (link.name, link.index)).collect();
    let route = |own: &SpreadRoute| {
        spread(router, own, &links).with_context(|| format!("the route to {} has no interface", own.to))
    };
    wanted.into_iter().map(route).collect()
}

/// Returns a route with several gateways as the kernel has it; `None`: an interface is missing.
fn spread(router: &Router, own: &SpreadRoute, links: &BTreeMap<String, u32>) -> Option<Route> {
    let to = destination(own.to).ok()?;
    let metric = if to.ip.is_ipv4() { 0 } else { METRIC_6 };
    let hops = own.ways.iter().map(|way| {
        let index = *links.get(router.link_name(way.nic)?)?;
        Some(NextHop { via: Some(way.via), index, weight: way.weight.into() })
    });
    let id = RouteId { table: MAIN, to, tos: 0, metric };
    let next_hops = hops.collect::<Option<Vec<_>>>()?;
    Some(sorted(Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: PROTOCOL }))
}

/// Returns true for routes that [`lay`] has laid.
fn is_laid(route: &Route) -> bool {
    let is_ours = route.protocol == PROTOCOL && route.id.table == MAIN && route.kind == RouteKind::Unicast;
    is_ours && route.group.is_none() && route.next_hops.len() > 1
}

fn sorted(mut route: Route) -> Route {
    route.next_hops.sort();
    route
}

/// Removes routes with several gateways that the file does not have, or not so.
fn withdraw(kernel: &Netlink, kept: &[Route]) -> Result<()> {
    let present = kernel.routes_of_protocol(PROTOCOL, is_laid);
    let present = present.context("reading the routes of its namespace")?;
    for route in present.into_iter().filter(|route| !kept.contains(&sorted(route.clone()))) {
        unless(kernel.remove_route(&route), Errno::SRCH)
            .with_context(|| format!("removing the route to {}", route.id.to))?;
    }
    Ok(())
}

/// Lays routes with several gateways.
fn lay(kernel: &Netlink, wanted: &[Route]) -> Result<()> {
    for route in wanted {
        unless(kernel.insert_route(route), Errno::EXIST)
            .with_context(|| format!("setting the route to {}", route.id.to))?;
    }
    Ok(())
}

fn refused(own: &RefusedRoute) -> Option<Route> {
    let id = RouteId { table: MAIN, to: destination(own.to).ok()?, tos: 0, metric: 0 };
    Some(Route { id, kind: route_kind(own.kind), next_hops: Vec::new(), group: None, protocol: PROTOCOL })
}

/// Asks the kernel whether it has VLANs: for one of an interface that does not exist, so that none is made.
///
/// # Errors
/// One line: it has none.
pub(super) fn may_have_vlans(namespace: &Namespace) -> Result<()> {
    let asked = Kind::Vlan { lower: NOWHERE, id: 1 };
    let answer = namespace.netlink()?.make_link(asked, &Settings::default().name("probe"));
    if answer.is_err_and(|error| error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())) {
        bail!(
            "this kernel has no VLANs (802.1Q): load them (`modprobe 8021q`), or remove the interfaces of VLANs"
        );
    }
    Ok(())
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

#[cfg(test)]
mod tests;
