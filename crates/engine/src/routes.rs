//! Routes of a router, from its file: connected networks, own addresses, static routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context, Result, anyhow};
use config::forwarding::{Destination, RefusedRoute, RouteType, SpreadRoute};
use config::six::{Address6, Six};
use config::{Address, Router};
use fib::{NextHop, Refusal, Rib, Way, six};
use vmm::{Room6, RouteTable};

use crate::apply::difference::RouteChange;

const _: () = assert!(config::forwarding::MOST_WAYS == fib::MOST_WAYS);

/// Creates a table with all routes of a router.
pub fn table(plan: &Router) -> Result<RouteTable> {
    table_with_room(plan, plan.long_routes() as usize)
}

/// Creates a table with all routes of a router, with spare room for this many networks with prefixes longer
/// than /24, beyond those that the file needs: unused room costs nothing.
pub fn table_with_room(plan: &Router, spare_groups: usize) -> Result<RouteTable> {
    let interfaces = plan.forwarding.interfaces.iter().map(|own| own.addresses.len());
    let own = plan.nics.iter().map(|nic| nic.addresses.len()).chain(interfaces).sum::<usize>();
    let more = &plan.forwarding;
    let others = more.routes6.len() + more.spread.len() + more.refused.len();
    let long = plan.routes.len() + others + own;
    let room = has_six(plan).then(Room6::default);
    let table = RouteTable::with_tables(plan.tables(), 2 * long + spare_groups, room)?;
    let router = || format!("router {}", plan.name);
    for number in 0..plan.tables() {
        let filled = table.change(number, |rib| fill(rib, plan, number));
        filled.unwrap_or(Ok(())).with_context(router)?;
        let filled = table.change_six(number, |rib| fill_six(rib, plan, number));
        filled.unwrap_or(Ok(())).with_context(router)?;
    }
    Ok(table)
}

/// Returns true if a router takes part in IPv6.
pub(crate) fn has_six(plan: &Router) -> bool {
    let routes = plan.forwarding.routes6.iter().map(|route| route.to);
    let routes = routes.chain(plan.forwarding.spread.iter().map(|route| route.to));
    let mut routes = routes.chain(plan.forwarding.refused.iter().map(|route| route.to));
    let learns = plan.control.is_some();
    let has_address = sixes(plan).any(|six| !six.addresses.is_empty());
    learns || has_address || routes.any(|to| matches!(to, Destination::V6(_)))
}

/// IPv6 of all interfaces in the order of their numbers: NICs, then VLANs.
fn sixes(plan: &Router) -> impl Iterator<Item = &Six> {
    let vlans = plan.forwarding.interfaces.iter().map(|own| &own.six);
    plan.nics.iter().map(|nic| &nic.six).chain(vlans)
}

/// Adds the IPv6 routes of a VRF.
fn fill_six(rib: &mut six::Rib<'_>, plan: &Router, table: usize) -> Result<()> {
    for (network, len, hops) in entries_six(plan, table) {
        match hops {
            Hops::One(hop) => rib.add(network, len, hop)?,
            Hops::Several(ways) => rib.add_ways(network, len, &ways)?,
        }
    }
    Ok(())
}

/// Returns the IPv6 routes of a VRF, as [`entries`] does those of IPv4. Link-local addresses need none: they are behind the NIC that a
/// packet came from.
pub(crate) fn entries_six(plan: &Router, table: usize) -> impl Iterator<Item = (u128, u8, Hops)> {
    let all = (0u8..).zip(sixes(plan));
    let here = all.filter(move |(number, _)| plan.table_of((*number).into()) == table);
    let own = here.flat_map(|(nic, six)| six.addresses.iter().flat_map(move |own| of_address_six(nic, own)));
    own.chain(statics(plan, table).filter_map(|(to, hops)| match to {
        Destination::V6(to) => Some((to.network.to_bits(), to.len, hops)),
        Destination::V4(_) => None,
    }))
}

/// Returns the routes that an own IPv6 address of an interface brings about.
fn of_address_six(nic: u8, own: &Address6) -> impl Iterator<Item = (u128, u8, Hops)> + use<> {
    let network = own.network().network.to_bits();
    let connected = (network, own.len, Hops::One(NextHop::Connected { nic }));
    let local = (own.ip.to_bits(), 128, Hops::One(NextHop::Local));
    let is_routed = !own.ip.is_unicast_link_local();
    (own.len < 128).then_some(connected).into_iter().chain([local]).filter(move |_| is_routed)
}

/// Next hops of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hops {
    One(NextHop),
    Several(Vec<Way>),
}

/// Static routes of a VRF, of both families, with their next hops.
fn statics(plan: &Router, table: usize) -> impl Iterator<Item = (Destination, Hops)> {
    let here = move |nic: usize| plan.table_of(nic) == table;
    let more = &plan.forwarding;
    let single = plan.single_routes().filter(move |(_, _, nic)| here(*nic));
    let single = single.map(|(to, via, nic)| (to, Hops::One(next_hop(nic, via))));
    let is_spread_here = move |route: &&SpreadRoute| route.ways.first().is_some_and(|way| here(way.nic));
    let spread = more.spread.iter().filter(is_spread_here);
    let spread = spread.map(|route| (route.to, Hops::Several(ways(route))));
    let refused = more.refused.iter().filter(move |route| route.table == table);
    let refused = refused.map(|route| (route.to, Hops::One(refusal(route))));
    single.chain(spread).chain(refused)
}

