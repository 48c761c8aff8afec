//! Names the route by which a router has sent a packet on, and its gateway: of several the one that the packet's flow has.

use std::net::IpAddr;

use config::Router;
use config::forwarding::Tags;
use frame::{Mac, flow};
use vmm::RouteTable;

use super::follow::Sight;
use super::sighting::Head;
use crate::Instance;
use crate::next_hops::gateway;

/// How a packet was sent on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Network of the route: `203.0.113.0/24`. `None` if another process has the list of routes.
    pub(super) route: Option<String>,
    /// Gateway of the route; `None` if the destination itself is behind the NIC.
    pub(super) gateway: Option<IpAddr>,
}

/// Finds the way of a packet that arrived at a router with this head, and was seen when it left.
pub(super) type Finder<'f> = &'f dyn Fn(&Head, &Sight) -> Option<Way>;

/// Looks it up in the table of a running router. One in a process of its own has its table there: then it is not known here.
pub(super) fn look_up(instance: &Instance, arrived: &Head, left: &Sight) -> Option<Way> {
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

/// Returns the way behind a NIC or interface that the routes of a router have for a packet.
fn find(plan: &Router, table: &RouteTable, arrived: &Head, link: usize) -> Option<Way> {
    let (number, destination) = (plan.table_of(link), arrived.ip_destination()?);
    let behind = u8::try_from(link).ok()?;
    let choices = table.choices(number, destination, arrived.flow(seed(plan)));
    let taken = choices.into_iter().find(|hop| hop.is_behind(behind))?;
    let route = table.route_of(number, destination);
    Some(Way {
        route: route.map(|(network, len)| format!("{network}/{len}")),
        gateway: gateway(taken).map(|(_, gateway)| gateway),
    })
}

/// Returns the seed of a router's hash of flows, as its firmware computes it.
fn seed(plan: &Router) -> u64 {
    let vlans = plan.forwarding.interfaces.iter().filter_map(|own| plan.nics.get(own.nic));
    flow::seed(plan.nics.iter().chain(vlans).map(|nic| Mac(nic.mac.0)))
}

#[cfg(test)]
mod tests;
