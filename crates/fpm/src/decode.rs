//! Decoder of the netlink messages in a frame: routes and next-hop objects, as views that allocate nothing.
//!
//! `netlink-packet-route` has no next-hop objects and makes a vector for each route; the tests let it write what is read here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::{NextHop, Prefix, RouteKind};

use crate::attributes::{BadLength, address, attributes, number, short, via};

/// Octets of `struct nlmsghdr`.
pub const MESSAGE_HEADER: usize = 16;
/// Octets of `struct rtmsg`.
pub const ROUTE_HEADER: usize = 12;
/// Octets of `struct nhmsg`.
pub const NEXT_HOP_HEADER: usize = 8;
/// Octets of `struct rtnexthop`.
pub const HOP_HEADER: usize = 8;
/// Octets of `struct nexthop_grp`.
pub(crate) const MEMBER: usize = 8;
/// Most next hops of a route or members of a group: FRR's own limit (`MULTIPATH_NUM`) is at most 256.
const MOST_HOPS: usize = 256;

/// Message types of `linux/rtnetlink.h`.
pub mod types {
    /// A route exists (RTM_NEWROUTE).
    pub const NEW_ROUTE: u16 = 24;
    /// A route does not exist any more (RTM_DELROUTE).
    pub const DEL_ROUTE: u16 = 25;
    /// A next-hop object exists (RTM_NEWNEXTHOP).
    pub const NEW_NEXT_HOP: u16 = 104;
    /// A next-hop object does not exist any more (RTM_DELNEXTHOP).
    pub const DEL_NEXT_HOP: u16 = 105;
}

/// Numbers of a route's attributes (RTA_*).
pub mod route {
    /// Destination.
    pub const DST: u16 = 1;
    /// Source.
    pub const SRC: u16 = 2;
    /// Index of the outgoing interface.
    pub const OIF: u16 = 4;
    /// Gateway of the destination's family.
    pub const GATEWAY: u16 = 5;
    /// Metric.
    pub const PRIORITY: u16 = 6;
    /// Several next hops.
    pub const MULTIPATH: u16 = 9;
    /// Number of the table.
    pub const TABLE: u16 = 15;
    /// Gateway of either family.
    pub const VIA: u16 = 18;
    /// Destination that packets get.
    pub const NEWDST: u16 = 19;
    /// Encapsulation that packets get.
    pub const ENCAP: u16 = 22;
    /// Number of the next-hop object.
    pub const NH_ID: u16 = 30;
}

/// Numbers of a next-hop object's attributes (NHA_*).
pub mod next_hop {
    /// Number of the object.
    pub const ID: u16 = 1;
    /// Other objects that it consists of.
    pub const GROUP: u16 = 2;
    /// Packets are dropped.
    pub const BLACKHOLE: u16 = 4;
    /// Index of the outgoing interface.
    pub const OIF: u16 = 5;
    /// Gateway.
    pub const GATEWAY: u16 = 6;
    /// Encapsulation that packets get.
    pub const ENCAP: u16 = 8;
    /// It is one of a bridge's forwarding database.
    pub const FDB: u16 = 11;
}

/// Message of zebra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A route exists (with its present content).
    Route(RouteMessage<'a>),
    /// A route does not exist any more.
    NoRoute(RouteMessage<'a>),
    /// A next-hop object exists.
    Group(GroupMessage<'a>),
    /// A next-hop object, given by its number, does not exist any more.
    NoGroup(u32),
    /// A message of another type, such as a MAC address of EVPN (RTM_NEWNEIGH).
    Other(u16),
}

/// Route of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteMessage<'a> {
    /// Table number; `main` is 254.
    pub table: u32,
    /// Destination network; bits after its length are zero.
    pub to: Prefix,
    /// Treatment of packets.
    pub kind: RouteKind,
    /// Protocol that it comes from (RTPROT_*).
    pub protocol: u8,
    /// Metric; zebra writes 20 for all.
    pub metric: u32,
    /// Number of the next-hop object that it uses.
    pub group: Option<u32>,
    /// Next hops, unless it uses an object.
    pub hops: Hops<'a>,
    /// Reason why packets cannot be forwarded as it says.
    pub refused: Option<Refused>,
}

/// Next-hop object of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMessage<'a> {
    /// Number.
    pub id: u32,
    /// Content.
    pub content: GroupContent<'a>,
    /// Reason why packets cannot be forwarded as it says.
    pub refused: Option<Refused>,
}

/// Content of a next-hop object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupContent<'a> {
    /// A single next hop.
    Hop(NextHop),
    /// Packets are dropped.
    Blackhole,
    /// Other objects, in octets of `struct nexthop_grp`: see [`GroupContent::members`].
    Members(&'a [u8]),
}

