//! Routes of a router, from its file: connected networks, own addresses, static routes.

use anyhow::{Context, Result};
use config::{Route, Router};
use fib::{NextHop, Rib};
use vmm::RouteTable;

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
    let long = plan.routes.len() + plan.nics.iter().map(|nic| nic.addresses.len()).sum::<usize>();
    let table = RouteTable::new(2 * long + spare_groups)?;
    fill(&mut table.routes(), plan).with_context(|| format!("router {}", plan.name))?;
    Ok(table)
}

fn fill(rib: &mut Rib<'_>, plan: &Router) -> Result<()> {
    for (number, nic) in (0u8..).zip(&plan.nics) {
        for address in &nic.addresses {
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
