//! What a plan names of the host: interfaces, files, sockets, devices, bridges of Open vSwitch, and where counters are told.
//! It is judged before anything is built, by `check`, `run` and `apply` alike; what is found has a place in the file.

pub mod interfaces;

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

use config::{Attach, Errors, Fault, Linux, Listen, Nic, Plan, Router, VhostThreads};
use rustix::fs::{Access, Mode, OFlags, access, open};

/// Unix sockets of this network namespace, with flags and paths.
const SOCKETS: &str = "/proc/net/unix";
/// `__SO_ACCEPTCON` of `linux/net.h`: it listens.
const LISTENS: u32 = 0x1_0000;

/// What a plan names and cannot be had, each with its place in the file. What a run has `running` already is not asked for again.
pub fn faults(plan: &Plan, running: Option<&Plan>) -> Errors {
    let mut faults = Vec::new();
    let mut switch_refuses = false;
    for (index, router) in plan.routers.iter().enumerate() {
        let before = running.and_then(|plan| plan.routers.iter().find(|old| old.name == router.name));
        let of_router = |(key, what): (&'static str, String)| Fault::new(index, key, what);
        faults.extend(of_machine(router, before).into_iter().map(of_router));
        for (n, nic) in router.nics.iter().enumerate().filter(|(_, nic)| !has(before, nic)) {
            let is_of_switch = matches!(nic.attach, Attach::Ovs(_));
            // Where it does not answer, asking takes seconds each time.
            let lacks = if is_of_switch && switch_refuses { Vec::new() } else { of_outside(router, nic) };
            switch_refuses |= is_of_switch && !lacks.is_empty();
            let of_nic = |(key, what): (&'static str, String)| Fault::of_nic(index, n, key, what);
            faults.extend(lacks.into_iter().map(of_nic));
        }
    }
    plan.errors(faults)
}

/// Whether a router had this NIC, plugged into the same, before.
fn has(before: Option<&Router>, nic: &Nic) -> bool {
    let is_it = |old: &Nic| old.name == nic.name && old.attach == nic.attach;
    before.is_some_and(|before| before.nics.iter().any(is_it))
}

/// What cannot be had of what a router's machine is made of, by key.
fn of_machine(router: &Router, before: Option<&Router>) -> Vec<(&'static str, String)> {
    let mut lacks = Vec::new();
    let is_new = before.is_none_or(|before| before.vhost != router.vhost);
    if router.vhost == VhostThreads::Kernel && is_new {
        lacks.extend(vhost_net().err().map(|what| ("vhost", what)));
    }
    let is_new = before.is_none_or(|before| before.linux != router.linux);
    if let Some(linux) = router.linux.as_ref().filter(|_| is_new) {
        lacks.extend(images(linux));
    }
    lacks
}

/// What cannot be had of what a NIC is plugged into, by key.
fn of_outside(router: &Router, nic: &Nic) -> Vec<(&'static str, String)> {
    let attach = |outcome: Result<(), String>| outcome.err().map(|what| ("attach", what));
    match &nic.attach {
        Attach::Pcap { file, replay: from } => {
            let from = from.as_ref().and_then(|from| replay(&from.file).err());
            let file = attach(capture(file).map(drop));
            from.map(|what| ("replay", what)).into_iter().chain(file).collect()
        }
        Attach::VhostUserBackend { path, .. } | Attach::VhostUserFrontend { path, .. } => {
            attach(socket(path)).into_iter().collect()
        }
        Attach::Ovs(bridge) => attach(open_vswitch(bridge)).into_iter().collect(),
        Attach::Tap(name) => attach(interfaces::tap(name, router.outer_queues(nic))).into_iter().collect(),
        Attach::Macvtap { interface, .. } => {
            attach(interfaces::macvtap(interface, nic.mtu)).into_iter().collect()
        }
        Attach::Xdp(name) => attach(interfaces::xdp(name, router.outer_queues(nic))).into_iter().collect(),
        // Whether a bridge is there is a fact of the host.
        Attach::Switch(_) | Attach::Null | Attach::Bridge(_) => Vec::new(),
    }
}

/// What becomes of a file that is written.
pub fn capture(file: &Path) -> Result<&'static str, String> {
    let Some(folder) = folder(file).filter(|folder| folder.is_dir()) else {
        return Err(format!("{} lies in no folder that is there", file.display()));
    };
    if file.is_dir() {
        return Err(format!("{} is a folder: name a file", file.display()));
    }
    let (written, what) =
        if file.exists() { (file, "overwrites the file") } else { (folder, "makes the file") };
    match access(written, Access::WRITE_OK) {
        Ok(()) => Ok(what),
        Err(error) => Err(format!("cannot write {}: {error}", written.display())),
    }
}

/// Whether a file can be played.
pub fn replay(file: &Path) -> Result<(), String> {
    engine::open_replay(file).map(drop).map_err(|error| format!("{error:#}"))
}

/// Whether a socket can be at a path. Nobody is called there: a program that listens would take a caller for its peer.
pub fn socket(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let folder = folder(path).ok_or_else(|| format!("{shown} names no file"))?;
    if !folder.is_dir() {
        return Err(format!("there is no folder {0}: mkdir -p {0}", folder.display()));
    }
    match is_socket(path) {
        Some(false) => Err(format!("{shown} is there and no socket: remove it, or choose another path")),
        Some(true) | None => Ok(()),
    }
}

/// Whether what is at a path is a socket; none: nothing is there.
pub fn is_socket(path: &Path) -> Option<bool> {
    fs::symlink_metadata(path).ok().map(|file| file.file_type().is_socket())
}

/// Whether Open vSwitch can be asked, for five seconds at most, and has a bridge.
pub fn open_vswitch(bridge: &str) -> Result<(), String> {
    match ask_open_vswitch(&["br-exists", bridge]) {
        Ok((Some(0), _)) => Ok(()),
        Ok((Some(2), _)) => Err(format!("Open vSwitch has no bridge {bridge}: ovs-vsctl add-br {bridge}")),
        Ok(_) => {
            Err("ovs-vsctl does not reach Open vSwitch: start ovsdb-server, or set OVS_RUNDIR".to_owned())
        }
        Err(_) => Err("there is no ovs-vsctl: install openvswitch-switch".to_owned()),
    }
}

/// What Open vSwitch answers: exit code and text.
pub fn ask_open_vswitch(words: &[&str]) -> io::Result<(Option<i32>, String)> {
    let mut command = Command::new("ovs-vsctl");
    command.arg("--timeout=5").args(words).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// Whether the kernel serves NICs.
pub fn vhost_net() -> Result<(), String> {
    match OpenOptions::new().read(true).write(true).open("/dev/vhost-net") {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("there is no /dev/vhost-net: load the module vhost_net, or write vhost = \"shared\""
                .to_owned())
        }
        Err(error) => Err(format!("/dev/vhost-net cannot be opened: {error}")),
    }
}

/// What a Linux guest is made of and cannot be had, by key.
pub fn images(linux: &Linux) -> Vec<(&'static str, String)> {
    let read = |key, path: &Path| {
        let error = match fs::metadata(path) {
            Ok(file) if !file.is_file() => "it is no regular file".to_owned(),
            // It may have become a pipe meanwhile, which nobody waits at.
            _ => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                io::Error::from(open(path, flags, Mode::empty()).err()?).to_string()
            }
        };
        Some((key, format!("cannot read {}: {error}", path.display())))
    };
    let console = linux.console.as_deref().and_then(|path| Some(("console", capture(path).err()?)));
    let initrd = linux.initrd.as_deref().and_then(|path| read("initrd", path));
    [read("kernel", &linux.kernel), initrd, console].into_iter().flatten().collect()
}

