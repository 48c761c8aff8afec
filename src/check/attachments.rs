//! What each attachment of a plan needs of this host, and whether it is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use config::{Attach, MacvtapMode, Nic, Plan, Router, SocketSide, VhostThreads};

use crate::doctor::{self, Finding, State};

/// Where the kernel shows its interfaces.
const NET: &str = "/sys/class/net";

/// One line for each NIC that is plugged into something outside, and before them what several need.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let any = |wanted: fn(&Attach) -> bool| plan.nics().any(|(_, nic)| wanted(&nic.attach));
    if any(|attach| matches!(attach, Attach::Tap(_) | Attach::Bridge(_) | Attach::Ovs(_))) {
        findings.push(doctor::tun_device());
    }
    if any(makes_interfaces) {
        findings.push(doctor::net_admin());
    }
    if plan.routers.iter().any(|router| router.vhost == VhostThreads::Kernel) {
        findings.push(vhost_net());
    }
    findings.extend(plan.nics().filter_map(|(router, nic)| finding(plan, router, nic)));
    findings
}

/// What serves the NICs of a router with `vhost = "kernel"`.
fn vhost_net() -> Finding {
    let (path, what) = ("/dev/vhost-net", "vhost = \"kernel\"");
    match fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Finding::new(State::Ok, path, what, "the kernel serves the NICs by threads of its own"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let meaning = "there is none: load the module vhost_net, or write vhost = \"shared\"";
            Finding::new(State::No, path, what, meaning)
        }
        Err(error) => Finding::new(State::No, path, what, format!("cannot be opened: {error}")),
    }
}

fn makes_interfaces(attach: &Attach) -> bool {
    matches!(
        attach,
        Attach::Tap(_) | Attach::Bridge(_) | Attach::Ovs(_) | Attach::Macvtap { .. } | Attach::Xdp(_)
    )
}

/// What is to be said of one NIC; nothing where nothing outside is needed.
fn finding(plan: &Plan, router: &Router, nic: &Nic) -> Option<Finding> {
    let (state, meaning) = match &nic.attach {
        Attach::Switch(_) | Attach::Null => return None,
        Attach::Tap(name) => tap(name),
        Attach::Bridge(name) => bridge(name),
        Attach::Ovs(name) => open_vswitch(name),
        Attach::Macvtap { interface, mode } => macvtap(interface, *mode),
        Attach::Xdp(interface) => xdp(interface, router.outer_queues(nic)),
        Attach::Pcap { file, replay } => capture(file, replay.as_ref().map(|replay| replay.file.as_path())),
        Attach::VhostUserBackend { path, side } | Attach::VhostUserFrontend { path, side } => {
            socket(path, *side)
        }
    };
    Some(Finding::new(state, format!("{}.{}", router.name, nic.name), plan.attachment(nic), meaning))
}

fn interface(name: &str) -> PathBuf {
    Path::new(NET).join(name)
}

fn missing(name: &str) -> (State, String) {
    (State::No, format!("there is no interface {name}"))
}

fn tap(name: &str) -> (State, String) {
    let there = interface(name).exists();
    (State::Ok, if there { "joins the TAP that is there" } else { "makes the TAP" }.to_owned())
}

fn bridge(name: &str) -> (State, String) {
    if interface(name).join("bridge").exists() {
        return (State::Ok, "makes a TAP in the bridge".to_owned());
    }
    (State::No, format!("there is no bridge {name}: ip link add {name} type bridge"))
}

/// Open vSwitch is asked, for two seconds at most.
fn open_vswitch(name: &str) -> (State, String) {
    let mut command = Command::new("ovs-vsctl");
    command.args(["--timeout=2", "br-exists", name]);
    let asked = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match asked.map(|status| status.code()) {
        Ok(Some(0)) => (State::Ok, "makes a TAP in the bridge of Open vSwitch".to_owned()),
        Ok(Some(2)) => (State::No, format!("Open vSwitch has no bridge {name}: ovs-vsctl add-br {name}")),
        Ok(_) => (
            State::No,
            "ovs-vsctl does not reach Open vSwitch: start ovsdb-server, or set OVS_RUNDIR".to_owned(),
        ),
        Err(_) => (State::No, "there is no ovs-vsctl: install openvswitch-switch".to_owned()),
    }
}

fn macvtap(name: &str, mode: MacvtapMode) -> (State, String) {
    if !interface(name).exists() {
        return missing(name);
    }
    let meaning = match mode {
        MacvtapMode::Passthru => format!("takes {name} over; the kernel spreads frames by its own hash"),
        _ => "an interface beside the host's own, which cannot reach it; the kernel spreads frames by its own hash"
            .to_owned(),
    };
    (State::Ok, meaning)
}

fn xdp(name: &str, wanted: usize) -> (State, String) {
    let folder = interface(name);
    let Ok(queues) = fs::read_dir(folder.join("queues")) else { return missing(name) };
    let named = queues.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let has = named.filter(|queue| queue.starts_with("rx-")).count();
    if has < wanted {
        return (
            State::No,
            format!("{name} has {has} receive queues, not {wanted}: ethtool -L {name} combined {wanted}"),
        );
    }
    let driver = fs::read_link(folder.join("device/driver")).ok();
    match driver.as_deref().and_then(Path::file_name) {
        Some(driver) => {
            (State::Ok, format!("zero-copy if {} can, else one copy more", driver.to_string_lossy()))
        }
        None => (State::Note, "no device behind it: the kernel copies each frame once more".to_owned()),
    }
}

fn capture(file: &Path, replay: Option<&Path>) -> (State, String) {
    if let Some(from) = replay.filter(|from| fs::File::open(from).is_err()) {
        return (State::No, format!("cannot read {}", from.display()));
    }
    match folder(file) {
        Some(folder) if folder.is_dir() => (State::Ok, "overwrites the file".to_owned()),
        _ => (State::No, format!("{} lies in no folder", file.display())),
    }
}

fn socket(path: &Path, side: SocketSide) -> (State, String) {
    let there = fs::symlink_metadata(path).is_ok();
    match (side, folder(path)) {
        (_, None) => (State::No, format!("{} lies in no folder", path.display())),
        (_, Some(folder)) if !folder.is_dir() => {
            (State::No, format!("there is no folder {}", folder.display()))
        }
        (SocketSide::Listen, _) if there => (
            State::Note,
            "the path is taken: a socket that nobody serves is replaced, anything else is an error"
                .to_owned(),
        ),
        (SocketSide::Listen, _) => (State::Ok, "makes the socket and waits for the other side".to_owned()),
        (SocketSide::Connect, _) if there => (State::Ok, "connects to the socket".to_owned()),
        (SocketSide::Connect, _) => {
            (State::Note, "nobody has made the socket yet; tries again until it is there".to_owned())
        }
    }
}

fn folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}
