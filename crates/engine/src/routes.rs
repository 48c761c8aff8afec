//! A router's routes as its file says them: connected networks, own addresses, static routes.

use anyhow::{Context, Result};
use config::Router;
use fib::{NextHop, Rib};
use vmm::RouteTable;

/// Groups for prefixes longer than /24 beyond those that the file needs: an unused one costs nothing.
const SPARE_GROUPS: usize = 4096;

/// A table with all routes of a router.
pub fn table(plan: &Router) -> Result<RouteTable> {
    table_with_room(plan, SPARE_GROUPS)
}

/// A table with all routes of a router, and room for so many more networks with prefixes longer than /24.
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
        let nic = route.nic as u8;
        let next_hop = match route.via {
            Some(gateway) => NextHop::Gateway { nic, gateway: gateway.to_bits() },
            None => NextHop::Connected { nic },
        };
        rib.add(route.to.network.to_bits(), route.to.len, next_hop)?;
    }
    rib.publish();
    Ok(())
}
