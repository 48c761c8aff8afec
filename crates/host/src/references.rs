//! Checks of what a plan names on the host: attachments, files, devices, and the telemetry address. `check`,
//! `run` and `apply` make them before anything is built; each fault has a place in the file.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::path::Path;

use attach::files::{self, folder, is_served};
use config::{Container, Errors, Fault, Linux, Listen, Nic, Plan, Router, VhostThreads};
use rustix::fs::{Mode, OFlags, open};

use crate::control_plane;

/// Faults of names in a plan, each with its place in the file. What a run has in use already (`running`) is
/// not checked again.
pub fn faults(plan: &Plan, running: Option<&Plan>) -> Errors {
    let mut faults = Vec::new();
    let mut switch_refuses = false;
    faults.extend(plan.not_yet());
    for (index, router) in plan.routers.iter().enumerate() {
        let before = running.and_then(|plan| plan.routers.iter().find(|old| old.name == router.name));
        let of_router = |(key, what): (&'static str, String)| Fault::new(index, key, what);
        faults.extend(of_machine(router, before).into_iter().map(of_router));
        for (n, nic) in router.nics.iter().enumerate().filter(|(_, nic)| !has(before, nic)) {
            let is_of_switch = nic.attach.kind() == "ovs";
            // If Open vSwitch does not respond, each query takes seconds, so it is only asked once.
            let wanted = plan.wanted_outside(router, n);
            let wanted = wanted.filter(|_| !(is_of_switch && switch_refuses));
            let refused = wanted.and_then(|wanted| wanted.look().err());
            let lacks = refused.unwrap_or_default();
            switch_refuses |= is_of_switch && !lacks.is_empty();
            let is_interconnected = plan.is_interconnected(router, nic);
            let of_nic = |(key, what): (&'static str, String)| match is_interconnected {
                true => Fault::new(index, "interconnect", what),
                false => Fault::of_nic(index, n, key, what),
            };
            faults.extend(lacks.into_iter().map(of_nic));
        }
    }
    for (index, wanted) in plan.tunnelled() {
        let lacks = wanted.look().err().unwrap_or_default();
        faults.extend(lacks.into_iter().map(|(_, what)| Fault::new(index, "tunnels", what)));
    }
    plan.errors(faults)
}

/// Returns true if the router had this NIC, with the same attachment, before.
fn has(before: Option<&Router>, nic: &Nic) -> bool {
    let is_it = |old: &Nic| old.name == nic.name && old.attach == nic.attach;
    before.is_some_and(|before| before.nics.iter().any(is_it))
}

/// Missing requirements of a router's machine, by key.
fn of_machine(router: &Router, before: Option<&Router>) -> Vec<(&'static str, String)> {
    let mut lacks = Vec::new();
    let is_new = before.is_none_or(|before| before.vhost != router.vhost);
    if router.vhost == VhostThreads::Kernel && is_new {
        lacks.extend(vhost_net().err().map(|what| ("vhost", what)));
    }
    let is_new = before.is_none_or(|before| before.container != router.container);
    if let Some(container) = router.container.as_ref().filter(|_| is_new) {
        lacks.extend(contained(container));
    }
    // Its configuration may have another content by now. That of a group is read once.
    let speaks = router.membership().is_none_or(|(_, number)| number == 0);
    lacks.extend(router.control.as_ref().filter(|_| speaks).and_then(control_plane::lacks));
    let is_new = before.is_none_or(|before| before.linux != router.linux);
    if let Some(linux) = router.linux.as_ref().filter(|_| is_new) {
        lacks.extend(images(linux));
    }
    lacks
}

/// Checks whether the kernel can serve NICs (vhost-net).
pub fn vhost_net() -> Result<(), String> {
    vmm::vhost_net::open().map(drop).map_err(|error| format!("{error:#}"))
}

/// Returns what a container lacks on this host, by key: LXC, or its root directory.
pub fn contained(container: &Container) -> Vec<(&'static str, String)> {
    let lxc = lxc::Programs::default().look().err().map(|error| ("engine", error.to_string()));
    let missing =
        |root: &Path| (!root.is_dir()).then(|| ("rootfs", format!("there is no folder {}", root.display())));
    let root = container.rootfs.as_deref().and_then(missing);
    lxc.into_iter().chain(root).collect()
}

/// Files of a Linux guest that cannot be used, by key.
pub fn images(linux: &Linux) -> Vec<(&'static str, String)> {
    let read = |key, path: &Path| {
        let error = match fs::metadata(path) {
            Ok(file) if !file.is_file() => "it is no regular file".to_owned(),
            // O_NONBLOCK: it may have become a FIFO meanwhile, on which open(2) would block.
            _ => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                io::Error::from(open(path, flags, Mode::empty()).err()?).to_string()
            }
        };
        Some((key, format!("cannot read {}: {error}", path.display())))
    };
    let console = linux.console.as_deref().and_then(|path| Some(("console", files::written(path).err()?)));
    let initrd = linux.initrd.as_deref().and_then(|path| read("initrd", path));
    [read("kernel", &linux.kernel), initrd, console].into_iter().flatten().collect()
}

/// Checks whether counters can be served at this address.
pub fn listen(at: &Listen) -> io::Result<()> {
    match at {
        Listen::Tcp(address) => TcpListener::bind(address).map(drop),
        Listen::Unix(path) => {
            let in_use = || io::Error::new(ErrorKind::AddrInUse, "another program listens there");
            // A run creates its own folder.
            let is_made =
                |folder: &Path| !folder.exists() && api::folder::base().is_ok_and(|base| base == folder);
            if !folder(path).is_some_and(is_made) {
                files::socket(path).map_err(io::Error::other)?;
            }
            if is_served(path) { Err(in_use()) } else { Ok(()) }
        }
    }
}

#[cfg(test)]
mod tests;
