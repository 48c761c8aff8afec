//! Paths of frames through the routers of a plan, as lists of stations. Pure functions of the plan and of what exists.

use anyhow::{Context, Result, ensure};
use config::{Engine, Nic, Plan, Router, VhostThreads};

use super::Seen;

/// Space in which a station runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Kernel space of the host.
    Kernel,
    /// User space of the host, or a guest.
    User,
}

/// A station of a path: an interface, a NIC, a thread, or an end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Name of the interface, NIC or thread.
    pub name: String,
    /// Kind or task: `veth`, `moves frames`.
    pub what: String,
    /// Space in which it runs.
    pub space: Space,
    /// Part of the test bed that it belongs to: generator, router or sink; `None` for interfaces between these.
    pub part: Option<String>,
}

/// Path through one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Name of the router.
    pub router: String,
    /// Stations, from the load to the sink.
    pub stations: Vec<Station>,
}

impl Path {
    /// Formats the stations as one line.
    pub fn line(&self) -> String {
        let stations = self.stations.iter().map(|station| format!("{} ({})", station.name, station.what));
        stations.collect::<Vec<_>>().join(" > ")
    }
}

/// Returns the paths through all routers of a plan, each from its first NIC to its second.
///
/// # Errors
/// A router has fewer than two NICs, or one of its interfaces or threads does not exist.
pub fn paths(plan: &Plan, seen: &Seen) -> Result<Vec<Path>> {
    plan.routers.iter().map(|router| path(router, seen)).collect()
}

fn path(router: &Router, seen: &Seen) -> Result<Path> {
    let [first, second, ..] = router.nics.as_slice() else {
        anyhow::bail!("router {} has not two NICs", router.name)
    };
    let end = |name: &str, what: &str, part: &str| Station {
        name: name.to_owned(),
        what: what.to_owned(),
        space: Space::User,
        part: Some(part.to_owned()),
    };
    // Behind the port of a virtual function is a cable.
    let what = |nic: &Nic, here| if nic.attach.kind() == "vf" { "another host" } else { here };
    let mut stations = vec![end("load", what(first, "packet socket"), "traffic generator")];
    stations.extend(before((router, first), seen, Direction::In)?);
    stations.push(forwards(router, seen)?);
    stations.extend(before((router, second), seen, Direction::Out)?.into_iter().rev());
    stations.push(Station { space: Space::Kernel, ..end("sink", what(second, "counts"), "traffic sink") });
    Ok(Path { router: router.name.clone(), stations })
}

/// Returns the station that forwards: the host's kernel, or a vCPU.
fn forwards(router: &Router, seen: &Seen) -> Result<Station> {
    let part = Some(part(router));
    if router.engine.is_some_and(Engine::is_kernel) {
        let (name, what) = ("IP forwarding".to_owned(), "the host's kernel".to_owned());
        return Ok(Station { name, what, space: Space::Kernel, part });
    }
    let name = thread(router, seen, |role| role.starts_with("vc"))
        .with_context(|| format!("router {} has no vCPU that runs", router.name))?;
    Ok(Station { name, what: "firmware".to_owned(), space: Space::User, part })
}

/// Direction of frames at a NIC, seen from the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// Returns the stations from the outer interface to a NIC, and the NIC itself.
fn before((router, nic): (&Router, &Nic), seen: &Seen, direction: Direction) -> Result<Vec<Station>> {
    let (kind, interface) = (nic.attach.kind(), nic.attach.name());
    let mut stations = Vec::new();
    let outer = if kind == "veth" { None } else { seen.other_ends.get(interface) };
    for name in outer.into_iter().map(String::as_str).chain([interface]) {
        ensure!(seen.outside.contains(name), "there is no interface {name} for NIC {} to stand on", nic.name);
        let what = match kind {
            "tap" => "TAP",
            "vf" => "port, physical function",
            _ => "interface",
        };
        stations.push(outside(name, what));
    }
    if router.engine.is_some_and(Engine::is_kernel) {
        stations.push(inside(router, nic, seen)?);
        return Ok(stations);
    }
    if kind == "macvtap" {
        stations.push(outside(&format!("macvtap on {interface}"), "device mapping, and queue"));
    }
    stations.extend(mover(router, seen, direction));
    let part = Some(part(router));
    let (name, what) = (nic.name.clone(), nic.model.name().to_owned());
    stations.push(Station { name, what, space: Space::User, part });
    Ok(stations)
}

/// Returns the thread that moves frames between a machine's NIC and its attachment. With `vhost = "vmm"`, as in old QEMU, frames are sent
/// by the vCPU's thread, in the exit that the guest's doorbell causes.
fn mover(router: &Router, seen: &Seen, direction: Direction) -> Option<Station> {
    let in_exits = router.vhost == VhostThreads::Vmm && direction == Direction::Out;
    let name = thread(router, seen, |role| role.starts_with("vc") == in_exits)?;
    let what = if in_exits { "sends in its exit" } else { "moves frames" }.to_owned();
    Some(Station { name, what, space: Space::User, part: Some(part(router)) })
}

/// Returns the NIC of a kernel or container router: an interface in its namespace.
fn inside(router: &Router, nic: &Nic, seen: &Seen) -> Result<Station> {
    let is_there = seen.inside.get(&router.name).is_some_and(|names| names.contains(&nic.name));
    ensure!(is_there, "router {} has no interface {}", router.name, nic.name);
    let what = match nic.attach.kind() {
        "tap" | "bridge" => "veth",
        "vf" => "virtual function",
        kind => kind,
    };
    let (name, what) = (nic.name.clone(), what.to_owned());
    Ok(Station { name, what, space: Space::Kernel, part: Some(part(router)) })
}

fn outside(name: &str, what: &str) -> Station {
    Station { name: name.to_owned(), what: what.to_owned(), space: Space::Kernel, part: None }
}

/// Names the part of the test bed that consists of a router.
fn part(router: &Router) -> String {
    let engine = router.engine.map_or("", Engine::name);
    if router.engine.is_some_and(Engine::is_kernel) {
        return format!("router {} ({engine})", router.name);
    }
    format!("router {} ({engine}, vhost = {})", router.name, router.vhost.name())
}

/// Returns the first role of a router's threads for which `is_meant` holds.
fn thread(router: &Router, seen: &Seen, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    seen.threads.get(&router.name)?.iter().find(|role| is_meant(role)).cloned()
}
