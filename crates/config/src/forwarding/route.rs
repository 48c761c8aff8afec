//! `[[router.route]]` and `[[router.neighbour]]` with IPv6 addresses.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::refused::is_refused;
use super::spread::is_spread;
use super::{Link, vrf};
use crate::address::{Address6, Prefix, Prefix6, parse_cidr};
use crate::mac::Mac;
use crate::nic::station_mac;
use crate::plan::Router;
use crate::read::valued;
use crate::route::nic_named;
use crate::section::{Section, WithLine};
use crate::six::{gateway, is_six};

/// Most static IPv6 neighbours of a router; the firmware has room for as many of both families.
const MOST_NEIGHBOURS: usize = 256;

/// What to write in place of two routes with the same destinations.
pub(crate) const SPREAD: &str = "write several gateways as one route: via = [\"GATEWAY\", \"GATEWAY\"]";

/// Destinations of a route, of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// IPv4.
    V4(Prefix),
    /// IPv6.
    V6(Prefix6),
}

impl Destination {
    /// Returns true if both have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::V4(one), Self::V4(other)) => one.overlaps(other),
            (Self::V6(one), Self::V6(other)) => one.overlaps(other),
            _ => false,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(out),
            Self::V6(prefix) => prefix.fmt(out),
        }
    }
}

/// A static route to IPv6 destinations, or to IPv4 destinations by an IPv6 gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route6 {
    /// Destinations.
    pub to: Destination,
    /// Gateway; `None`: the destinations are neighbours on the NIC.
    pub via: Option<Ipv6Addr>,
    /// Index of the outgoing NIC.
    pub nic: usize,
}

/// A static IPv6 neighbour, which needs no solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour6 {
    /// IPv6 address.
    pub address: Ipv6Addr,
    /// Ethernet address.
    pub mac: Mac,
    /// Index of the NIC that it is reached through.
    pub nic: usize,
}

impl Router {
    /// Static routes of both families by one gateway, or none: destinations, gateway, index of the outgoing NIC. First IPv4 destinations
    /// by IPv4 gateways, then all others; each in the order of the file.
    pub fn single_routes(&self) -> impl Iterator<Item = (Destination, Option<IpAddr>, usize)> {
        let four = self.routes.iter();
        let four = four.map(|route| (Destination::V4(route.to), route.via.map(IpAddr::V4), route.nic));
        let six = self.forwarding.routes6.iter();
        four.chain(six.map(|route| (route.to, route.via.map(IpAddr::V6), route.nic)))
    }

    /// Static neighbours of both families, IPv4 first: IP address, Ethernet address, index of the NIC.
    pub fn all_neighbours(&self) -> impl Iterator<Item = (IpAddr, Mac, usize)> {
        let four = self.neighbours.iter().map(|known| (IpAddr::V4(known.address), known.mac, known.nic));
        let six = self.forwarding.neighbours6.iter();
        four.chain(six.map(|known| (IpAddr::V6(known.address), known.mac, known.nic)))
    }
}

/// Returns true if a `[[router.route]]` is not an IPv4 route by a gateway or a NIC: its destination or its gateway is an
/// IPv6 one, or it has several gateways or a type.
pub(crate) fn is_other_route(section: &Section<'_>) -> bool {
    is_six_route(section) || is_spread(section) || is_refused(section)
}

/// Returns true if a `[[router.route]]` is read here.
fn is_six_route(section: &Section<'_>) -> bool {
    !is_refused(section) && !is_spread(section) && ["to", "via"].iter().any(|key| has_six(section, key))
}

/// Returns true if a `[[router.neighbour]]` is read here.
pub(crate) fn is_six_neighbour(section: &Section<'_>) -> bool {
    has_six(section, "address")
}

fn has_six(section: &Section<'_>, key: &str) -> bool {
    section.peek_text(key).is_some_and(is_six)
}

/// Reads the routes that concern IPv6.
pub(super) fn routes(router: &Section<'_>, nics: &[Link]) -> Vec<Route6> {
    let mut routes = Vec::new();
    let mut seen = HashMap::new();
    let sections = router.tables("route");
    for section in sections.iter().filter(|section| is_six_route(section)) {
        let Some(nics) = vrf::visible(section, nics) else { continue };
        let Some(route) = route(section, &nics) else { continue };
        let line = section.line_of("to");
        let first = seen.insert((section.peek_text("vrf"), route.to), line);
        if let Some(first) = first.or_else(|| by_ipv4(section, route.to, &sections)) {
            section.fault(line, "to", format!("{} is routed in line {first} already; {SPREAD}", route.to));
        }
        if let Some(what) = needless(route.to, &nics) {
            section.fault(line, "to", what);
        }
        routes.push(route);
    }
    routes
}

/// Line of a route to these destinations in the same VRF that has an IPv4 gateway, or none.
fn by_ipv4(section: &Section<'_>, to: Destination, all: &[Section<'_>]) -> Option<u32> {
    let is_same = |other: &&Section<'_>| {
        let given = other.peek_text("to").and_then(|text| destination(text).ok());
        !is_other_route(other) && given == Some(to) && other.peek_text("vrf") == section.peek_text("vrf")
    };
    all.iter().find(is_same).map(|other| other.line_of("to"))
}

/// Returns why a route is not needed, if it is not: its destinations are on a link of the router.
pub(super) fn needless(to: Destination, nics: &[Link]) -> Option<String> {
    let to = match to {
        Destination::V4(to) => return crate::route::needless(to, nics),
        Destination::V6(to) => to,
    };
    if to.len == 128 && nics.iter().any(|nic| nic.six.addresses.iter().any(|own| own.ip == to.network)) {
        return Some(format!("{to} is the router's own address, which needs no route"));
    }
    let own = nics.iter().find(|nic| nic.six.addresses.iter().any(|own| own.network() == to));
    own.map(|nic| format!("{to} is the network of NIC {:?}, which needs no route", nic.name))
}

