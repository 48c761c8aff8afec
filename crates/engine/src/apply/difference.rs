//! Computes the steps that turn a run that follows one plan into one that follows another. Pure: has no side
//! effects.

use std::collections::BTreeMap;
use std::fmt::Write;

use config::forwarding::Forwarding;
use config::keys::{self, Change, Entry, Value};
use config::{Nic, Plan, Prefix, Restart, Route, Router};

/// One step of a change. Names and indices are those of the new plan; removals are named as in the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A switch is added.
    AddSwitch(String),
    /// The ageing time of a switch changes.
    SetAgeing(String),
    /// A router is removed.
    RemoveRouter(String),
    /// A router is added.
    AddRouter(String),
    /// A router is replaced because it cannot be changed as required while it runs, with the reasons.
    ReplaceRouter(String, Vec<String>),
    /// Static routes of a router change.
    ChangeRoutes(String, Vec<RouteChange>),
    /// Settings of a router change at run time.
    Adjust(String, Vec<Setting>),
    /// A router is started or stopped, as the new plan says.
    Power(String),
    /// A switch is removed; no NIC is on it.
    RemoveSwitch(String),
}

impl Step {
    /// Returns true if the step adds, removes or replaces a router.
    pub(crate) const fn moves_a_router(&self) -> bool {
        matches!(self, Self::AddRouter(_) | Self::RemoveRouter(_) | Self::ReplaceRouter(..))
    }

    /// Returns true if the step has to build a machine for this router.
    pub(crate) fn builds(&self, router: &str) -> bool {
        matches!(self, Self::AddRouter(name) | Self::ReplaceRouter(name, _) if name == router)
    }
}

/// A setting that can be changed while a router runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Restart policy after a failure.
    Restart,
    /// Limit on the rate of admitted packets.
    Limit,
    /// Polling budget of its threads.
    Spin,
    /// Cable of this NIC, pulled out or plugged in.
    Link(String),
}

/// A change of one static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteChange {
    /// The route is added.
    Add(Route),
    /// The route is changed, from the first to the second.
    Turn(Route, Route),
    /// The route is removed.
    Remove(Route),
}

impl RouteChange {
    /// Returns the route that it is about, as it is afterwards unless it is removed.
    pub(crate) const fn route(&self) -> &Route {
        match self {
            Self::Add(route) | Self::Turn(_, route) | Self::Remove(route) => route,
        }
    }

    /// Returns the change that undoes this one.
    pub(crate) const fn reversed(&self) -> Self {
        match *self {
            Self::Add(route) => Self::Remove(route),
            Self::Turn(old, new) => Self::Turn(new, old),
            Self::Remove(route) => Self::Add(route),
        }
    }
}

/// Returns the steps from one plan to another, in an order in which each can be carried out: prerequisites
/// come first, removals of what is no longer used last. If the new plan leaves the engine of a router open,
/// the engine stays.
pub(crate) fn difference(from: &Plan, to: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    for switch in &to.switches {
        match from.switches.iter().find(|old| old.name == switch.name) {
            None => steps.push(Step::AddSwitch(switch.name.clone())),
            Some(old) if old.ageing != switch.ageing => steps.push(Step::SetAgeing(switch.name.clone())),
            Some(_) => {}
        }
    }
    let gone = from.routers.iter().filter(|old| router(to, &old.name).is_none());
    steps.extend(gone.map(|old| Step::RemoveRouter(old.name.clone())));
    for new in &to.routers {
        match router(from, &new.name) {
            None => steps.push(Step::AddRouter(new.name.clone())),
            Some(old) => steps.extend(router_steps(old, new)),
        }
    }
    let left = from.switches.iter().filter(|old| to.switches.iter().all(|new| new.name != old.name));
    steps.extend(left.map(|old| Step::RemoveSwitch(old.name.clone())));
    steps
}

/// Returns the router of a plan that has this name.
pub(crate) fn router<'p>(plan: &'p Plan, name: &str) -> Option<&'p Router> {
    plan.routers.iter().find(|router| router.name == name)
}

fn router_steps(old: &Router, new: &Router) -> Vec<Step> {
    let name = || new.name.clone();
    let why = reasons(old, new);
    if !why.is_empty() {
        return vec![Step::ReplaceRouter(name(), why)];
    }
    let mut steps = Vec::new();
    let routes = route_changes(old, new);
    if !routes.is_empty() {
        steps.push(Step::ChangeRoutes(name(), routes));
    }
    let settings = settings(old, new);
    if !settings.is_empty() {
        steps.push(Step::Adjust(name(), settings));
    }
    if old.is_stopped() != new.is_stopped() {
        steps.push(Step::Power(name()));
    }
    steps
}

