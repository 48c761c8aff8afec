//! Routes.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol,
    RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::prefix::family;
use crate::{Netlink, Object, Prefix};

/// Index of `lo` in each namespace.
const LOOPBACK: u32 = 1;
/// Most dumps of IPv6 routes for one answer.
const DUMPS: usize = 8;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Identity among routes.
    pub id: RouteId,
    /// Treatment of packets.
    pub kind: RouteKind,
    /// Next hops, among which packets are distributed if there are several; for a `Local` route, the
    /// interface that it belongs to.
    pub next_hops: Vec<NextHop>,
    /// Number of the next-hop object that it uses (`ip nexthop`), if any.
    pub group: Option<u32>,
    /// Protocol that has installed it (RTPROT_* of `linux/rtnetlink.h`).
    pub protocol: u8,
}

/// Identity of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId {
    /// Table number; `main` is 254.
    pub table: u32,
    /// Destination network.
    pub to: Prefix,
    /// Type of service; 0: any.
    pub tos: u8,
    /// Metric: of several routes to one destination, the one with the smallest is used.
    pub metric: u32,
}

/// Treatment of packets by a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// Forwarded to a next hop.
    #[default]
    Unicast,
    /// Delivered locally, or a broadcast.
    Local,
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// Dropped; the sender is told that this is administratively prohibited.
    Prohibit,
    /// Look-up continues with the next rule.
    Throw,
    /// Another kind (RTN_*).
    Other(u8),
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// Gateway, which may be of the other family (RFC 8950); `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// Index of the interface.
    pub index: u32,
    /// Relative weight among several next hops: 1 to 256.
    pub weight: u16,
}

impl Netlink {
    /// Adds a route to table `main`, through a gateway on a connected network.
    ///
    /// # Errors
    /// ENETUNREACH: the gateway is on no connected network. EEXIST: there is such a route. EPERM.
    pub fn add_route(&self, to: Prefix, via: IpAddr) -> io::Result<()> {
        let mut message = to_network(to);
        message.attributes.push(RouteAttribute::Gateway(via.into()));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route with any table, metric and protocol, and with next hops, or by a next-hop object.
    ///
    /// # Errors
    /// ENETUNREACH: a gateway is on no connected network. ENETDOWN: an interface is down. ENODEV: there is no
    /// such interface. EEXIST: there is such a route. EPERM.
    pub fn insert_route(&self, route: &Route) -> io::Result<()> {
        self.change(RouteNetlinkMessage::NewRoute(route.message()), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes exactly this route, matching its next hops and protocol as well.
    ///
    /// # Errors
    /// ESRCH: there is none. EPERM.
    pub fn remove_route(&self, route: &Route) -> io::Result<()> {
        let mut message = route.message();
        message.header.scope = RouteScope::NoWhere;
        self.change(RouteNetlinkMessage::DelRoute(message), 0)
    }

    /// Looks up an address as the kernel does for a packet of this host; returns the route that it finds, with its own destination.
    ///
    /// # Errors
    /// ENETUNREACH: there is none. EINVAL, EHOSTUNREACH, EACCES: it is a blackhole, unreachable, or prohibited. ENODEV: the kernel is
    /// older than Linux 4.13, and returns no route of a table.
    pub fn route_to(&self, ip: IpAddr) -> io::Result<Route> {
        let host = Prefix { ip, len: if ip.is_ipv4() { 32 } else { 128 } };
        let mut message = to_network(host);
        message.header.flags = RouteFlags::FibMatch;
        self.one(RouteNetlinkMessage::GetRoute(message))
    }

    /// Dumps the IPv4 routes for which `keeps` returns true.
    pub(crate) fn ipv4_routes(&self, keeps: fn(&Route) -> bool) -> io::Result<Vec<Route>> {
        // That an interface or an address goes is reported before its routes go, which is not reported. The kernel
        // answers this question when that is done, while (since Linux 6.9) it dumps routes at any time.
        self.link(LOOPBACK)?;
        self.routes_of(AddressFamily::Inet, RouteProtocol::Unspec, keeps)
    }

    /// Dumps the routes of a protocol for which `keeps` returns true. The kernel leaves out all others, of which there may be a million,
    /// unless it is older than Linux 4.20.
    ///
    /// # Errors
    /// See [`Netlink::all`].
    pub fn routes_of_protocol(&self, protocol: u8, keeps: fn(&Route) -> bool) -> io::Result<Vec<Route>> {
        // See `ipv4_routes`.
        self.link(LOOPBACK)?;
        let of = |family| self.routes_of(family, protocol.into(), keeps);
        let mut all = self.strictly(|| -> io::Result<Vec<Route>> {
            let mut all = of(AddressFamily::Inet)?;
            all.extend(gathered(&mut || of(AddressFamily::Inet6))?);
            Ok(all)
        })?;
        all.retain(|route| route.protocol == protocol);
        Ok(all)
    }

    fn routes_of(
        &self,
        family: AddressFamily,
        protocol: RouteProtocol,
        keeps: fn(&Route) -> bool,
    ) -> io::Result<Vec<Route>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.protocol = protocol;
        let mut routes = self.dumped(&RouteNetlinkMessage::GetRoute(message), keeps)?;
        // A kernel without this family dumps all others.
        routes.retain(|route: &Route| crate::prefix::family(route.id.to.ip) == family);
        Ok(routes)
    }
}

/// Takes dumps of IPv6 routes until one has no route that those before it lack, and returns the routes of all.
/// While the table changes a dump may lack routes, without a mark: the kernel begins anew in the changed tree, and
/// leaves out as many routes as it has told, though some of those have gone. A route that has gone between two
/// dumps is returned as well.
fn gathered(dump: &mut dyn FnMut() -> io::Result<Vec<Route>>) -> io::Result<Vec<Route>> {
    let mut all = BTreeMap::new();
    for attempt in 0..DUMPS {
        let before = all.len();
        all.extend(dump()?.into_iter().map(|route| (route.key(), route)));
        if attempt > 0 && all.len() == before {
            break;
        }
    }
    Ok(all.into_values().collect())
}

fn to_network(to: Prefix) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to.ip);
    message.header.destination_prefix_length = to.len;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Boot;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Destination(to.ip.into())];
    message
}

