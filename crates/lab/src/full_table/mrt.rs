//! Dumps of route tables in MRT's TABLE_DUMP_V2 format (RFC 6396, 4.3), as public route collectors offer them.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr};

use super::TableRoute;

/// Type TABLE_DUMP_V2.
const TABLE_DUMP_V2: u16 = 13;
/// Its subtypes.
const PEER_INDEX_TABLE: u16 = 1;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;
/// Type of a peer with an IPv4 address and an AS number of 32 bits.
const PEER: u8 = 2;
/// Flags of path attributes (RFC 4271, 4.3).
const TRANSITIVE: u8 = 0x40;
const OPTIONAL: u8 = 0x80;
/// When each route was learned, in seconds since 1970.
const LEARNED: u32 = 1_700_000_000;
/// Routes of an AS on the average: the Internet's.
const ROUTES_OF_AS: usize = 13;
/// First AS number of origins, and of those on the way.
const FIRST_ORIGIN: u32 = 100_000;
const FIRST_TRANSIT: u32 = 4_200_000_000;
/// Transit ASs to choose from.
const TRANSITS: usize = 200;

/// Routes of a BGP speaker.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'a> {
    /// Routes of either family.
    pub routes: &'a [TableRoute],
    /// Next hops, of each family that the routes have at least one: a route's number selects one of its family.
    pub hops: &'a [IpAddr],
    /// ASs in each path before that of the origin: the fewer, the better the route.
    pub transit: usize,
}

impl Dump<'_> {
    /// Writes the dump.
    ///
    /// # Errors
    /// It cannot be written, or a family lacks a next hop.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        record(out, PEER_INDEX_TABLE, &peers())?;
        let (four, six): (Vec<IpAddr>, Vec<IpAddr>) = self.hops.iter().partition(|hop| hop.is_ipv4());
        for (number, route) in self.routes.iter().enumerate() {
            let (kind, hops) =
                if route.to.is_ipv4() { (RIB_IPV4_UNICAST, &four) } else { (RIB_IPV6_UNICAST, &six) };
            let hop = hops.get(route.hop % hops.len().max(1)).ok_or(ErrorKind::InvalidInput)?;
            record(out, kind, &self.entry(number, route, *hop))?;
        }
        out.flush()
    }

    /// A route with its only path.
    fn entry(&self, number: usize, route: &TableRoute, hop: IpAddr) -> Vec<u8> {
        let mut octets = (number as u32).to_be_bytes().to_vec();
        octets.push(route.len);
        let len = usize::from(route.len).div_ceil(8);
        match route.to {
            IpAddr::V4(to) => octets.extend(to.octets().iter().take(len)),
            IpAddr::V6(to) => octets.extend(to.octets().iter().take(len)),
        }
        let attributes = self.attributes(number, hop);
        // One path, by the peer with index 0.
        octets.extend([0, 1, 0, 0]);
        octets.extend(LEARNED.to_be_bytes());
        octets.extend((attributes.len() as u16).to_be_bytes());
        octets.extend(attributes);
        octets
    }

    fn attributes(&self, number: usize, hop: IpAddr) -> Vec<u8> {
        const ORIGIN: u8 = 1;
        const AS_PATH: u8 = 2;
        const NEXT_HOP: u8 = 3;
        const MP_REACH_NLRI: u8 = 14;
        const SEQUENCE: u8 = 2;
        let origin = number / ROUTES_OF_AS;
        let transit = (0..self.transit).map(|at| FIRST_TRANSIT + ((origin + at * 31) % TRANSITS) as u32);
        let path: Vec<u32> = transit.chain([FIRST_ORIGIN + origin as u32]).collect();
        let numbers = path.iter().flat_map(|number| number.to_be_bytes());
        let path: Vec<u8> = [SEQUENCE, path.len() as u8].into_iter().chain(numbers).collect();
        let mut octets = Vec::new();
        attribute(&mut octets, (TRANSITIVE, ORIGIN), &[0]);
        attribute(&mut octets, (TRANSITIVE, AS_PATH), &path);
        match hop {
            IpAddr::V4(hop) => attribute(&mut octets, (TRANSITIVE, NEXT_HOP), &hop.octets()),
            // In full, as gobgp 3.10 expects it, with an address family, and without networks: not abbreviated to the next hop.
            IpAddr::V6(hop) => {
                let reach = [&[0, 2, 1, 16][..], &hop.octets(), &[0]].concat();
                attribute(&mut octets, (OPTIONAL, MP_REACH_NLRI), &reach);
            }
        }
        octets
    }
}

/// The peers of a dump: one.
fn peers() -> Vec<u8> {
    let id = Ipv4Addr::new(192, 0, 2, 255).octets();
    let number = 64_512_u32.to_be_bytes();
    // A name without octets, and one peer.
    [&id[..], &[0, 0, 0, 1, PEER], &id, &id, &number].concat()
}

fn attribute(octets: &mut Vec<u8>, (flags, kind): (u8, u8), value: &[u8]) {
    octets.extend([flags, kind, value.len() as u8]);
    octets.extend(value);
}

fn record(out: &mut dyn Write, subtype: u16, body: &[u8]) -> io::Result<()> {
    let [time, len] = [LEARNED, body.len() as u32].map(u32::to_be_bytes);
    let [kind, subtype] = [TABLE_DUMP_V2, subtype].map(u16::to_be_bytes);
    out.write_all(&[&time[..], &kind, &subtype, &len].concat())?;
    out.write_all(body)
}

#[cfg(test)]
mod tests;