impl<'a> GroupContent<'a> {
    /// Numbers of the members and their weights (1 to 256).
    pub fn members(self) -> impl Iterator<Item = (u32, u16)> + 'a {
        let octets = if let Self::Members(octets) = self { octets } else { &[] };
        octets.chunks_exact(MEMBER).map(|member| {
            let id = u32::from_ne_bytes([member[0], member[1], member[2], member[3]]);
            (id, u16::from(member[4]) + 1)
        })
    }
}

/// Next hops of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops<'a> {
    /// None in the message.
    None,
    /// One.
    One(NextHop),
    /// Several, in octets of `struct rtnexthop`, which were checked.
    Several(&'a [u8]),
}

impl<'a> Hops<'a> {
    /// The next hops in their order.
    pub fn iter(self) -> impl Iterator<Item = NextHop> + 'a {
        let (one, octets): (_, &'a [u8]) = match self {
            Self::None => (None, &[]),
            Self::One(hop) => (Some(hop), &[]),
            Self::Several(octets) => (None, octets),
        };
        one.into_iter().chain(several(octets).map_while(Result::ok).map(|(hop, _)| hop))
    }
}

/// Reason why a message, or what it says, is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A length or an address is wrong.
    Malformed,
    /// Packets would have to be encapsulated: MPLS, SRv6, VXLAN.
    Encapsulation,
    /// The route is for certain sources only.
    Source,
    /// Neither IPv4 nor IPv6.
    Family,
    /// More than 256 next hops.
    Hops,
    /// A next-hop object of a bridge.
    Bridge,
    /// There are too many routes in its table, or groups of next hops.
    Room,
}

impl Refused {
    /// Name for events and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Encapsulation => "encapsulation",
            Self::Source => "source",
            Self::Family => "family",
            Self::Hops => "hops",
            Self::Bridge => "bridge",
            Self::Room => "room",
        }
    }
}

impl From<BadLength> for Refused {
    fn from(_: BadLength) -> Self {
        Self::Malformed
    }
}

/// Messages of a frame's payload, each with its octets. A wrong length ends them with an error; other errors concern one
/// message.
pub fn messages(payload: &[u8]) -> impl Iterator<Item = Result<(Message<'_>, &[u8]), Refused>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = number(rest).map_or(0, |len| len as usize);
        let Some(message) = rest.get(..len).filter(|message| message.len() >= MESSAGE_HEADER) else {
            rest = &[];
            return Some(Err(Refused::Malformed));
        };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(read(message).map(|read| (read, message)))
    })
}

fn read(message: &[u8]) -> Result<Message<'_>, Refused> {
    let kind = short(&message[4..])?;
    let body = &message[MESSAGE_HEADER..];
    Ok(match kind {
        types::NEW_ROUTE => Message::Route(read_route(body)?),
        types::DEL_ROUTE => Message::NoRoute(read_route(body)?),
        types::NEW_NEXT_HOP => Message::Group(read_group(body)?),
        types::DEL_NEXT_HOP => Message::NoGroup(read_group_id(body)?),
        other => Message::Other(other),
    })
}

fn read_route(body: &[u8]) -> Result<RouteMessage<'_>, Refused> {
    let header = body.first_chunk::<ROUTE_HEADER>().ok_or(Refused::Malformed)?;
    let (to, len) = (everything(header[0])?, header[1]);
    let kind = route_kind(header[7]);
    let mut read = ReadingRoute {
        message: RouteMessage {
            table: header[4].into(),
            to,
            kind,
            protocol: header[5],
            metric: 0,
            group: None,
            hops: Hops::None,
            refused: (header[2] != 0).then_some(Refused::Source),
        },
        hop: NextHop { via: None, index: 0, weight: 1 },
    };
    attributes(&body[ROUTE_HEADER..]).try_for_each(|attribute| read.take(attribute?))?;
    read.finished(len)
}

/// Route while its attributes are read.
struct ReadingRoute<'a> {
    message: RouteMessage<'a>,
    /// The next hop, unless there are several.
    hop: NextHop,
}

