//! `[[router.route]]` and `[[router.neighbour]]`.

use std::net::Ipv4Addr;

use crate::address::{Address, Prefix, parse_cidr};
use crate::forwarding::{Link, SPREAD, is_other_route, is_six_neighbour, vrf};
use crate::nic::station_mac;
use crate::plan::{Neighbour, Route};
use crate::read::valued;
use crate::section::{Section, WithLine};

/// Most static neighbours of a router, as the firmware's tables have room for.
const MOST_NEIGHBOURS: usize = 256;

/// Parses the static routes of a router with these NICs.
pub(crate) fn routes(router: &Section<'_>, nics: &[Link]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for section in router.tables("route").into_iter().filter(|section| !is_other_route(section)) {
        let Some(nics) = vrf::visible(&section, nics) else { continue };
        let Some(route) = route(&section, &nics) else { continue };
        let line = section.line_of("to");
        if let Some(first) = seen.insert((section.peek_text("vrf"), route.to), line) {
            section.fault(line, "to", format!("{} is routed in line {first} already; {SPREAD}", route.to));
        }
        if let Some(what) = needless(route.to, &nics) {
            section.fault(line, "to", what);
        }
        routes.push(route);
    }
    routes
}

/// Returns why a route is not needed, if it is not: its destinations are on a link of the router.
pub(crate) fn needless(to: Prefix, nics: &[Link]) -> Option<String> {
    if to.len == 32 && is_own(to.network, nics) {
        return Some(format!("{to} is the router's own address, which needs no route"));
    }
    let own = nics.iter().find(|nic| nic.addresses.iter().any(|own| own.network() == to));
    own.map(|nic| format!("{to} is the network of NIC {:?}, which needs no route", nic.name))
}

fn route(section: &Section<'_>, nics: &[Link]) -> Option<Route> {
    section.expect_keys(&["to", "via", "nic", "vrf"], &[]);
    let has_to = section.required_text("to", "\"198.51.100.0/24\"").is_some();
    let to = has_to.then(|| valued(section, "to", "", destination)).flatten();
    let via = section.text("via", "\"192.0.2.254\"");
    let out = section.text("nic", "\"wan\"");
    if via.is_none() && out.is_none() {
        if !section.has("via") && !section.has("nic") {
            section.missing("via", "\"192.0.2.254\"");
        }
        return None;
    }
    let out = match out {
        Some(name) => Some(nic_named(section, name, nics)?),
        None => None,
    };
    let (gateway, nic) = match via {
        Some(via) => {
            let (ip, nic) = gateway(section, via, out, nics)?;
            (Some(ip), nic)
        }
        None => (None, out?),
    };
    Some(Route { to: to?, via: gateway, nic })
}

pub(crate) fn destination(text: &str) -> Result<Prefix, String> {
    let address: Address = parse_cidr(text)
        .ok_or_else(|| format!("{text:?} is not an IPv4 prefix; write e.g. \"198.51.100.0/24\""))?;
    let network = address.network();
    if network.network != address.ip {
        return Err(format!("{text:?} has bits behind its prefix; write \"{network}\""));
    }
    match NEVER.iter().find(|(block, _)| block.len <= network.len && block.contains(network.network)) {
        Some((block, what)) => Err(format!(
            "{text:?} lies in {block}, {what}, which no router forwards; write e.g. \"198.51.100.0/24\""
        )),
        None => Ok(network),
    }
}

/// Destinations that are never forwarded to (RFC 1812, 5.3.7; RFC 1122, 3.2.1.3; RFC 1112, 4), so that a
/// route to them would have no effect.
const NEVER: [(Prefix, &str); 4] = [
    (block([0, 0, 0, 0], 8), "\"this network\""),
    (block([127, 0, 0, 0], 8), "loopback"),
    (block([224, 0, 0, 0], 4), "multicast"),
    (block([240, 0, 0, 0], 4), "reserved and broadcast"),
];

const fn block([a, b, c, d]: [u8; 4], len: u8) -> Prefix {
    Prefix { network: Ipv4Addr::new(a, b, c, d), len }
}

pub(crate) fn nic_named(section: &Section<'_>, name: WithLine<&str>, nics: &[Link]) -> Option<usize> {
    let index = nics.iter().position(|nic| nic.name == name.value);
    let fault = match index {
        Some(index) => vrf::foreign(&nics[index]),
        None => {
            let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
            Some(format!("the router has no NIC {:?}; its NICs: {}", name.value, names.join(", ")))
        }
    };
    match fault {
        Some(what) => section.fault(name.line, "nic", what),
        None => return index,
    }
    None
}