impl Route {
    fn message(&self) -> RouteMessage {
        // The kernel tells the members of a group of next hops, too.
        let hops: &[NextHop] = if self.group.is_some() { &[] } else { &self.next_hops };
        let mut message = to_network(self.id.to);
        message.header.tos = self.id.tos;
        message.header.kind = kernel_kind(self.kind);
        message.header.protocol = self.protocol.into();
        message.header.table = u8::try_from(self.id.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
        message.attributes.push(RouteAttribute::Table(self.id.table));
        if self.id.metric != 0 {
            message.attributes.push(RouteAttribute::Priority(self.id.metric));
        }
        match hops {
            [] => {}
            [hop] => {
                if hop.via.is_none() {
                    message.header.scope = RouteScope::Link;
                }
                message.attributes.push(RouteAttribute::Oif(hop.index));
                message.attributes.extend(hop.via.map(|via| gateway(self.id.to, via)));
            }
            several => {
                let several = several.iter().map(|hop| one_of_several(self.id.to, hop));
                message.attributes.push(RouteAttribute::MultiPath(several.collect()));
            }
        }
        message.attributes.extend(self.group.map(RouteAttribute::NhId));
        message
    }
}

/// Next hop of a route to this network that has several.
fn one_of_several(to: Prefix, hop: &NextHop) -> RouteNextHop {
    let mut one = RouteNextHop::default();
    one.interface_index = hop.index;
    one.hops = (hop.weight.clamp(1, 256) - 1) as u8;
    one.attributes = hop.via.map(|via| gateway(to, via)).into_iter().collect();
    one
}

/// Gateway attribute of a route to this network. The gateway may be of the other address family.
fn gateway(to: Prefix, via: IpAddr) -> RouteAttribute {
    if to.ip.is_ipv4() == via.is_ipv4() {
        RouteAttribute::Gateway(via.into())
    } else {
        RouteAttribute::Via(via.into())
    }
}

impl Object for Route {
    type Id = RouteId;
    /// Treatment of packets: the kernel may have several routes with one destination and metric (`ip route
    /// append`).
    type Variant = (RouteKind, Option<u32>, Vec<NextHop>);

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetRoute(RouteMessage::default())
    }

