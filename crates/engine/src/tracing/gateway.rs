//! Names the gateway by which a router has sent a packet on: of several the one that its flow has.

use std::net::IpAddr;

use config::Router;
use frame::{Mac, flow};
use vmm::RouteTable;

use super::board::Place;
use super::sighting::Head;
use crate::Instance;
use crate::next_hops::{gateway, nic_of};

/// Finds the gateway of a packet that arrived at a router with this head, and left it here.
pub(super) type Finder<'f> = &'f dyn Fn(&Head, &Place) -> Option<IpAddr>;

/// Looks it up in the table of a running router. One in a process of its own has its table there: then it is not known here.
pub(super) fn look_up(instance: &Instance, arrived: &Head, left: &Place) -> Option<IpAddr> {
    let guest = &instance.router(&left.router)?.router;
    find(guest.plan(), guest.table(), arrived, &left.nic)
}

/// Returns the gateway behind this NIC that the routes of a router have for a packet.
fn find(plan: &Router, table: &RouteTable, arrived: &Head, nic: &str) -> Option<IpAddr> {
    let nic = plan.nics.iter().position(|own| own.name == nic)?;
    let number = plan.table_of(nic);
    let choices = table.choices(number, arrived.ip_destination()?, arrived.flow(seed(plan)));
    let mut gateways = choices.into_iter().filter_map(gateway);
    gateways.find(|(link, _)| nic_of(plan, *link) == nic).map(|(_, gateway)| gateway)
}

/// Returns the seed of a router's hash of flows, as its firmware computes it.
fn seed(plan: &Router) -> u64 {
    let vlans = plan.forwarding.interfaces.iter().filter_map(|own| plan.nics.get(own.nic));
    flow::seed(plan.nics.iter().chain(vlans).map(|nic| Mac(nic.mac.0)))
}

#[cfg(test)]
mod tests;