fn route(section: &Section<'_>, nics: &[Link]) -> Option<Route6> {
    section.expect_keys(&["to", "via", "nic", "vrf"], &[]);
    section.required_text("to", "\"2001:db8:1::/48\"")?;
    let to = valued(section, "to", "", destination)?;
    let out = match section.text("nic", "\"wan\"") {
        Some(name) => Some(nic_named(section, name, nics)?),
        None => None,
    };
    let Some(via) = section.text("via", "\"2001:db8::fe\"") else {
        if out.is_none() {
            section.missing("via", "\"2001:db8::fe\"");
        }
        return Some(Route6 { to, via: None, nic: out? });
    };
    let found = gateway(via.value).and_then(|ip| Ok((ip, behind(ip, out, nics)?)));
    let (ip, nic) = found.map_err(|what| section.fault(via.line, "via", what)).ok()?;
    Some(Route6 { to, via: Some(ip), nic })
}

/// Parses the destinations of a route.
pub(super) fn destination(text: &str) -> Result<Destination, String> {
    if !is_six(text) {
        return crate::route::destination(text).map(Destination::V4);
    }
    let example = "write e.g. \"2001:db8:1::/48\"";
    let given: Address6 =
        parse_cidr(text).ok_or_else(|| format!("{text:?} is not an IPv6 prefix; {example}"))?;
    let network = given.network();
    if network.network != given.ip {
        return Err(format!("{text:?} has bits behind its prefix; write \"{network}\""));
    }
    let ip = network.network;
    let never = [
        (ip.is_multicast() && network.len >= 8, "multicast"),
        (ip.is_unicast_link_local() && network.len >= 10, "link-local"),
        ((ip.is_loopback() || ip.is_unspecified()) && network.len == 128, "no destination"),
    ];
    match never.iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(format!("{text:?} is {what}, which no router forwards; {example}")),
        None => Ok(Destination::V6(network)),
    }
}

/// Returns the NIC behind which a gateway is: `out`, or the one with its network. A link-local one needs `nic`.
pub(super) fn behind(ip: Ipv6Addr, out: Option<usize>, nics: &[Link]) -> Result<usize, String> {
    if nics.iter().any(|nic| nic.six.addresses.iter().any(|own| own.ip == ip)) {
        return Err(format!("{ip} is the router's own address; write its neighbour's"));
    }
    if ip.is_unicast_link_local() {
        let nic = out.ok_or_else(|| format!("{ip} may be behind any NIC; add nic = \"NAME\""))?;
        let has_six = !nics[nic].six.addresses.is_empty();
        return has_six.then_some(nic).ok_or_else(|| format!("NIC {:?} has no IPv6 address", nics[nic].name));
    }
    let holds = |nic: &&Link| nic.six.addresses.iter().any(|own| own.network().contains(ip));
    let holding = nics.iter().position(|nic| holds(&nic));
    match (holding, out) {
        (None, _) => Err(vrf::leak(ip.into(), nics)
            .unwrap_or_else(|| format!("{ip} is in none of the router's IPv6 networks: {}", networks(nics)))),
        (Some(nic), Some(out)) if nic != out => {
            Err(format!("{ip} is behind NIC {:?}, not {:?}; remove nic", nics[nic].name, nics[out].name))
        }
        (Some(nic), _) => Ok(nic),
    }
}

fn networks(nics: &[Link]) -> String {
    let own = nics.iter().flat_map(|nic| &nic.six.addresses);
    let all: Vec<String> = own.map(|own| own.network().to_string()).collect();
    if all.is_empty() { "its NICs have no IPv6 address".to_owned() } else { all.join(", ") }
}

/// Reads the static IPv6 neighbours.
pub(super) fn neighbours(router: &Section<'_>, nics: &[Link]) -> Vec<Neighbour6> {
    let sections = router.tables("neighbour");
    let mut neighbours: Vec<Neighbour6> = Vec::new();
    for section in sections.iter().filter(|section| is_six_neighbour(section)).take(MOST_NEIGHBOURS) {
        let Some(visible) = vrf::visible(section, nics) else { continue };
        let Some(neighbour) = neighbour(section, &visible) else { continue };
        let same = |known: &Neighbour6| (known.address, known.nic) == (neighbour.address, neighbour.nic);
        if neighbours.iter().any(same) {
            let what = format!("{} is there twice; remove one", neighbour.address);
            section.fault(section.line_of("address"), "address", what);
        }
        neighbours.push(neighbour);
    }
    neighbours
}

fn neighbour(section: &Section<'_>, nics: &[Link]) -> Option<Neighbour6> {
    section.expect_keys(&["address", "mac", "nic", "vrf"], &[]);
    let address = section.required_text("address", "\"2001:db8::fe\"")?;
    let mac = section.required_text("mac", "\"02:00:00:00:00:01\"").and_then(|WithLine { value, line }| {
        station_mac(value).map_err(|what| section.fault(line, "mac", what)).ok()
    });
    let out = match section.text("nic", "\"wan\"") {
        Some(name) => Some(nic_named(section, name, nics)?),
        None => None,
    };
    let found = gateway(address.value).and_then(|ip| Ok((ip, behind(ip, out, nics)?)));
    let (ip, nic) = found.map_err(|what| section.fault(address.line, "address", what)).ok()?;
    Some(Neighbour6 { address: ip, mac: mac?, nic })
}