fn refusal(route: &RefusedRoute) -> NextHop {
    NextHop::Refused(match route.kind {
        RouteType::Blackhole => Refusal::Silent,
        RouteType::Unreachable => Refusal::Unreachable,
        RouteType::Prohibit => Refusal::Prohibited,
    })
}

/// Returns the next hops of a route that has several.
fn ways(route: &SpreadRoute) -> Vec<Way> {
    let next_hop = |way: &config::forwarding::Way| next_hop(way.nic, Some(way.via));
    route.ways.iter().map(|way| Way { next_hop: next_hop(way), weight: way.weight }).collect()
}

fn next_hop(nic: usize, gateway: Option<IpAddr>) -> NextHop {
    let nic = nic as u8;
    match gateway {
        Some(IpAddr::V4(ip)) => NextHop::Gateway { nic, gateway: ip.to_bits() },
        Some(IpAddr::V6(ip)) => NextHop::Gateway6 { nic, gateway: ip.to_bits() },
        None => NextHop::Connected { nic },
    }
}

/// Adds the IPv4 routes of a VRF.
fn fill(rib: &mut Rib<'_>, plan: &Router, table: usize) -> Result<()> {
    for (network, len, hops) in entries(plan, table) {
        match hops {
            Hops::One(hop) => rib.add(network, len, hop)?,
            Hops::Several(ways) => rib.add_ways(network, len, &ways)?,
        }
    }
    Ok(())
}

/// Returns the IPv4 routes of a VRF, as network, prefix length and next hops: connected networks, own addresses, static routes. Of
/// two for one prefix the later one counts.
pub(crate) fn entries(plan: &Router, table: usize) -> impl Iterator<Item = (u32, u8, Hops)> {
    let vlans = plan.forwarding.interfaces.iter().map(|own| &own.addresses);
    let all = (0u8..).zip(plan.nics.iter().map(|nic| &nic.addresses).chain(vlans));
    let here = all.filter(move |(number, _)| plan.table_of((*number).into()) == table);
    let own =
        here.flat_map(|(nic, addresses)| addresses.iter().flat_map(move |address| of_address(nic, address)));
    own.chain(statics(plan, table).filter_map(|(to, hops)| match to {
        Destination::V4(to) => Some((to.network.to_bits(), to.len, hops)),
        Destination::V6(_) => None,
    }))
}

/// Returns the routes that an own address of an interface brings about.
fn of_address(nic: u8, address: &Address) -> impl Iterator<Item = (u32, u8, Hops)> + use<> {
    let network = address.network().network.to_bits();
    let connected = (network, address.len, Hops::One(NextHop::Connected { nic }));
    let local = (address.ip.to_bits(), 32, Hops::One(NextHop::Local));
    (address.len < 32).then_some(connected).into_iter().chain([local])
}

/// Changes static routes of a router while vCPUs read them. New routes become visible before old ones are removed, so
/// that no packet misses a route that exists both before and after.
///
/// # Errors
/// A table is full; then all are unchanged.
pub(crate) fn change(table: &RouteTable, plan: &Router, changes: &[RouteChange]) -> Result<()> {
    let of = |change: &RouteChange| plan.table_of(change.route().nic);
    let numbers: BTreeSet<usize> = changes.iter().map(of).collect();
    let mut done: Vec<(usize, Vec<RouteChange>)> = Vec::new();
    for number in numbers {
        let own: Vec<RouteChange> = changes.iter().copied().filter(|change| of(change) == number).collect();
        if let Err(error) = change_table(table, number, &own) {
            for (number, changes) in done.iter().rev() {
                let back: Vec<RouteChange> = changes.iter().rev().map(RouteChange::reversed).collect();
                // This cannot fail, as in `change_all`.
                let _ = change_table(table, *number, &back);
            }
            return Err(error);
        }
        done.push((number, own));
    }
    Ok(())
}

fn change_table(table: &RouteTable, number: usize, changes: &[RouteChange]) -> Result<()> {
    table.change(number, |rib| change_all(rib, changes)).unwrap_or(Ok(()))
}

fn change_all(rib: &mut Rib<'_>, changes: &[RouteChange]) -> Result<()> {
    let order = |change: &&RouteChange| matches!(change, RouteChange::Remove(_));
    let mut changes: Vec<&RouteChange> = changes.iter().collect();
    changes.sort_by_key(order);
    for (done, change) in changes.iter().enumerate() {
        let result = change_one(rib, change);
        if result.is_err() {
            for change in changes[..done].iter().rev() {
                // This cannot fail: the routes were there a moment ago, so there is room.
                let _ = change_one(rib, &change.reversed());
            }
            return result;
        }
    }
    Ok(())
}

fn change_one(rib: &mut Rib<'_>, change: &RouteChange) -> Result<()> {
    match change {
        RouteChange::Add(route) | RouteChange::Turn(_, route) => {
            let hop = next_hop(route.nic, route.via.map(IpAddr::V4));
            rib.add(route.to.network.to_bits(), route.to.len, hop)
        }
        RouteChange::Remove(route) => rib.remove(route.to.network.to_bits(), route.to.len),
    }
    .map_err(with_remedy)
    .with_context(|| format!("route {}", change.route().to))
}

/// Returns an error of a table, with what the file can do about it.
pub(crate) fn with_remedy(error: fib::Error) -> anyhow::Error {
    match error {
        fib::Error::Groups => anyhow!("{error}; write a larger number for long_routes"),
        _ => error.into(),
    }
}