/// Whether counters can be told there.
pub fn listen(at: &Listen) -> io::Result<()> {
    match at {
        Listen::Tcp(address) => TcpListener::bind(address).map(drop),
        Listen::Unix(path) => {
            let in_use = || io::Error::new(ErrorKind::AddrInUse, "another program listens there");
            // A run makes its own folder.
            let is_made =
                |folder: &Path| !folder.exists() && api::folder::base().is_ok_and(|base| base == folder);
            if !folder(path).is_some_and(is_made) {
                socket(path).map_err(io::Error::other)?;
            }
            if is_served(path) { Err(in_use()) } else { Ok(()) }
        }
    }
}

/// Whether somebody of this network namespace listens there. Others are not shown.
pub fn is_served(path: &Path) -> bool {
    let (Ok(list), Some(path)) = (fs::read_to_string(SOCKETS), path.to_str()) else { return false };
    let absolute = std::path::absolute(path).unwrap_or_default();
    list.lines().any(|line| listens_at(line).is_some_and(|at| at == path || Path::new(at) == absolute))
}

/// The path of a line if its socket listens: number, count, protocol, flags, type, state, inode, path.
fn listens_at(line: &str) -> Option<&str> {
    let (flags, at) = (line.split_whitespace().nth(3)?, line.split_whitespace().nth(7)?);
    // A path may have spaces.
    let path = line.find(at).and_then(|begin| line.get(begin..)).unwrap_or(at);
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0).then_some(path)
}

/// The folder that something lies in, or is to.
fn folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

#[cfg(test)]
mod tests;