/// Returns the settings that differ between two routers and can be changed at run time; the NICs are the
/// same.
fn settings(old: &Router, new: &Router) -> Vec<Setting> {
    let differs = [
        (Setting::Restart, old.restart != new.restart),
        (Setting::Limit, old.limit != new.limit),
        (Setting::Spin, old.spin != new.spin),
    ];
    let nics = old.nics.iter().zip(&new.nics);
    let links = nics.map(|(old, new)| (Setting::Link(new.name.clone()), old.is_pulled() != new.is_pulled()));
    differs.into_iter().chain(links).filter_map(|(setting, differs)| differs.then_some(setting)).collect()
}

/// Returns why a router cannot be changed into another one while it runs: differences in the settings that
/// its firmware reads once, when it boots, and those that its threads and devices are built from.
fn reasons(old: &Router, new: &Router) -> Vec<String> {
    let mut to = new.clone();
    to.engine = to.engine.or(old.engine);
    let mut why = differing(keys::ROUTER, old, &to);
    why.extend(nic_reasons(&old.nics, &new.nics));
    if old.neighbours != new.neighbours {
        why.push("static neighbours, which the firmware is told when it boots".to_owned());
    }
    why.extend(forwarding_reasons(&old.forwarding, &new.forwarding));
    why
}

/// Returns why a router is replaced for what it is told about IPv6 and VLANs when it boots.
fn forwarding_reasons(old: &Forwarding, new: &Forwarding) -> Vec<String> {
    let reasons = [
        ("IPv6 routes", old.routes6 != new.routes6),
        ("routes with several gateways", old.spread != new.spread),
        ("routes of a type", old.refused != new.refused),
        ("static IPv6 neighbours", old.neighbours6 != new.neighbours6),
        ("interfaces", old.interfaces != new.interfaces),
    ];
    reasons.into_iter().filter(|(_, differ)| *differ).map(|(what, _)| what.to_owned()).collect()
}

/// Returns the keys that differ and require a replacement of the router: `memory 32M -> 64M`.
fn differing<T>(entries: &[Entry<T>], old: &T, new: &T) -> Vec<String> {
    let word = |value: Option<Value>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
    let replaces = entries.iter().filter(|entry| entry.change == Change::Replaces);
    let values = replaces.map(|entry| (entry.name, word(entry.value(old)), word(entry.value(new))));
    values.filter(|(_, from, to)| from != to).map(|(key, from, to)| format!("{key} {from} -> {to}")).collect()
}

fn nic_reasons(before: &[Nic], after: &[Nic]) -> Vec<String> {
    let mut why = Vec::new();
    for nic in before {
        match after.iter().find(|other| other.name == nic.name) {
            None => why.push(format!("NIC {} removed", nic.name)),
            Some(other) => {
                let changes = differing(&keys::nic(), nic, other);
                why.extend(changes.into_iter().map(|change| format!("NIC {} {change}", nic.name)));
            }
        }
    }
    let added = after.iter().filter(|nic| before.iter().all(|other| other.name != nic.name));
    why.extend(added.map(|nic| format!("NIC {} added", nic.name)));
    if why.is_empty() && !before.iter().map(|nic| &nic.name).eq(after.iter().map(|nic| &nic.name)) {
        why.push("NICs in another order".to_owned());
    }
    why
}

/// Returns the changes from the routes of one router to those of another with the same NICs, in the order of their VRFs and
/// prefixes.
pub(crate) fn route_changes(old: &Router, new: &Router) -> Vec<RouteChange> {
    let mut ways: BTreeMap<(usize, Prefix), (Option<Route>, Option<Route>)> = BTreeMap::new();
    for route in &old.routes {
        ways.entry((old.table_of(route.nic), route.to)).or_default().0 = Some(*route);
    }
    for route in &new.routes {
        ways.entry((new.table_of(route.nic), route.to)).or_default().1 = Some(*route);
    }
    let changes = ways.into_values().filter_map(|way| match way {
        (None, Some(new)) => Some(RouteChange::Add(new)),
        (Some(old), None) => Some(RouteChange::Remove(old)),
        (Some(old), Some(new)) if old != new => Some(RouteChange::Turn(old, new)),
        _ => None,
    });
    changes.collect()
}

/// Describes a route: `10.0.0.0/8 via 192.0.2.254 out of wan`.
pub(crate) fn describe_route(router: &Router, route: &Route) -> String {
    let mut text = route.to.to_string();
    // Writing to a string cannot fail.
    if let Some(via) = route.via {
        let _ = write!(text, " via {via}");
    }
    if let Some(name) = router.link_name(route.nic) {
        let _ = write!(text, " out of {name}");
    }
    text
}

/// Describes a restart policy.
pub(crate) fn describe_restart(restart: Restart) -> &'static str {
    match restart {
        Restart::Always => "started again when it fails",
        Restart::Never => "not started again when it fails",
    }
}

#[cfg(test)]
mod tests;
