//! Routes whose flows are spread over several gateways, by groups of next hops (`ip nexthop`, Linux 5.3).
//!
//! Each route has a group of its own, and the group a next hop for each gateway. The kernel removes a next hop when its interface
//! goes down or loses its carrier, and creates none there: until then, and from then on until the route is laid again, the flows
//! of that gateway have the others. A resilient group (Linux 5.13) moves no other flow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::IpAddr;

use netlink::{NextHopKind, NextHopObject, Prefix, Route as Entered, RouteId, RouteKind};
use rustix::io::Errno;

use crate::config::in_table;
use crate::error::Refusal;
use crate::executor::{Executor, OwnNamespace};
use crate::leftover::is_errno;
use crate::look::PROTOCOL;
use crate::six;

/// Smallest number of an object of ours.
const FIRST: u32 = 0x7200_0000;
/// Buckets of a resilient group: eight times as many as a route has gateways at most.
const BUCKETS: u16 = 512;

/// A static route with several gateways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadRoute {
    /// Destination network.
    pub to: Prefix,
    /// Its gateways, each once, in ascending order.
    pub ways: BTreeSet<Way>,
    /// Number of the table: [`crate::MAIN`], or that of a VRF.
    pub table: u32,
}

/// A gateway of such a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Address of the gateway.
    pub via: IpAddr,
    /// Name of the output interface.
    pub interface: String,
    /// Its part of the flows, in relation to those of the others: 1 to 256.
    pub weight: u16,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "via {} dev {}", self.via, self.interface)?;
        match self.weight {
            1 => Ok(()),
            weight => write!(out, " weight {weight}"),
        }
    }
}

impl fmt::Display for SpreadRoute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.to)?;
        self.ways.iter().try_for_each(|way| write!(out, " {way}"))?;
        out.write_str(&in_table(self.table))
    }
}

/// Returns true if a route is one of ours, by a group of next hops.
fn is_ours(route: &Entered) -> bool {
    route.kind == RouteKind::Unicast && route.protocol == PROTOCOL && route.group.is_some()
}

/// Returns true if an object of ours may have this number.
const fn is_number_of_ours(id: u32) -> bool {
    id >= FIRST
}

/// Reads our routes among all, by the objects that they use.
pub(crate) fn look(
    own: &OwnNamespace,
    routes: &[Entered],
    names: &BTreeMap<u32, String>,
) -> io::Result<BTreeSet<SpreadRoute>> {
    if !routes.iter().any(is_ours) {
        return Ok(BTreeSet::new());
    }
    let objects = Objects::read(own)?;
    let of = |route: &Entered| {
        let members = objects.members(route.group?);
        let way = |(id, weight): (u32, u16)| {
            let (via, index) = objects.gateway(id)?;
            Some(Way { via, interface: names.get(&index)?.clone(), weight })
        };
        let ways = members.into_iter().filter_map(way).collect();
        Some(SpreadRoute { to: route.id.to, ways, table: route.id.table })
    };
    Ok(routes.iter().filter(|route| is_ours(route)).filter_map(of).collect())
}

/// The next-hop objects of a namespace.
struct Objects(BTreeMap<u32, NextHopObject>);

impl Objects {
    fn read(own: &OwnNamespace) -> io::Result<Self> {
        let all = own.kernel.next_hops()?;
        Ok(Self(all.into_iter().map(|object| (object.id, object)).collect()))
    }

    /// Returns the members of a group with their weights; of another object itself.
    fn members(&self, id: u32) -> Vec<(u32, u16)> {
        match self.0.get(&id).map(|object| &object.kind) {
            Some(NextHopKind::Group(members)) => members.clone(),
            _ => vec![(id, 1)],
        }
    }

    fn gateway(&self, id: u32) -> Option<(IpAddr, u32)> {
        match self.0.get(&id)?.kind {
            NextHopKind::Gateway { via, index } => Some((via, index)),
            NextHopKind::Group(_) | NextHopKind::Other => None,
        }
    }

