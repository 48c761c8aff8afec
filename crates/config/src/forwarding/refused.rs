//! `[[router.route]]` with `type`: destinations to which nothing is forwarded.

use serde::{Deserialize, Serialize};

use super::route::destination;
use super::{Destination, Link, vrf};
use crate::read::valued;
use crate::section::Section;

/// What happens to packets that such a route covers; the names are those of iproute2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteType {
    /// They are dropped, and nobody is told.
    Blackhole,
    /// Their sender is told that there is no way.
    Unreachable,
    /// Their sender is told that it is prohibited.
    Prohibit,
}

impl RouteType {
    const ALL: [Self; 3] = [Self::Blackhole, Self::Unreachable, Self::Prohibit];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blackhole => "blackhole",
            Self::Unreachable => "unreachable",
            Self::Prohibit => "prohibit",
        }
    }
}

/// A static route by which nothing is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRoute {
    /// Destinations.
    pub to: Destination,
    /// What happens to packets there.
    pub kind: RouteType,
    /// Number of its route table, that of a VRF; see [`Router::vrf_name`](crate::Router::vrf_name).
    pub table: usize,
}

/// Returns true if a `[[router.route]]` is read here.
pub(super) fn is_refused(section: &Section<'_>) -> bool {
    section.has("type")
}

/// Reads these routes.
pub(super) fn routes(router: &Section<'_>, links: &[Link]) -> Vec<RefusedRoute> {
    let sections = router.tables("route");
    let all = sections.iter().filter_map(|section| {
        let to = destination(section.peek_text("to")?).ok()?;
        Some((to, vrf::table(section, links), section.line_of("to")))
    });
    let all: Vec<(Destination, usize, u32)> = all.collect();
    let mut routes = Vec::new();
    for section in sections.iter().filter(|section| is_refused(section)) {
        let Some(links) = vrf::visible(section, links) else { continue };
        let Some(route) = route(section, &links) else { continue };
        let line = section.line_of("to");
        let same = |(to, table, other): &&(Destination, usize, u32)| {
            (*to, *table) == (route.to, route.table) && *other != line
        };
        if let Some((.., other)) = all.iter().find(same) {
            let what = format!("{} is routed in line {other} already", route.to);
            section.fault(line, "to", what);
        }
        routes.push(route);
    }
    routes
}

fn route(section: &Section<'_>, links: &[Link]) -> Option<RefusedRoute> {
    section.expect_keys(&["to", "type", "vrf"], &[]);
    let has_to = section.required_text("to", "\"198.51.100.0/24\"").is_some();
    let to = has_to.then(|| valued(section, "to", "", destination)).flatten();
    let kind = valued(section, "type", "\"blackhole\"", |text| {
        let found = RouteType::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text:?} is no type of route; types: blackhole, unreachable, prohibit"))
    });
    Some(RefusedRoute { to: to?, kind: kind?, table: vrf::table(section, links) })
}
