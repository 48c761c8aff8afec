//! What each attachment of a plan needs of this host, and whether it is there.

use std::fs;
use std::path::Path;

use config::{Attach, MacvtapMode, Nic, Plan, Router};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities};

use super::sockets;
use crate::named::interfaces::{self, interface, is_down, is_tap};
use crate::{Finding, State, named, net_admin, tun_device};

/// What is found of one NIC, and what it means.
pub(super) type Found = (State, String);

/// One line for each NIC that is plugged into something outside, and before them what several need.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let any = |wanted: fn(&Attach) -> bool| plan.nics().any(|(_, nic)| wanted(&nic.attach));
    if any(|attach| matches!(attach, Attach::Tap(_) | Attach::Bridge(_) | Attach::Ovs(_))) {
        findings.push(tun_device());
    }
    if any(makes_interfaces) {
        findings.push(net_admin());
    }
    findings.extend(plan.nics().filter_map(|(router, nic)| finding(plan, router, nic)));
    findings
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
        Attach::Tap(name) => tap(name, router.outer_queues(nic)),
        Attach::Bridge(name) => bridge(name),
        Attach::Ovs(name) => open_vswitch(name),
        Attach::Macvtap { interface, mode } => macvtap(interface, *mode, nic.mtu),
        Attach::Xdp(interface) => xdp(interface, router.outer_queues(nic)),
        Attach::Pcap { file, replay } => capture(file, replay.as_ref().map(|replay| replay.file.as_path())),
        Attach::VhostUserBackend { path, side } | Attach::VhostUserFrontend { path, side } => {
            sockets::finding(path, *side)
        }
    };
    Some(Finding::new(state, format!("{}.{}", router.name, nic.name), plan.attachment(nic), meaning))
}

/// What is to be said where all is there, unless the interface is down.
fn if_up(name: &str, meaning: impl Into<String>) -> Found {
    if is_down(name) {
        return (State::Note, format!("{name} is down, and nothing comes: ip link set {name} up"));
    }
    (State::Ok, meaning.into())
}

fn missing(name: &str) -> Found {
    (State::No, format!("there is no interface {name}"))
}

fn tap(name: &str, queues: usize) -> Found {
    match interfaces::tap(name, queues) {
        Err(what) => (State::No, what),
        Ok(()) if !interface(name).exists() => (State::Ok, "makes the TAP".to_owned()),
        Ok(()) if !is_tap(name) => (State::No, format!("{name} is there and no TAP: choose another name")),
        Ok(()) => (State::Ok, "joins the TAP that is there, if nobody else has it open".to_owned()),
    }
}

fn bridge(name: &str) -> Found {
    if !interface(name).exists() {
        return (State::No, format!("there is no bridge {name}: ip link add {name} type bridge"));
    }
    if !interface(name).join("bridge").exists() {
        return (State::No, format!("{name} is there and no bridge: name a bridge"));
    }
    if_up(name, "makes a TAP in the bridge")
}

fn open_vswitch(name: &str) -> Found {
    if let Err(what) = named::open_vswitch(name) {
        return (State::No, what);
    }
    // The bridge's own interface has a port number as soon as somebody serves it.
    match named::ask_open_vswitch(&["get", "Interface", name, "ofport"]) {
        Ok((Some(0), port)) if port.parse::<u32>().is_ok() => {
            (State::Ok, "makes a TAP in the bridge of Open vSwitch".to_owned())
        }
        _ => (
            State::No,
            format!(
                "Open vSwitch knows {name} and nobody serves it: start ovs-vswitchd, and load the module openvswitch \
                 or use datapath_type=netdev"
            ),
        ),
    }
}

fn macvtap(name: &str, mode: MacvtapMode, mtu: u32) -> Found {
    if !interface(name).exists() {
        return missing(name);
    }
    if !has_macvtap() {
        return (State::No, "this kernel has no macvtap (CONFIG_MACVTAP): use tap: or bridge:".to_owned());
    }
    if let Err(what) = interfaces::macvtap(name, mtu) {
        return (State::No, what);
    }
    let spread = "the kernel spreads frames by its own hash";
    if_up(
        name,
        match mode {
            MacvtapMode::Passthru => format!("takes {name} over; {spread}"),
            _ => format!("an interface beside the host's own, which cannot reach it; {spread}"),
        },
    )
}

/// Whether the kernel has the driver, or a module of it.
fn has_macvtap() -> bool {
    if Path::new("/sys/class/macvtap").exists() {
        return true;
    }
    let Some(release) = crate::read("/proc/sys/kernel/osrelease") else { return false };
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let modules = fs::read_to_string(format!("/lib/modules/{release}/{list}"));
        modules.is_ok_and(|modules| modules.contains("/macvtap.ko"))
    })
}

fn xdp(name: &str, wanted: usize) -> Found {
    if let Some(lacks) = lacks_xdp() {
        return (State::No, lacks);
    }
    let folder = interface(name);
    if !folder.exists() {
        return missing(name);
    }
    if let Err(what) = interfaces::xdp(name, wanted) {
        return (State::No, what);
    }
    let driver = fs::read_link(folder.join("device/driver")).ok();
    match driver.as_deref().and_then(Path::file_name) {
        Some(driver) => {
            (State::Ok, format!("zero-copy if {} can, else one copy more", driver.to_string_lossy()))
        }
        None => (State::Note, "no device behind it: the kernel copies each frame once more".to_owned()),
    }
}

/// What the kernel does not give for AF_XDP.
fn lacks_xdp() -> Option<String> {
    let may = capabilities(None).is_ok_and(|sets| {
        sets.effective.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN)
            && sets.effective.contains(CapabilitySet::NET_RAW)
    });
    if !may {
        return Some("not permitted: run as root (CAP_BPF, CAP_NET_RAW and CAP_NET_ADMIN)".to_owned());
    }
    match socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => None,
        Err(rustix::io::Errno::AFNOSUPPORT) => {
            Some("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use macvtap: or tap:".to_owned())
        }
        Err(error) => Some(format!("no AF_XDP socket can be had: {error}")),
    }
}

fn capture(file: &Path, replay: Option<&Path>) -> Found {
    if let Some(Err(what)) = replay.map(named::replay) {
        return (State::No, what);
    }
    match named::capture(file) {
        Ok(what) => (State::Ok, what.to_owned()),
        Err(what) => (State::No, what),
    }
}
