//! `[[router.route]]` with several gateways, over which flows are spread.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::refused::is_refused;
use super::route::{Destination, behind, destination, needless};
use super::{Link, vrf};
use crate::read::valued;
use crate::route::nic_named;
use crate::section::{Section, WithLine};
use crate::six::{gateway, is_six};

/// Most gateways of a route.
pub const MOST_WAYS: usize = 64;

/// A static route with several gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadRoute {
    /// Destinations.
    pub to: Destination,
    /// Gateways, in the order of the file.
    pub ways: Vec<Way>,
}

/// One gateway of such a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Gateway; for IPv4 destinations it may be an IPv6 one (RFC 8950).
    pub via: IpAddr,
    /// Index of the outgoing NIC or interface.
    pub nic: usize,
    /// Its part of the flows, in relation to those of the others.
    pub weight: u8,
}

impl SpreadRoute {
    /// Returns its gateways as they are told: `192.0.2.1 * 3, 192.0.2.2`.
    pub fn gateways(&self) -> String {
        let told = self.ways.iter().map(|way| match way.weight {
            1 => way.via.to_string(),
            weight => format!("{} * {weight}", way.via),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// Returns the numbers of the NICs or interfaces by which it leads, each once.
    pub fn links(&self) -> Vec<usize> {
        let mut links: Vec<usize> = Vec::new();
        for way in &self.ways {
            if !links.contains(&way.nic) {
                links.push(way.nic);
            }
        }
        links
    }
}

/// Returns true if a `[[router.route]]` is read here.
pub(crate) fn is_spread(section: &Section<'_>) -> bool {
    !is_refused(section) && section.is_array("via")
}

/// Reads these routes.
pub(super) fn routes(router: &Section<'_>, links: &[Link]) -> Vec<SpreadRoute> {
    let sections = router.tables("route");
    let mut routes = Vec::new();
    for section in sections.iter().filter(|section| is_spread(section)) {
        let Some(links) = vrf::visible(section, links) else { continue };
        let Some(route) = route(section, &links) else { continue };
        let line = section.line_of("to");
        if let Some(other) = sections.iter().find(|other| is_same(section, other)) {
            let what = format!("{} is routed in line {} already", route.to, other.line_of("to"));
            section.fault(line, "to", what);
        }
        if let Some(what) = needless(route.to, &links) {
            section.fault(line, "to", what);
        }
        routes.push(route);
    }
    routes
}

/// Returns true if another table has the same destinations, and is the one to be named: of two with several gateways the first.
fn is_same(section: &Section<'_>, other: &Section<'_>) -> bool {
    let to = |section: &Section<'_>| section.peek_text("to").and_then(|text| destination(text).ok());
    let is_other = if is_spread(other) { other.line < section.line } else { !is_refused(other) };
    let same_vrf = section.peek_text("vrf") == other.peek_text("vrf");
    is_other && same_vrf && to(section).is_some() && to(section) == to(other)
}

fn route(section: &Section<'_>, links: &[Link]) -> Option<SpreadRoute> {
    section.expect_keys(&["to", "via", "nic", "weights", "vrf"], &[]);
    let has_to = section.required_text("to", "\"198.51.100.0/24\"").is_some();
    let to = has_to.then(|| valued(section, "to", "", destination)).flatten();
    let mut ways: Vec<Way> = Vec::new();
    for (text, out, weight) in wanted(section, links)? {
        let (via, nic) = way(section, text, (to?, out), links)?;
        if ways.iter().any(|way| (way.via, way.nic) == (via, nic)) {
            let what = format!("{via} is there twice; give it a greater weight instead");
            section.fault(text.line, "via", what);
        }
        ways.push(Way { via, nic, weight });
    }
    Some(SpreadRoute { to: to?, ways })
}

/// A gateway as the file has it, its NIC if the file names it, and its weight.
type Wanted<'s> = (WithLine<&'s str>, Option<usize>, u8);

/// Reads the gateways with their NICs and weights; `None`: they do not fit together, which is reported.
fn wanted<'s>(section: &Section<'s>, links: &[Link]) -> Option<Vec<Wanted<'s>>> {
    let (gateways, names) = (section.texts("via", "\"192.0.2.254\""), section.texts("nic", "\"wan\""));
    let (count, named) = (gateways.len(), names.len());
    if !(1..=MOST_WAYS).contains(&count) {
        section.fault(section.line_of("via"), "via", format!("{count} gateways; write 1 to {MOST_WAYS}"));
        return None;
    }
    if named > 1 && named != count {
        let what = format!("{named} NICs for {count} gateways; write one for all, or one for each");
        section.fault(section.line_of("nic"), "nic", what);
        return None;
    }
    let mut outs = Vec::new();
    for name in names {
        outs.push(nic_named(section, name, links)?);
    }
    let out = |at: usize| outs.get(if named > 1 { at } else { 0 }).copied();
    let all = gateways.into_iter().zip(weights(section, count)).enumerate();
    Some(all.map(|(at, (text, weight))| (text, out(at), weight)).collect())
}

/// Reads the weights of so many gateways; each has 1 if there are none, or they are wrong.
fn weights(section: &Section<'_>, gateways: usize) -> Vec<u8> {
    let weights = section.numbers("weights", 1..=255);
    if weights.len() == gateways {
        return weights.into_iter().map(|weight| weight as u8).collect();
    }
    if !weights.is_empty() {
        let what = format!("{} weights for {gateways} gateways; write one for each", weights.len());
        section.fault(section.line_of("weights"), "weights", what);
    }
    vec![1; gateways]
}

/// Reads a gateway for these destinations; returns it with the NIC that it is behind.
fn way(
    section: &Section<'_>,
    text: WithLine<&str>,
    (to, out): (Destination, Option<usize>),
    links: &[Link],
) -> Option<(IpAddr, usize)> {
    if !is_six(text.value) {
        if matches!(to, Destination::V6(_)) {
            section.fault(text.line, "via", format!("{} is no IPv6 gateway, and {to} needs one", text.value));
            return None;
        }
        return crate::route::gateway(section, text, out, links).map(|(ip, nic)| (IpAddr::V4(ip), nic));
    }
    let found = gateway(text.value).and_then(|ip| Ok((IpAddr::V6(ip), behind(ip, out, links)?)));
    found.map_err(|what| section.fault(text.line, "via", what)).ok()
}