    /// Returns the numbers of our objects that none of these routes uses, groups before their members.
    fn unused(&self, routes: &[Entered]) -> Vec<u32> {
        let groups: Vec<u32> = routes.iter().filter_map(|route| route.group).collect();
        let mut used: BTreeSet<u32> = groups.iter().copied().collect();
        used.extend(groups.iter().flat_map(|id| self.members(*id)).map(|(id, _)| id));
        let is_own = |object: &NextHopObject| object.protocol == PROTOCOL && is_number_of_ours(object.id);
        let unused = self.0.values().filter(|object| is_own(object) && !used.contains(&object.id));
        let (groups, others): (Vec<_>, Vec<_>) =
            unused.partition(|object| matches!(object.kind, NextHopKind::Group(_)));
        groups.into_iter().chain(others).map(|object| object.id).collect()
    }

    /// Returns numbers that are free.
    fn free(&self) -> impl Iterator<Item = u32> + '_ {
        (FIRST..=u32::MAX).filter(move |id| !self.0.contains_key(id))
    }
}

impl Executor<'_> {
    /// Lays a route; if that fails, nothing is left of it.
    pub(crate) fn spread(&mut self, route: &SpreadRoute) -> Result<(), Refusal> {
        self.sweep()?;
        let laid = self.lay(route);
        if laid.is_err() {
            let _ = self.sweep();
        }
        Ok(laid?)
    }

    /// Removes a route and what it used. Succeeds if the kernel has removed it already.
    pub(crate) fn gather(&mut self, route: &SpreadRoute) -> Result<(), Refusal> {
        let ours = self.own.kernel.routes_of_protocol(PROTOCOL, is_ours)?;
        let is_it = |entered: &&Entered| (entered.id.to, entered.id.table) == (route.to, route.table);
        for entered in ours.iter().filter(is_it) {
            match self.own.kernel.remove_route(entered) {
                Err(e) if !is_errno(&e, Errno::SRCH) => return Err(e.into()),
                _ => {}
            }
        }
        Ok(self.sweep()?)
    }

    fn lay(&self, route: &SpreadRoute) -> io::Result<()> {
        let kernel = &self.own.kernel;
        let objects = Objects::read(self.own)?;
        let mut free = objects.free();
        let mut number = || free.next().ok_or_else(|| io::Error::from(Errno::NOSPC));
        let mut members = Vec::new();
        for way in &route.ways {
            let id = number()?;
            kernel.add_next_hop(id, (way.via, self.own.index(&way.interface)?), PROTOCOL)?;
            members.push((id, way.weight));
        }
        let group = number()?;
        match kernel.add_next_hop_group(group, (&members, Some(BUCKETS)), PROTOCOL) {
            // Before Linux 5.13 no group is resilient.
            Err(e) if is_errno(&e, Errno::INVAL) || is_errno(&e, Errno::OPNOTSUPP) => {
                kernel.add_next_hop_group(group, (&members, None), PROTOCOL)?;
            }
            made => made?,
        }
        let metric = if route.to.ip.is_ipv4() { 0 } else { six::METRIC };
        kernel.insert_route(&Entered {
            id: RouteId { table: route.table, to: route.to, tos: 0, metric },
            kind: RouteKind::Unicast,
            next_hops: Vec::new(),
            group: Some(group),
            protocol: PROTOCOL,
        })
    }

    /// Deletes our objects that no route uses: of routes that others have removed, and of one that could not be laid.
    fn sweep(&self) -> io::Result<()> {
        let routes =
            self.own.kernel.all_kept(|route: &Entered| route.group.is_some_and(is_number_of_ours))?;
        for id in Objects::read(self.own)?.unused(&routes) {
            match self.own.kernel.delete_next_hop(id) {
                Err(e) if !is_errno(&e, Errno::NOENT) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}
