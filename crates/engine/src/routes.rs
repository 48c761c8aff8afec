//! Routes of a router, from its file: connected networks, own addresses, static routes.

use anyhow::{Context, Result};
use config::forwarding::{Destination, RefusedRoute, Route6, RouteType};
use config::six::Six;
use config::{Route, Router};
use fib::{NextHop, Refusal, Rib, six};
use vmm::{Room6, RouteTable};

use crate::apply::difference::RouteChange;

/// Spare groups for prefixes longer than /24, beyond those that the file needs: an unused one costs nothing.
const SPARE_GROUPS: usize = 4096;

/// Creates a table with all routes of a router.
pub fn table(plan: &Router) -> Result<RouteTable> {
    table_with_room(plan, SPARE_GROUPS)
}

/// Creates a table with all routes of a router, with spare room for this many networks with prefixes longer
/// than /24.
pub fn table_with_room(plan: &Router, spare_groups: usize) -> Result<RouteTable> {
    let interfaces = plan.forwarding.interfaces.iter().map(|own| own.addresses.len());
    let own = plan.nics.iter().map(|nic| nic.addresses.len()).chain(interfaces).sum::<usize>();
    let (others, refused) = (plan.forwarding.routes6.len(), plan.forwarding.refused.len());
    let long = plan.routes.len() + others + refused + own;
    let table = RouteTable::with_six(2 * long + spare_groups, has_six(plan).then(Room6::default))?;
    let router = || format!("router {}", plan.name);
    fill(&mut table.routes(), plan).with_context(router)?;
    table.change_six(|rib| fill_six(rib, plan)).unwrap_or(Ok(())).with_context(router)?;
    Ok(table)
}

/// Returns true if a router takes part in IPv6.
fn has_six(plan: &Router) -> bool {
    let routes = plan.forwarding.routes6.iter().map(|route| route.to);
    let mut routes = routes.chain(plan.forwarding.refused.iter().map(|route| route.to));
    sixes(plan).any(|six| !six.addresses.is_empty()) || routes.any(|to| matches!(to, Destination::V6(_)))
}

/// IPv6 of all interfaces in the order of their numbers: NICs, then VLANs.
fn sixes(plan: &Router) -> impl Iterator<Item = &Six> {
    let vlans = plan.forwarding.interfaces.iter().map(|own| &own.six);
    plan.nics.iter().map(|nic| &nic.six).chain(vlans)
}

/// Adds the IPv6 routes. Link-local addresses need none: they are behind the NIC that a packet came from.
fn fill_six(rib: &mut six::Rib<'_>, plan: &Router) -> Result<()> {
    for (number, six) in (0u8..).zip(sixes(plan)) {
        for own in six.addresses.iter().filter(|own| !own.ip.is_unicast_link_local()) {
            if own.len < 128 {
                let network = own.network().network.to_bits();
                rib.add(network, own.len, NextHop::Connected { nic: number })?;
            }
            rib.add(own.ip.to_bits(), 128, NextHop::Local)?;
        }
    }
    for route in &plan.forwarding.routes6 {
        if let Destination::V6(to) = route.to {
            rib.add(to.network.to_bits(), to.len, next_hop6(route))?;
        }
    }
    for route in &plan.forwarding.refused {
        if let Destination::V6(to) = route.to {
            rib.add(to.network.to_bits(), to.len, refusal(route))?;
        }
    }
    Ok(())
}

fn refusal(route: &RefusedRoute) -> NextHop {
    NextHop::Refused(match route.kind {
        RouteType::Blackhole => Refusal::Silent,
        RouteType::Unreachable => Refusal::Unreachable,
        RouteType::Prohibit => Refusal::Prohibited,
    })
}

fn next_hop6(route: &Route6) -> NextHop {
    let nic = route.nic as u8;
    match route.via {
        Some(gateway) => NextHop::Gateway6 { nic, gateway: gateway.to_bits() },
        None => NextHop::Connected { nic },
    }
}

fn fill(rib: &mut Rib<'_>, plan: &Router) -> Result<()> {
    let vlans = plan.forwarding.interfaces.iter().map(|own| &own.addresses);
    let all = plan.nics.iter().map(|nic| &nic.addresses).chain(vlans);
    for (number, addresses) in (0u8..).zip(all) {
        for address in addresses {
            let ip = address.ip.to_bits();
            let network = address.network().network.to_bits();
            if address.len < 32 {
                rib.add(network, address.len, NextHop::Connected { nic: number })?;
            }
            rib.add(ip, 32, NextHop::Local)?;
        }
    }
    for route in &plan.routes {
        rib.add(route.to.network.to_bits(), route.to.len, next_hop(route))?;
    }
    for route in &plan.forwarding.routes6 {
        if let Destination::V4(to) = route.to {
            rib.add(to.network.to_bits(), to.len, next_hop6(route))?;
        }
    }
    for route in &plan.forwarding.refused {
        if let Destination::V4(to) = route.to {
            rib.add(to.network.to_bits(), to.len, refusal(route))?;
        }
    }
    rib.publish();
    Ok(())
}

fn next_hop(route: &Route) -> NextHop {
    let nic = route.nic as u8;
    match route.via {
        Some(gateway) => NextHop::Gateway { nic, gateway: gateway.to_bits() },
        None => NextHop::Connected { nic },
    }
}

/// Changes static routes while vCPUs read them. New routes become visible before old ones are removed, so
/// that no packet misses a route that exists both before and after.
///
/// # Errors
/// The table is full; then it is unchanged.
pub(crate) fn change(table: &RouteTable, changes: &[RouteChange]) -> Result<()> {
    let mut rib = table.routes();
    let order = |change: &&RouteChange| matches!(change, RouteChange::Remove(_));
    let mut changes: Vec<&RouteChange> = changes.iter().collect();
    changes.sort_by_key(order);
    let mut result = Ok(());
    for (done, change) in changes.iter().enumerate() {
        result = change_one(&mut rib, change);
        if result.is_err() {
            for change in changes[..done].iter().rev() {
                // This cannot fail: the routes were there a moment ago, so there is room.
                let _ = change_one(&mut rib, &change.reversed());
            }
            break;
        }
    }
    rib.publish();
    result
}

fn change_one(rib: &mut Rib<'_>, change: &RouteChange) -> Result<()> {
    match change {
        RouteChange::Add(route) | RouteChange::Turn(_, route) => {
            rib.add(route.to.network.to_bits(), route.to.len, next_hop(route))
        }
        RouteChange::Remove(route) => rib.remove(route.to.network.to_bits(), route.to.len),
    }
    .with_context(|| match change {
        RouteChange::Add(route) | RouteChange::Turn(_, route) | RouteChange::Remove(route) => {
            format!("route {}", route.to)
        }
    })
}
