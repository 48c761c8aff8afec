//! Reading the observed state of a namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink::{Address, Link, Neighbour as Found, Route as Entered, RouteId, RouteKind, Rule, State};

use crate::error::Refusal;
use crate::executor::OwnNamespace;
use crate::managed::ManagedObjects;
use crate::{ObservedInterface, ObservedState, Origin, Route, RouterConfig, TypedRoute, six, spread, typed};

/// Routing protocol number that distinguishes the router's own routes (RTPROT_*; numbers from 32 are available
/// to user space).
pub(crate) const PROTOCOL: u8 = 114;
/// The table of the router's own addresses, for all packets that no VRF has.
pub(crate) const LOCAL: u32 = 255;
/// Priorities of the rule of that table: first, and behind those of VRFs, which the kernel gives 1000.
pub(crate) const FIRST: u32 = 0;
pub(crate) const BEHIND: u32 = 32765;

/// Reads the state of the known objects of a router's namespace. The calling thread is inside.
pub(crate) fn look(
    own: &OwnNamespace,
    known: &ManagedObjects,
    wanted: &RouterConfig,
) -> Result<ObservedState, Refusal> {
    let links: Vec<Link> = own.kernel.all()?;
    let names: BTreeMap<u32, String> = links.iter().map(|link| (link.index, link.name.clone())).collect();
    let mut seen = ObservedState::default();
    for link in links {
        if let Some(present) = present(own, known, wanted, &link) {
            seen.interfaces.insert(link.name, present);
        }
    }
    look_at_addresses(own, known, &names, &mut seen)?;
    look_at_neighbours(own, known, &names, &mut seen)?;
    // FRR's may be a million.
    let routes = own.kernel.routes_of_protocol(PROTOCOL, |route| route.protocol == PROTOCOL)?;
    seen.routes = routes.iter().filter_map(|route| route_of(route, &names)).collect();
    seen.spread = spread::look(own, &routes, &names)?;
    seen.typed = routes.iter().filter_map(typed_of).collect();
    look_at_threads(own, known, &mut seen)?;
    if known.has_vrfs {
        seen.moved_rules = moved_rules(&own.kernel.all::<Rule>()?);
    }
    for key in wanted.sysctls.keys() {
        if let Some(value) = netns::sysctl(key)? {
            seen.sysctls.insert(key.clone(), value);
        }
    }
    Ok(seen)
}

/// Returns `None` for an interface of another program whose name is not configured.
fn present(
    own: &OwnNamespace,
    known: &ManagedObjects,
    wanted: &RouterConfig,
    link: &Link,
) -> Option<ObservedInterface> {
    let made = own.made.get(&link.name).filter(|(index, _)| *index == link.index);
    let origin = match made {
        Some((_, origin)) => Some(origin.clone()),
        None if known.given.contains(&link.name) => Some(Origin::External),
        None => None,
    };
    if origin.is_none() && wanted.interface(&link.name).is_none() {
        return None;
    }
    Some(ObservedInterface {
        origin,
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        carrier: link.running,
        addresses: BTreeSet::new(),
        threaded: false,
        // It is at the other end, which `Executor::look_at_queues` may find.
        queue: wanted.interface(&link.name).and_then(|interface| interface.queue),
        vrf: link.master.and_then(|master| vrf_of(own, master)),
    })
}

/// Returns the table of the VRF with this index; `None`: it is none of the router's VRFs.
fn vrf_of(own: &OwnNamespace, index: u32) -> Option<u32> {
    own.made.values().find_map(|(made, origin)| match origin {
        Origin::Vrf { table } if *made == index => Some(*table),
        _ => None,
    })
}

/// Returns the families whose rule of table `local` is behind those of VRFs: IPv4 is true.
fn moved_rules(rules: &[Rule]) -> BTreeSet<bool> {
    let has = |is_ipv4: bool, priority: u32| {
        let is_it = |rule: &&Rule| rule.table == Some(LOCAL) && rule.priority == priority;
        rules.iter().filter(is_it).any(|rule| rule.from.ip.is_ipv4() == is_ipv4)
    };
    [true, false].into_iter().filter(|family| has(*family, BEHIND) && !has(*family, FIRST)).collect()
}

fn look_at_addresses(
    own: &OwnNamespace,
    known: &ManagedObjects,
    names: &BTreeMap<u32, String>,
    seen: &mut ObservedState,
) -> io::Result<()> {
    let addresses: Vec<Address> = own.kernel.all()?;
    for address in addresses {
        let Some(name) = names.get(&address.index) else { continue };
        let key = (name.clone(), address.prefix);
        if let Some(present) = seen.interfaces.get_mut(name).filter(|_| known.addresses.contains(&key)) {
            present.addresses.insert(address.prefix);
        }
    }
    Ok(())
}

fn look_at_neighbours(
    own: &OwnNamespace,
    known: &ManagedObjects,
    names: &BTreeMap<u32, String>,
    seen: &mut ObservedState,
) -> io::Result<()> {
    if known.neighbours.is_empty() {
        return Ok(());
    }
    let found: Vec<Found> = own.kernel.all()?;
    for Found { index, ip, mac, .. } in found.into_iter().filter(|found| found.state == State::Permanent) {
        let key = names.get(&index).map(|name| (name.clone(), ip));
        if let (Some(key), Some(mac)) = (key.filter(|key| known.neighbours.contains(key)), mac) {
            seen.neighbours.insert(key, mac);
        }
    }
    Ok(())
}

/// Returns `None` for a route of another program.
fn route_of(route: &Entered, names: &BTreeMap<u32, String>) -> Option<Route> {
    let is_ours = route.protocol == PROTOCOL && route.kind == RouteKind::Unicast && route.group.is_none();
    let [hop] = route.next_hops.as_slice() else { return None };
    let interface = names.get(&hop.index).filter(|_| is_ours)?.clone();
    let RouteId { to, metric, table, .. } = route.id;
    Some(Route { to, via: hop.via, interface, metric, table })
}

/// Returns `None` for a route of another program, and for one that forwards.
fn typed_of(route: &Entered) -> Option<TypedRoute> {
    typed::name(route.kind).filter(|_| route.protocol == PROTOCOL)?;
    let RouteId { to, metric, table, .. } = route.id;
    let is_default = !to.ip.is_ipv4() && metric == six::METRIC;
    Some(TypedRoute { to, kind: route.kind, metric: if is_default { 0 } else { metric }, table })
}

fn look_at_threads(
    own: &OwnNamespace,
    known: &ManagedObjects,
    seen: &mut ObservedState,
) -> Result<(), Refusal> {
    if known.threaded.is_empty() {
        return Ok(());
    }
    let sysfs = own.namespace.sysfs()?;
    for name in &known.threaded {
        let threads = sysfs.read(&threads_file(name));
        if let Some(present) = seen.interfaces.get_mut(name) {
            present.threaded = threads.is_ok_and(|value| value != "0");
        }
    }
    Ok(())
}

/// Path below `/sys` of the switch for an interface's threaded NAPI.
pub(crate) fn threads_file(interface: &str) -> String {
    format!("class/net/{interface}/threaded")
}
