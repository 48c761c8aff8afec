//! What has to be done so that a run that follows one plan follows another. Pure: nothing is touched here.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use config::{Engine, Nic, Plan, Prefix, Rate, Restart, Role, Route, Router, Spin, VhostThreads};

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
    /// Another restart policy.
    Restart(String),
    /// Another limit.
    Limit(String),
    /// A switch that is no longer there; nobody is on it.
    RemoveSwitch(String),
}

impl Step {
    /// Whether it needs a machine for this router.
    pub(crate) fn builds(&self, router: &str) -> bool {
        matches!(self, Self::AddRouter(name) | Self::ReplaceRouter(name, _) if name == router)
    }
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
    if old.restart != new.restart {
        steps.push(Step::Restart(name()));
    }
    if old.limit != new.limit {
        steps.push(Step::Limit(name()));
    }
    steps
}

/// One thing that a Linux guest is made of, in words.
type LinuxPart = fn(&config::Linux) -> String;

const LINUX: [(&str, LinuxPart); 4] = [
    ("kernel", |linux| linux.kernel.display().to_string()),
    ("initrd", |linux| file(&linux.initrd)),
    ("append", |linux| linux.append.clone()),
    ("console", |linux| file(&linux.console)),
];

fn file(path: &Option<std::path::PathBuf>) -> String {
    path.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

/// Why a router cannot become another one while it runs: what its firmware is told once, when it boots, and what its
/// threads and devices are built from.
fn reasons(from: &Router, to: &Router) -> Vec<String> {
    let mut why = Vec::new();
    let mut compare = |what: &str, from: String, to: String| {
        if from != to {
            why.push(format!("{what} {from} -> {to}"));
        }
    };
    let engine = |engine: Option<Engine>| engine.map_or("any", Engine::name).to_owned();
    compare("engine", engine(from.engine), engine(to.engine.or(from.engine)));
    let linux = |linux: &Option<config::Linux>, value: fn(&config::Linux) -> String| {
        linux.as_ref().map_or_else(|| "none".to_owned(), value)
    };
    for (what, value) in LINUX {
        compare(what, linux(&from.linux, value), linux(&to.linux, value));
    }
    compare("role", role(from.role), role(to.role));
    compare("vcpus", from.vcpus.to_string(), to.vcpus.to_string());
    compare("memory", mib(from.memory), mib(to.memory));
    compare("vhost", vhost(from.vhost).to_owned(), vhost(to.vhost).to_owned());
    compare("spin", spin(from.spin), spin(to.spin));
    why.extend(nic_reasons(&from.nics, &to.nics));
    if from.neighbours != to.neighbours {
        why.push("static neighbours, which the firmware is told when it boots".to_owned());
    }
    why
}

fn nic_reasons(before: &[Nic], after: &[Nic]) -> Vec<String> {
    let mut why = Vec::new();
    for nic in before {
        match after.iter().find(|other| other.name == nic.name) {
            None => why.push(format!("NIC {} removed", nic.name)),
            Some(other) => {
                let changes = nic_changes(&nic_values(nic), &nic_values(other));
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

fn nic_changes(old: &[(&str, String)], new: &[(&str, String)]) -> Vec<String> {
    let pairs = old.iter().zip(new).filter(|(from, to)| from != to);
    pairs.map(|((key, from), (_, to))| format!("{key} {from} -> {to}")).collect()
}

/// Everything that a NIC is, by its keys.
fn nic_values(nic: &Nic) -> Vec<(&'static str, String)> {
    let Nic {
        name: _,
        model,
        mode,
        itr,
        combine,
        combine_above,
        attach,
        mac,
        addresses,
        queues,
        hash,
        queue_len,
        mtu,
        deliver,
        ring,
        offload,
        memory_max,
    } = nic;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let word = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
    vec![
        ("model", model.name().to_owned()),
        ("mode", mode.name().to_owned()),
        ("itr", itr.to_string()),
        ("combine", combine.to_string()),
        ("combine_above", combine_above.to_string()),
        ("attach", format!("{attach}{}", attach.detail())),
        ("mac", mac.to_string()),
        ("address", if addresses.is_empty() { "none".to_owned() } else { addresses.join(" ") }),
        ("queues", queues.to_string()),
        ("hash", word(hash)),
        ("queue_len", queue_len.to_string()),
        ("mtu", mtu.to_string()),
        ("deliver", word(deliver)),
        ("ring", ring.to_string()),
        ("offload", offload.to_string()),
        ("memory_max", format!("{}M", memory_max >> 20)),
    ]
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

/// A limit as a file says it.
pub(crate) fn describe_limit(limit: Option<Rate>) -> String {
    limit.map_or_else(|| "none".to_owned(), |rate| rate.to_string())
}

fn role(role: Role) -> String {
    match role {
        Role::Router => "router".to_owned(),
        Role::Echo => "echo".to_owned(),
        Role::Hostile(misdeed) => format!("hostile ({})", misdeed.name()),
    }
}

fn mib(octets: u64) -> String {
    format!("{} MiB", octets >> 20)
}

fn vhost(threads: VhostThreads) -> &'static str {
    threads.name()
}

fn spin(spin: Spin) -> String {
    match spin {
        Spin::Always => "always".to_owned(),
        Spin::For(time) => format!("{time:?}"),
    }
}

#[cfg(test)]
mod tests;
