//! What has to be done so that a run that follows one plan follows another. Pure: nothing is touched here.

use std::collections::BTreeMap;
use std::fmt::Write;

use config::keys::{self, Change, Entry, Value};
use config::{Nic, Plan, Prefix, Restart, Route, Router};

/// One thing to do. Names and indices are those of the new plan; what is to go is named as in the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A switch that was not there.
    AddSwitch(String),
    /// A switch keeps addresses for another time.
    SetAgeing(String),
    /// A router that is no longer there.
    RemoveRouter(String),
    /// A router that was not there.
    AddRouter(String),
    /// A router that cannot become what it is to be while it runs, and why.
    ReplaceRouter(String, Vec<String>),
    /// Static routes of a router.
    ChangeRoutes(String, Vec<RouteChange>),
    /// Settings of a router that change while it runs.
    Adjust(String, Vec<Setting>),
    /// A router is started, or stopped.
    Power(String),
    /// A switch that is no longer there; nobody is on it.
    RemoveSwitch(String),
}

impl Step {
    /// Whether a router comes, goes, or makes room for another one.
    pub(crate) const fn moves_a_router(&self) -> bool {
        matches!(self, Self::AddRouter(_) | Self::RemoveRouter(_) | Self::ReplaceRouter(..))
    }

    /// Whether it needs a machine for this router.
    pub(crate) fn builds(&self, router: &str) -> bool {
        matches!(self, Self::AddRouter(name) | Self::ReplaceRouter(name, _) if name == router)
    }
}

/// A setting that changes while a router runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// What happens when it stops by itself.
    Restart,
    /// What is let in at most.
    Limit,
    /// How long its threads poll without work.
    Spin,
    /// The cable of this NIC.
    Link(String),
}

/// A change of one static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteChange {
    /// It was not there.
    Add(Route),
    /// It leads elsewhere, the second way instead of the first.
    Turn(Route, Route),
    /// It is no longer there.
    Remove(Route),
}

impl RouteChange {
    /// What undoes it.
    pub(crate) const fn reversed(&self) -> Self {
        match *self {
            Self::Add(route) => Self::Remove(route),
            Self::Turn(old, new) => Self::Turn(new, old),
            Self::Remove(route) => Self::Add(route),
        }
    }
}

/// The steps from one plan to another, in an order in which each can be done: what is needed comes first, and what is
/// no longer used goes last. Where the new plan leaves the engine of a router open, it stays.
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

/// The router of a plan that has this name.
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
    let routes = route_changes(&old.routes, &new.routes);
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

/// What differs between two routers and can be changed while one runs; the NICs are the same.
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

/// Why a router cannot become another one while it runs: what its firmware is told once, when it boots, and what its
/// threads and devices are built from.
fn reasons(old: &Router, new: &Router) -> Vec<String> {
    let mut to = new.clone();
    to.engine = to.engine.or(old.engine);
    let mut why = differing(keys::ROUTER, old, &to);
    why.extend(nic_reasons(&old.nics, &new.nics));
    if old.neighbours != new.neighbours {
        why.push("static neighbours, which the firmware is told when it boots".to_owned());
    }
    why
}

/// The keys for which a router is replaced and that differ: `memory 32M -> 64M`.
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

/// The changes from one set of routes to another, in the order of their prefixes.
fn route_changes(old: &[Route], new: &[Route]) -> Vec<RouteChange> {
    let mut ways: BTreeMap<Prefix, (Option<Route>, Option<Route>)> = BTreeMap::new();
    for route in old {
        ways.entry(route.to).or_default().0 = Some(*route);
    }
    for route in new {
        ways.entry(route.to).or_default().1 = Some(*route);
    }
    let changes = ways.into_values().filter_map(|way| match way {
        (None, Some(new)) => Some(RouteChange::Add(new)),
        (Some(old), None) => Some(RouteChange::Remove(old)),
        (Some(old), Some(new)) if old != new => Some(RouteChange::Turn(old, new)),
        _ => None,
    });
    changes.collect()
}

/// A route in words: `10.0.0.0/8 via 192.0.2.254 out of wan`.
pub(crate) fn describe_route(router: &Router, route: &Route) -> String {
    let mut text = route.to.to_string();
    // Writing to a string cannot fail.
    if let Some(via) = route.via {
        let _ = write!(text, " via {via}");
    }
    if let Some(nic) = router.nics.get(route.nic) {
        let _ = write!(text, " out of {}", nic.name);
    }
    text
}

/// A restart policy in words.
pub(crate) fn describe_restart(restart: Restart) -> &'static str {
    match restart {
        Restart::Always => "started again when it fails",
        Restart::Never => "not started again when it fails",
    }
}

#[cfg(test)]
mod tests;
