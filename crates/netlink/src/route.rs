//! Routes.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteScope,
    RouteType, RouteVia,
};

use crate::prefix::family;
use crate::{Netlink, Object, Prefix};

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What tells it from others.
    pub id: RouteId,
    /// What becomes of a packet.
    pub kind: RouteKind,
    /// Where packets go, over which they are spread if there are several; of one that is `Local`, the interface that it is of.
    pub next_hops: Vec<NextHop>,
    /// Number of the next-hop object that it goes by (`ip nexthop`), if it does.
    pub group: Option<u32>,
    /// The protocol that has entered it (RTPROT_* of `linux/rtnetlink.h`).
    pub protocol: u8,
}

/// What tells a route from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId {
    /// Number of the table; that of `main` is 254.
    pub table: u32,
    /// The network that packets are for.
    pub to: Prefix,
    /// Type of service that it is for; 0: any.
    pub tos: u8,
    /// Its metric: the smallest of several with this destination counts.
    pub metric: u32,
}

/// What becomes of a packet that a route is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// It goes to a next hop.
    #[default]
    Unicast,
    /// It is the host's own, or a broadcast.
    Local,
    /// It is dropped without a word.
    Blackhole,
    /// It is dropped, and its sender told that the host is unreachable.
    Unreachable,
    /// It is dropped, and its sender told that that is prohibited.
    Prohibit,
    /// Another table is asked.
    Throw,
    /// Another kind of the kernel (RTN_*).
    Other(u8),
}

/// Where packets of a route go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// The gateway, which may be of the other family (RFC 8950); none: the destination is on the link.
    pub via: Option<IpAddr>,
    /// Index of the interface.
    pub index: u32,
    /// Its part of the packets, beside others: 1 to 256.
    pub weight: u16,
}

impl Netlink {
    /// Adds a route of the table `main` through a gateway that lies on a connected network.
    ///
    /// # Errors
    /// ENETUNREACH: it lies on none. EEXIST: there is such a route. EPERM.
    pub fn add_route(&self, to: Prefix, via: IpAddr) -> io::Result<()> {
        let mut message = to_network(to);
        message.attributes.push(RouteAttribute::Gateway(via.into()));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes a route of the table `main`.
    ///
    /// # Errors
    /// ESRCH: there is none. EPERM.
    pub fn delete_route(&self, to: Prefix) -> io::Result<()> {
        let mut message = to_network(to);
        message.header.scope = RouteScope::NoWhere;
        self.change(RouteNetlinkMessage::DelRoute(message), 0)
    }
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

impl Object for Route {
    type Id = RouteId;
    /// What becomes of its packets: the kernel may have several with one destination and metric (`ip route append`).
    type Variant = (RouteKind, Option<u32>, Vec<NextHop>);

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetRoute(RouteMessage::default())
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

    /// Of an IPv6 route over several next hops the kernel tells when some of them go.
    fn without(&self, gone: &Self) -> Option<Self> {
        let left: Vec<NextHop> =
            self.next_hops.iter().copied().filter(|hop| !gone.next_hops.contains(hop)).collect();
        let some_of_them = left.len() + gone.next_hops.len() == self.next_hops.len() && !left.is_empty();
        (some_of_them && self.kind == gone.kind).then(|| Self { next_hops: left, ..self.clone() })
    }
}

impl Route {
    /// None: it is no route of IPv4 or IPv6 (but, say, one of multicast), or one that the kernel has copied for a destination.
    fn of(message: &RouteMessage) -> Option<Self> {
        const CLONED: u32 = 0x200;
        let header = &message.header;
        if header.flags.bits() & CLONED != 0 {
            return None;
        }
        let everything = Prefix::everything(header.address_family)?;
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

/// A route while its attributes are read.
struct Reading {
    id: RouteId,
    group: Option<u32>,
    /// The only next hop, if there are not several.
    hop: NextHop,
    several: Option<Vec<NextHop>>,
}

impl Reading {
    /// None: an address is of a family that it cannot be of.
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

#[cfg(test)]
mod tests;