pub(crate) fn gateway(
    section: &Section<'_>,
    via: WithLine<&str>,
    out: Option<usize>,
    nics: &[Link],
) -> Option<(Ipv4Addr, usize)> {
    let found = on_link(via.value, nics, "\"192.0.2.254\"").and_then(|(ip, nic)| match out {
        Some(out) if out != nic => {
            Err(format!("{ip} is behind NIC {:?}, not {:?}; remove nic", nics[nic].name, nics[out].name))
        }
        _ => Ok((ip, nic)),
    });
    found.map_err(|what| section.fault(via.line, "via", what)).ok()
}

/// Parses the address of a station in one of the router's own networks, and finds the NIC that it is reached
/// through.
fn on_link(text: &str, nics: &[Link], example: &str) -> Result<(Ipv4Addr, usize), String> {
    let ip: Ipv4Addr =
        text.parse().map_err(|_| format!("{text:?} is not an IPv4 address; write e.g. {example}"))?;
    if is_own(ip, nics) {
        return Err(format!("{ip} is the router's own address; write its neighbour's"));
    }
    let connected = nics
        .iter()
        .enumerate()
        .flat_map(|(index, nic)| nic.addresses.iter().map(move |address| (index, address.network())));
    let mut holding = connected.filter(|(_, network)| network.contains(ip));
    let Some((index, network)) = holding.next() else {
        let unknown = || format!("{ip} is in none of the router's networks: {}", networks(nics));
        return Err(vrf::leak(ip.into(), nics).unwrap_or_else(unknown));
    };
    if network.len < 31 && (ip == network.network || ip == network.last()) {
        return Err(format!("{ip} is no station of {network} but its network or broadcast address"));
    }
    Ok((ip, index))
}

fn is_own(ip: Ipv4Addr, nics: &[Link]) -> bool {
    nics.iter().flat_map(|nic| &nic.addresses).any(|address| address.ip == ip)
}

fn networks(nics: &[Link]) -> String {
    let all: Vec<String> =
        nics.iter().flat_map(|nic| &nic.addresses).map(|address| address.network().to_string()).collect();
    if all.is_empty() { "its NICs have no address".to_owned() } else { all.join(", ") }
}

/// Parses the static neighbours of a router with these NICs.
pub(crate) fn neighbours(router: &Section<'_>, nics: &[Link]) -> Vec<Neighbour> {
    let sections = router.tables("neighbour");
    if let Some(extra) = sections.get(MOST_NEIGHBOURS) {
        let what = format!("{} are too many; a router has at most {MOST_NEIGHBOURS}", sections.len());
        router.fault(extra.line, "neighbour", what);
    }
    let mut neighbours: Vec<Neighbour> = Vec::new();
    for section in sections.iter().filter(|section| !is_six_neighbour(section)).take(MOST_NEIGHBOURS) {
        let Some(visible) = vrf::visible(section, nics) else { continue };
        let Some(neighbour) = neighbour(section, &visible) else { continue };
        let vrf_of = |known: &Neighbour| nics[known.nic].vrf.as_deref();
        let same =
            |known: &Neighbour| known.address == neighbour.address && vrf_of(known) == vrf_of(&neighbour);
        if neighbours.iter().any(same) {
            let what = format!("{} is there twice; remove one", neighbour.address);
            section.fault(section.line_of("address"), "address", what);
        }
        neighbours.push(neighbour);
    }
    neighbours
}

fn neighbour(section: &Section<'_>, nics: &[Link]) -> Option<Neighbour> {
    section.expect_keys(&["address", "mac", "vrf"], &[]);
    let address = section.required_text("address", "\"192.0.2.254\"");
    let mac = section.required_text("mac", "\"02:00:00:00:00:01\"").and_then(|WithLine { value, line }| {
        station_mac(value).map_err(|what| section.fault(line, "mac", what)).ok()
    });
    let found = address.and_then(|WithLine { value, line }| {
        on_link(value, nics, "\"192.0.2.254\"").map_err(|what| section.fault(line, "address", what)).ok()
    });
    let (address, nic) = found?;
    Some(Neighbour { address, mac: mac?, nic })
}
