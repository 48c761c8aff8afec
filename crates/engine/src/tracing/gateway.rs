//! Names the route by which a router has sent a packet on, and its gateway: of several the one that the packet's flow has.

use std::net::IpAddr;

use api::{Fate, Packet};
use config::Router;
use config::forwarding::Tags;
use config::way::{Way, WayQuestion};
use frame::{Mac, flow};
use vmm::RouteTable;

use super::follow::Sight;
use super::sighting::Head;
use crate::Instance;
use crate::next_hops::gateway;

/// What is known here of the way of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Its way, as far as it is known.
    pub(super) way: Option<Way>,
    /// What is to be asked of whom has the routes, if they are elsewhere.
    pub(super) question: Option<WayQuestion>,
}

/// Finds the way of a packet that arrived at a router with this head, and was seen when it left.
pub(super) type Finder<'f> = &'f dyn Fn(&Head, &Sight) -> Found;

/// Looks it up in the table of a running router. One in a process of its own has its table there, and members of groups have one table,
/// of which the supervisor has the routes.
pub(super) fn look_up(instance: &Instance, arrived: &Head, left: &Sight) -> Found {
    let name = &left.place.router;
    if let Some(running) = instance.router(name) {
        let (plan, table) = (running.router.plan(), running.router.table());
        let Some(question) = question(plan, arrived, left) else { return Found::default() };
        return Found { way: find(table, &question), question: table.is_view().then_some(question) };
    }
    let apart = instance.isolated_paths.iter().find(|paths| paths.plan.name == *name);
    Found { way: None, question: apart.and_then(|paths| question(&paths.plan, arrived, left)) }
}

impl Instance {
    /// Returns the way that a router has for a packet; `None`: there is none, or the router does not run here.
    pub fn find_way(&self, router: &str, question: &WayQuestion) -> Option<Way> {
        find(self.router(router)?.router.table(), question)
    }
}

/// Adds to the report of a packet the way that was found elsewhere.
pub fn add_way(packet: &mut Packet, found: &Way) {
    if let Fate::Left { route, via, .. } = &mut packet.fate {
        *route = named(found);
        *via = found.gateway.map(|gateway| gateway.to_string());
    }
}

/// Returns the network of a route as reports name it: `203.0.113.0/24`.
pub(super) fn named(way: &Way) -> Option<String> {
    way.route.map(|(network, len)| format!("{network}/{len}"))
}

/// Returns what decides about the way of a packet that has left a router with this plan; `None`: that is not known.
fn question(plan: &Router, arrived: &Head, left: &Sight) -> Option<WayQuestion> {
    ask(plan, arrived, link(plan, &left.place.nic, left.head.vlans())?)
}

/// Returns what decides about the way of a packet that has left by a NIC or interface.
fn ask(plan: &Router, arrived: &Head, link: usize) -> Option<WayQuestion> {
    Some(WayQuestion {
        table: u8::try_from(plan.table_of(link)).ok()?,
        destination: arrived.ip_destination()?,
        flow: arrived.flow(seed(plan)),
        link: u8::try_from(link).ok()?,
    })
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

/// Returns the way that the routes of a router have for a packet.
fn find(table: &RouteTable, asked: &WayQuestion) -> Option<Way> {
    way_in(table, asked, table.route_of(asked.table.into(), asked.destination))
}

/// Returns the way that a packet has by a table, on this route.
pub(crate) fn way_in(table: &RouteTable, asked: &WayQuestion, route: Option<(IpAddr, u8)>) -> Option<Way> {
    let choices = table.choices(asked.table.into(), asked.destination, asked.flow);
    let taken = choices.into_iter().find(|hop| hop.is_behind(asked.link))?;
    Some(Way { route, gateway: gateway(taken).map(|(_, gateway)| gateway) })
}

/// Returns the seed of a router's hash of flows, as its firmware computes it.
fn seed(plan: &Router) -> u64 {
    let vlans = plan.forwarding.interfaces.iter().filter_map(|own| plan.nics.get(own.nic));
    flow::seed(plan.nics.iter().chain(vlans).map(|nic| Mac(nic.mac.0)))
}

#[cfg(test)]
mod tests;
