//! Names the gateway by which a router has sent a packet on: of several the one that its flow has.

use std::net::IpAddr;

use config::Router;
use config::forwarding::Tags;
use frame::{Mac, flow};
use vmm::RouteTable;

use super::follow::Sight;
use super::sighting::Head;
use crate::Instance;
use crate::next_hops::gateway;

/// Finds the gateway of a packet that arrived at a router with this head, and was seen when it left.
pub(super) type Finder<'f> = &'f dyn Fn(&Head, &Sight) -> Option<IpAddr>;

/// Looks it up in the table of a running router. One in a process of its own has its table there: then it is not known here.
pub(super) fn look_up(instance: &Instance, arrived: &Head, left: &Sight) -> Option<IpAddr> {
    let guest = &instance.router(&left.place.router)?.router;
    let link = link(guest.plan(), &left.place.nic, left.head.vlans())?;
    find(guest.plan(), guest.table(), arrived, link)
}

/// Returns the number of the NIC or interface by which a packet leaves that is in these VLANs of a NIC.
fn link(plan: &Router, nic: &str, mut vlans: impl Iterator<Item = u16>) -> Option<usize> {
    let nic = plan.nics.iter().position(|own| own.name == nic)?;
    let tags = match (vlans.next(), vlans.next()) {
        (None, _) => return Some(nic),
        (Some(id), None) => Tags { outer: None, id },
        (outer, Some(id)) => Tags { outer, id },
    };
    let at = plan.forwarding.interfaces.iter().position(|own| own.nic == nic && own.tags == tags)?;
    Some(plan.nics.len() + at)
}

/// Returns the gateway behind a NIC or interface that the routes of a router have for a packet.
fn find(plan: &Router, table: &RouteTable, arrived: &Head, link: usize) -> Option<IpAddr> {
    let choices = table.choices(plan.table_of(link), arrived.ip_destination()?, arrived.flow(seed(plan)));
    let mut gateways = choices.into_iter().filter_map(gateway);
    gateways.find(|(behind, _)| *behind == link).map(|(_, gateway)| gateway)
}

/// Returns the seed of a router's hash of flows, as its firmware computes it.
fn seed(plan: &Router) -> u64 {
    let vlans = plan.forwarding.interfaces.iter().filter_map(|own| plan.nics.get(own.nic));
    flow::seed(plan.nics.iter().chain(vlans).map(|nic| Mac(nic.mac.0)))
}

#[cfg(test)]
mod tests;
