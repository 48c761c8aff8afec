//! `[router.control]`: the control plane of a router. It is a network namespace with an interface for each NIC, in which FRR
//! runs if the file names its configuration. A kernel router is such a namespace itself.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::keys::{Change, Entry, Value};
use crate::plan::{Deliver, Engine, Nic, Plan, Role, Router, VhostThreads};
use crate::read::{remember, valued};
use crate::section::Section;

/// Interface names that each namespace has itself, and entries of `/proc/sys/net/ipv4/conf`.
const TAKEN: [&str; 3] = ["lo", "all", "default"];
/// What is wrong with a VRF beside a control plane.
const ONE_TABLE: &str =
    "a control plane has one route table; give this VRF a [[router]] of its own, or remove it";

/// The control plane of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Configuration of FRR: a file, or a folder with `frr.conf`; `None`: FRR does not run.
    pub frr: Option<PathBuf>,
}

impl fmt::Display for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.frr {
            Some(path) => write!(out, "{{ frr = \"{}\" }}", path.display()),
            None => out.write_str("{}"),
        }
    }
}

/// Key `control` of a router.
pub(crate) const CONTROL: Entry<Router> = Entry::new(
    "control",
    ("a table, as below", "none"),
    "give it a control plane: a network namespace with an interface for each NIC",
    Change::Replaces,
    |router| router.control.as_ref().map(|control| Value::Text(control.to_string())),
);

/// Key `frr` of a control plane.
pub(crate) const FRR: Entry<Router> = Entry::new(
    "control.frr",
    ("a file, or a folder with frr.conf", "none"),
    "run FRR in it with this configuration",
    Change::Applies,
    |_| None,
);

/// Reads the control plane of the router with this index; `None`: it has none.
pub(crate) fn read(section: &Section<'_>, index: usize, plan: &mut Plan) -> Option<Control> {
    if !section.has("control") {
        return None;
    }
    let table = section.table("control", "[router.control]")?;
    table.expect_keys(&["frr"], &[]);
    remember(plan, (index, None), "control", table.line);
    remember(plan, (index, None), "control.frr", table.line_of("frr"));
    Some(Control { frr: valued(&table, "frr", "\"edge.conf\"", path) })
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err(format!("{text:?} names no file; write e.g. \"edge.conf\""));
    }
    Ok(Path::new(text).to_owned())
}

/// Refuses a control plane that a router cannot have, and what does not go with one.
pub(crate) fn verify(section: &Section<'_>, router: &Router) {
    if router.control.is_none() {
        return;
    }
    if let Some(what) = refusal(router) {
        section.fault(section.line_of("control"), "control", what);
    }
    if router.is_in_kernel() {
        // Its NICs are interfaces of its namespace, whatever they are plugged into.
        return;
    }
    for (nic, table) in router.nics.iter().zip(section.tables("nic")) {
        if let Some((key, what)) = trouble(nic) {
            table.fault(table.line_of(key), key, what);
        }
    }
    for (interface, table) in router.forwarding.interfaces.iter().zip(section.tables("interface")) {
        if interface.tags.outer.is_some() {
            let what = "a control plane has no interfaces with two tags in this version; remove it";
            table.fault(table.line_of("outer"), "outer", what);
        }
        // It may have that of its NIC, which is refused there.
        if interface.vrf.is_some() && table.has("vrf") {
            table.fault(table.line_of("vrf"), "vrf", ONE_TABLE);
        }
        if TAKEN.contains(&interface.name.as_str()) {
            table.fault(table.line_of("name"), "name", taken(&interface.name));
        }
    }
}

/// Why a router cannot have a control plane.
fn refusal(router: &Router) -> Option<&'static str> {
    match router.engine {
        Some(Engine::Linux) => {
            return Some("a Linux guest has its own; install FRR there, and remove [router.control]");
        }
        // FRR runs where the kernel forwards.
        Some(Engine::Kernel | Engine::Lxc) => return None,
        Some(Engine::Kvm | Engine::Process) | None => {}
    }
    if router.role != Role::Router {
        return Some("its firmware has no routes; write role = \"router\", or remove [router.control]");
    }
    let by_others = matches!(router.vhost, VhostThreads::Kernel | VhostThreads::Vmm);
    by_others.then_some("frames for it are sorted out by our threads; write vhost = \"shared\"")
}

/// What of a NIC does not go with a control plane, by key.
fn trouble(nic: &Nic) -> Option<(&'static str, String)> {
    if nic.deliver == Deliver::Direct {
        let what = "a control plane takes its frames before they reach the ring; write deliver = \"queued\"";
        return Some(("deliver", what.to_owned()));
    }
    if nic.attach.traits().is_handed {
        let what = format!(
            "{:?} hands the rings to another program, which knows no control plane; write e.g. \"tap:NAME\"",
            nic.attach.to_string()
        );
        return Some(("attach", what));
    }
    if nic.vrf.is_some() {
        return Some(("vrf", ONE_TABLE.to_owned()));
    }
    TAKEN.contains(&nic.name.as_str()).then(|| ("name", taken(&nic.name)))
}

fn taken(name: &str) -> String {
    format!("the kernel reserves the name {name:?}; choose another")
}

impl Router {
    /// Name of the router that speaks for it: its own, or that of its group, whose members have one control plane.
    pub fn speaker(&self) -> &str {
        self.membership().map_or(self.name.as_str(), |(group, _)| group)
    }
}

impl Plan {
    /// Returns the routers with a control plane, in the order of the file. A group is one router, with its name.
    pub fn controlled(&self) -> impl Iterator<Item = (&Router, &Control)> {
        let alone = self.routers.iter().filter(|router| router.membership().is_none());
        let all = alone.chain(self.groups.iter().map(|group| &group.pattern));
        all.filter_map(|router| Some((router, router.control.as_ref()?)))
    }

    /// Returns those of them that are machines: their control planes are namespaces of their own, with a shadow of each NIC.
    pub fn shadowed(&self) -> impl Iterator<Item = &Router> {
        self.controlled().map(|(router, _)| router).filter(|router| !router.is_in_kernel())
    }

    /// Returns the routers that learn routes from the control plane of this name: one, or the members of a group.
    pub fn learners<'p>(&'p self, speaker: &'p str) -> impl Iterator<Item = &'p Router> {
        self.routers.iter().filter(move |router| router.control.is_some() && router.speaker() == speaker)
    }
}