impl<'a> ReadingRoute<'a> {
    fn take(&mut self, (name, value): (u16, &'a [u8])) -> Result<(), Refused> {
        let message = &mut self.message;
        match name {
            route::DST => message.to.ip = address(value)?,
            route::OIF => self.hop.index = number(value)?,
            route::GATEWAY => self.hop.via = Some(address(value)?),
            route::VIA => self.hop.via = Some(via(value)?),
            route::PRIORITY => message.metric = number(value)?,
            route::TABLE => message.table = number(value)?,
            route::NH_ID => message.group = Some(number(value)?),
            route::SRC => message.refused = Some(Refused::Source),
            route::ENCAP | route::NEWDST => message.refused = Some(Refused::Encapsulation),
            route::MULTIPATH => {
                message.hops = Hops::Several(value);
                message.refused = message.refused.or(check_several(value)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn finished(self, len: u8) -> Result<RouteMessage<'a>, Refused> {
        let mut message = self.message;
        message.to = masked(message.to.ip, len).ok_or(Refused::Malformed)?;
        if message.hops == Hops::None && self.hop.index != 0 {
            message.hops = Hops::One(self.hop);
        }
        Ok(message)
    }
}

/// Checks the next hops of a multipath route; returns a reason why they cannot be used.
fn check_several(octets: &[u8]) -> Result<Option<Refused>, Refused> {
    let (mut count, mut refused) = (0, None);
    for hop in several(octets) {
        let (_, encapsulated) = hop?;
        count += 1;
        refused = refused.or(encapsulated.then_some(Refused::Encapsulation));
    }
    Ok(if count > MOST_HOPS { Some(Refused::Hops) } else { refused })
}

/// Next hops of a multipath route, each with the information whether it encapsulates.
fn several(octets: &[u8]) -> impl Iterator<Item = Result<(NextHop, bool), BadLength>> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = short(rest).map_or(0, usize::from);
        let Some(hop) = rest.get(..len).filter(|hop| hop.len() >= HOP_HEADER) else {
            rest = &[];
            return Some(Err(BadLength));
        };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(one_of_several(hop))
    })
}

fn one_of_several(octets: &[u8]) -> Result<(NextHop, bool), BadLength> {
    let (mut hop, mut encapsulated) =
        (NextHop { via: None, index: number(&octets[4..])?, weight: u16::from(octets[3]) + 1 }, false);
    for attribute in attributes(&octets[HOP_HEADER..]) {
        match attribute? {
            (route::GATEWAY, value) => hop.via = Some(address(value)?),
            (route::VIA, value) => hop.via = Some(via(value)?),
            (route::ENCAP | route::NEWDST, _) => encapsulated = true,
            _ => {}
        }
    }
    Ok((hop, encapsulated))
}

fn read_group(body: &[u8]) -> Result<GroupMessage<'_>, Refused> {
    let attributes = attributes(body.get(NEXT_HOP_HEADER..).ok_or(Refused::Malformed)?);
    let mut hop = NextHop { via: None, index: 0, weight: 1 };
    let (mut id, mut special, mut refused) = (None, None, None);
    for attribute in attributes {
        match attribute? {
            (next_hop::ID, value) => id = Some(number(value)?),
            (next_hop::OIF, value) => hop.index = number(value)?,
            (next_hop::GATEWAY, value) => hop.via = Some(address(value)?),
            (next_hop::BLACKHOLE, _) => special = Some(GroupContent::Blackhole),
            (next_hop::ENCAP, _) => refused = Some(Refused::Encapsulation),
            (next_hop::FDB, _) => refused = Some(Refused::Bridge),
            (next_hop::GROUP, members) => {
                if members.len() % MEMBER != 0 {
                    return Err(Refused::Malformed);
                }
                refused = refused.or((members.len() > MOST_HOPS * MEMBER).then_some(Refused::Hops));
                special = Some(GroupContent::Members(members));
            }
            _ => {}
        }
    }
    let id = id.filter(|id| *id != 0).ok_or(Refused::Malformed)?;
    Ok(GroupMessage { id, content: special.unwrap_or(GroupContent::Hop(hop)), refused })
}

fn read_group_id(body: &[u8]) -> Result<u32, Refused> {
    for attribute in attributes(body.get(NEXT_HOP_HEADER..).ok_or(Refused::Malformed)?) {
        if let (next_hop::ID, value) = attribute? {
            return Ok(number(value)?);
        }
    }
    Err(Refused::Malformed)
}

/// Prefix of length 0 of an address family (AF_INET, AF_INET6).
fn everything(family: u8) -> Result<Prefix, Refused> {
    match family {
        2 => Ok(Prefix { ip: Ipv4Addr::UNSPECIFIED.into(), len: 0 }),
        10 => Ok(Prefix { ip: Ipv6Addr::UNSPECIFIED.into(), len: 0 }),
        _ => Err(Refused::Family),
    }
}

/// Prefix without bits after its length; `None` if the length exceeds that of the address.
pub(crate) fn masked(ip: IpAddr, len: u8) -> Option<Prefix> {
    let ip: IpAddr = match ip {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & !host).into()
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & !host).into()
        }
    };
    Prefix::new(ip, len)
}

/// Treatment of packets by the kind of a route (RTN_*).
const fn route_kind(kind: u8) -> RouteKind {
    match kind {
        1 => RouteKind::Unicast,
        2..=4 => RouteKind::Local,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        9 => RouteKind::Throw,
        other => RouteKind::Other(other),
    }
}

#[cfg(test)]
mod tests;