    fn dump(kernel: &Netlink, keeps: fn(&Self) -> bool) -> io::Result<Vec<Self>> {
        let mut all = kernel.ipv4_routes(keeps)?;
        all.extend(gathered(&mut || kernel.routes_of(AddressFamily::Inet6, RouteProtocol::Unspec, keeps))?);
        Ok(all)
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        match message {
            RouteNetlinkMessage::NewRoute(message) => Some((true, Self::of(&message)?)),
            RouteNetlinkMessage::DelRoute(message) => Some((false, Self::of(&message)?)),
            _ => None,
        }
    }

    fn key(&self) -> (RouteId, Self::Variant) {
        (self.id, (self.kind, self.group, self.next_hops.clone()))
    }

    /// The kernel reports when some of the next hops of an IPv6 multipath route disappear.
    fn without(&self, gone: &Self) -> Option<Self> {
        let left: Vec<NextHop> =
            self.next_hops.iter().copied().filter(|hop| !gone.next_hops.contains(hop)).collect();
        let some_of_them = left.len() + gone.next_hops.len() == self.next_hops.len() && !left.is_empty();
        (some_of_them && self.kind == gone.kind).then(|| Self { next_hops: left, ..self.clone() })
    }
}

impl Route {
    /// Returns `None` if it is no IPv4 or IPv6 route (but multicast, for example), or a per-destination
    /// clone.
    fn of(message: &RouteMessage) -> Option<Self> {
        const CLONED: u32 = 0x200;
        let header = &message.header;
        if header.flags.bits() & CLONED != 0 {
            return None;
        }
        let everything = Prefix::any(header.address_family)?;
        let to = Prefix::new(everything.ip, header.destination_prefix_length)?;
        let mut read = Reading {
            id: RouteId { table: header.table.into(), to, tos: header.tos, metric: 0 },
            group: None,
            hop: NextHop { via: None, index: 0, weight: 1 },
            several: None,
        };
        message.attributes.iter().try_for_each(|attribute| read.take(attribute))?;
        let kind = kind(header.kind);
        let next_hops = match read.several {
            Some(hops) => hops,
            None if read.hop.index != 0 => vec![read.hop],
            None => Vec::new(),
        };
        Some(Self { id: read.id, kind, next_hops, group: read.group, protocol: header.protocol.into() })
    }
}

/// A route while its attributes are parsed.
struct Reading {
    id: RouteId,
    group: Option<u32>,
    /// The next hop, unless there are several.
    hop: NextHop,
    several: Option<Vec<NextHop>>,
}

impl Reading {
    /// Returns `None` if an address has an impossible family.
    fn take(&mut self, attribute: &RouteAttribute) -> Option<()> {
        match attribute {
            RouteAttribute::Destination(to) => self.id.to.ip = ip(to)?,
            RouteAttribute::Gateway(gateway) => self.hop.via = Some(ip(gateway)?),
            RouteAttribute::Via(gateway) => self.hop.via = Some(via(gateway)?),
            RouteAttribute::Oif(index) => self.hop.index = *index,
            RouteAttribute::Priority(metric) => self.id.metric = *metric,
            RouteAttribute::Table(table) => self.id.table = *table,
            RouteAttribute::NhId(group) => self.group = Some(*group),
            RouteAttribute::MultiPath(hops) => self.several = Some(hops.iter().map(next_hop).collect()),
            _ => {}
        }
        Some(())
    }
}

fn next_hop(hop: &RouteNextHop) -> NextHop {
    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(gateway) => ip(gateway),
        RouteAttribute::Via(gateway) => via(gateway),
        _ => None,
    });
    NextHop { via: gateway, index: hop.interface_index, weight: u16::from(hop.hops) + 1 }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn via(address: &RouteVia) -> Option<IpAddr> {
    match address {
        RouteVia::Inet(ip) => Some((*ip).into()),
        RouteVia::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn kind(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast => RouteKind::Local,
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::Throw => RouteKind::Throw,
        other => RouteKind::Other(other.into()),
    }
}

fn kernel_kind(kind: RouteKind) -> RouteType {
    match kind {
        RouteKind::Unicast => RouteType::Unicast,
        RouteKind::Local => RouteType::Local,
        RouteKind::Blackhole => RouteType::BlackHole,
        RouteKind::Unreachable => RouteType::Unreachable,
        RouteKind::Prohibit => RouteType::Prohibit,
        RouteKind::Throw => RouteType::Throw,
        RouteKind::Other(number) => number.into(),
    }
}

#[cfg(test)]
mod tests;
