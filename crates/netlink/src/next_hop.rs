//! Next-hop objects (`ip nexthop`; `linux/nexthop.h`, Linux 5.3), and groups of them, which routes use by their numbers.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};

use crate::Netlink;
use crate::attribute::{Attributes, attributes, number};

/// Types of messages.
const NEW: u16 = 104;
const DELETE: u16 = 105;
const GET: u16 = 106;
/// Attributes.
const ID: u16 = 1;
const GROUP: u16 = 2;
const GROUP_TYPE: u16 = 3;
const INTERFACE: u16 = 5;
const GATEWAY: u16 = 6;
const RESILIENT: u16 = 12;
/// Attribute within [`RESILIENT`].
const BUCKETS: u16 = 1;
/// Values of [`GROUP_TYPE`].
const BY_THRESHOLD: u16 = 0;
const IS_RESILIENT: u16 = 1;
/// Octets of `struct nhmsg`, and of an entry of a group.
const HEADER: usize = 8;
const ENTRY: usize = 8;

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// Its number, unique in its namespace.
    pub id: u32,
    /// Protocol that has created it (RTPROT_* of `linux/rtnetlink.h`).
    pub protocol: u8,
    /// What it is.
    pub kind: NextHopKind,
}

/// A next hop, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopKind {
    /// A gateway behind an interface.
    Gateway {
        /// Address of the gateway.
        via: IpAddr,
        /// Index of the interface.
        index: u32,
    },
    /// A group: numbers of its members and their weights, 1 to 256.
    Group(Vec<(u32, u16)>),
    /// Something else: a next hop without a gateway, a blackhole.
    Other,
}

impl Netlink {
    /// Creates a next hop.
    ///
    /// # Errors
    /// EOPNOTSUPP: this kernel has no next-hop objects. ENETDOWN: the interface is down, or has no carrier. ENETUNREACH,
    /// EHOSTUNREACH, EINVAL: the gateway is on no connected network. EEXIST: the number is taken. EPERM.
    pub fn add_next_hop(&self, id: u32, (via, index): (IpAddr, u32), protocol: u8) -> io::Result<()> {
        let octets = match via {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let of = Attributes::default().number(ID, id).number(INTERFACE, index).with(GATEWAY, &octets);
        self.change_raw(NEW, NLM_F_CREATE | NLM_F_EXCL, &message(family(via), protocol, &of))
    }

    /// Creates a group of next hops, given by their numbers and weights (1 to 256). `buckets`: it is resilient, with so many
    /// buckets (Linux 5.13); `None`: a hash is compared with thresholds.
    ///
    /// # Errors
    /// EOPNOTSUPP, EINVAL: this kernel has no such groups. ENOENT, EINVAL: a member does not exist. EEXIST: the number is taken.
    /// EPERM.
    pub fn add_next_hop_group(
        &self,
        id: u32,
        (members, buckets): (&[(u32, u16)], Option<u16>),
        protocol: u8,
    ) -> io::Result<()> {
        let entry = |(id, weight): &(u32, u16)| {
            let [a, b, c, d] = id.to_ne_bytes();
            [a, b, c, d, weight.saturating_sub(1).min(255) as u8, 0, 0, 0]
        };
        let entries: Vec<u8> = members.iter().flat_map(entry).collect();
        let kind = if buckets.is_some() { IS_RESILIENT } else { BY_THRESHOLD };
        let of = Attributes::default().number(ID, id).with(GROUP, &entries);
        let of = of.with(GROUP_TYPE, &kind.to_ne_bytes());
        let of = buckets.into_iter().fold(of, |of, buckets| {
            of.nest(RESILIENT, &Attributes::default().with(BUCKETS, &buckets.to_ne_bytes()))
        });
        self.change_raw(NEW, NLM_F_CREATE | NLM_F_EXCL, &message(libc::AF_UNSPEC as u8, protocol, &of))
    }

    /// Deletes a next hop, or a group together with the routes that use it. A next hop leaves its groups.
    ///
    /// # Errors
    /// ENOENT: there is none with this number. EPERM.
    pub fn delete_next_hop(&self, id: u32) -> io::Result<()> {
        let of = Attributes::default().number(ID, id);
        self.change_raw(DELETE, 0, &message(libc::AF_UNSPEC as u8, 0, &of))
    }

    /// Dumps all next-hop objects.
    ///
    /// # Errors
    /// EOPNOTSUPP: this kernel has none. Others if it does not answer.
    pub fn next_hops(&self) -> io::Result<Vec<NextHopObject>> {
        let question = message(libc::AF_UNSPEC as u8, 0, &Attributes::default());
        let found = self.dump_raw(GET, NLM_F_DUMP, &question)?;
        Ok(found.iter().filter_map(|body| read(body)).collect())
    }
}

const fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// A message about an object, without the header of netlink.
fn message(family: u8, protocol: u8, of: &Attributes) -> Vec<u8> {
    [&[family, 0, protocol, 0, 0, 0, 0, 0][..], of.octets()].concat()
}

/// Reads an object; `None` if it has no number.
fn read(body: &[u8]) -> Option<NextHopObject> {
    let (header, rest) = body.split_at_checked(HEADER)?;
    let (mut id, mut via, mut index, mut members) = (None, None, 0, None);
    for (kind, value) in attributes(rest) {
        match kind {
            ID => id = number(value),
            INTERFACE => index = number(value).unwrap_or(0),
            GATEWAY => via = address(value),
            GROUP => members = Some(value.chunks_exact(ENTRY).filter_map(member).collect()),
            _ => {}
        }
    }
    let kind = match (members, via) {
        (Some(members), _) => NextHopKind::Group(members),
        (None, Some(via)) => NextHopKind::Gateway { via, index },
        (None, None) => NextHopKind::Other,
    };
    Some(NextHopObject { id: id?, protocol: header[2], kind })
}

fn member(entry: &[u8]) -> Option<(u32, u16)> {
    let (id, rest) = entry.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*id), u16::from(*rest.first()?) + 1))
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_an_object_is_read() {
        let of = Attributes::default().number(ID, 7).number(INTERFACE, 3).with(GATEWAY, &[192, 0, 2, 1]);
        let via = IpAddr::from([192, 0, 2, 1]);
        let kind = NextHopKind::Gateway { via, index: 3 };
        assert_eq!(read(&message(2, 114, &of)), Some(NextHopObject { id: 7, protocol: 114, kind }));
        let entries = [[7_u32.to_ne_bytes(), [2, 0, 0, 0]].concat(), [8_u32.to_ne_bytes(), [0; 4]].concat()];
        let of = Attributes::default().number(ID, 9).with(GROUP, &entries.concat());
        let kind = NextHopKind::Group(vec![(7, 3), (8, 1)]);
        assert_eq!(read(&message(0, 4, &of)), Some(NextHopObject { id: 9, protocol: 4, kind }));
        // An address of a wrong length, no number, and a message that is too short.
        let of = Attributes::default().number(ID, 1).with(GATEWAY, &[1, 2]);
        assert_eq!(read(&message(2, 4, &of)).map(|found| found.kind), Some(NextHopKind::Other));
        assert_eq!(read(&message(2, 4, &Attributes::default())), None);
        assert_eq!(read(&[0; 7]), None);
    }
}
