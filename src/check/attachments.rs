//! What each attachment of a plan needs of this host, and whether it is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use config::{Attach, MacvtapMode, Nic, Plan, Router};
use rustix::fs::{Access, access};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities};

use super::sockets;
use crate::doctor::{self, Finding, State};
use crate::host;

/// Where the kernel shows its interfaces.
const NET: &str = "/sys/class/net";
/// `IFF_UP` of `linux/if.h`, `IFF_MULTI_QUEUE` of `linux/if_tun.h`, `ARPHRD_ETHER` of `linux/if_arp.h`.
const UP: u32 = 1;
const MULTI_QUEUE: u32 = 0x100;
const ETHERNET: u32 = 1;
/// Octets of the largest packet that AF_XDP has room for.
const LARGEST_XDP: u32 = 3822;

/// What is found of one NIC, and what it means.
pub(super) type Found = (State, String);

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

fn interface(name: &str) -> PathBuf {
    Path::new(NET).join(name)
}

/// A number that the kernel shows of an interface.
fn number(name: &str, of: &str) -> Option<u32> {
    let text = host::read(&interface(name).join(of).display().to_string())?;
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn is_down(name: &str) -> bool {
    number(name, "flags").is_some_and(|flags| flags & UP == 0)
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
    if !interface(name).exists() {
        return (State::Ok, "makes the TAP".to_owned());
    }
    let Some(flags) = number(name, "tun_flags") else {
        return (State::No, format!("{name} is there and no TAP: choose another name"));
    };
    if (flags & MULTI_QUEUE != 0) != (queues > 1) {
        let (more, has) = if queues > 1 { (" multi_queue", "one queue") } else { ("", "several queues") };
        let make = format!("ip link delete {name}; ip tuntap add {name} mode tap{more}");
        return (State::No, format!("the TAP that is there was made for {has}: {make}"));
    }
    (State::Ok, "joins the TAP that is there, if nobody else has it open".to_owned())
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

/// Open vSwitch is asked, for five seconds at most each time.
fn open_vswitch(name: &str) -> Found {
    let refused = |meaning: &str| (State::No, meaning.to_owned());
    match ask_open_vswitch(&["br-exists", name]) {
        Ok((Some(0), _)) => {}
        Ok((Some(2), _)) => {
            return (State::No, format!("Open vSwitch has no bridge {name}: ovs-vsctl add-br {name}"));
        }
        Ok(_) => {
            return refused("ovs-vsctl does not reach Open vSwitch: start ovsdb-server, or set OVS_RUNDIR");
        }
        Err(_) => return refused("there is no ovs-vsctl: install openvswitch-switch"),
    }
    // The bridge's own interface has a port number as soon as somebody serves it.
    match ask_open_vswitch(&["get", "Interface", name, "ofport"]) {
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

fn ask_open_vswitch(words: &[&str]) -> std::io::Result<(Option<i32>, String)> {
    let mut command = Command::new("ovs-vsctl");
    command.arg("--timeout=5").args(words).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

fn macvtap(name: &str, mode: MacvtapMode, mtu: u32) -> Found {
    if !interface(name).exists() {
        return missing(name);
    }
    if !has_macvtap() {
        return (State::No, "this kernel has no macvtap (CONFIG_MACVTAP): use tap: or bridge:".to_owned());
    }
    if number(name, "type") != Some(ETHERNET) {
        return (State::No, format!("{name} is no Ethernet interface, and carries no macvtap"));
    }
    if interface(name).join("master").exists() {
        return (State::No, format!("{name} is in a bridge, bond or Open vSwitch: take it out of there"));
    }
    if let Some(below) = number(name, "mtu").filter(|below| mtu > *below) {
        return (
            State::No,
            format!("the NIC's mtu of {mtu} is more than the {below} of {name}: set mtu to that"),
        );
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
    let Some(release) = host::read("/proc/sys/kernel/osrelease") else { return false };
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
    let Ok(queues) = fs::read_dir(folder.join("queues")) else { return missing(name) };
    let named = queues.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let has = named.filter(|queue| queue.starts_with("rx-")).count();
    if has < wanted {
        return (
            State::No,
            format!("{name} has {has} receive queues, not {wanted}: ethtool -L {name} combined {wanted}"),
        );
    }
    if is_down(name) {
        return (State::No, format!("{name} is down: ip link set {name} up"));
    }
    if let Some(mtu) = number(name, "mtu").filter(|mtu| *mtu > LARGEST_XDP) {
        let change = format!("ip link set {name} mtu {LARGEST_XDP}");
        return (
            State::No,
            format!("the MTU of {name} is {mtu}, and AF_XDP has room for {LARGEST_XDP}: {change}"),
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
    if let Some(Err(error)) = replay.map(fs::File::open) {
        let from = replay.unwrap_or(file).display();
        return (State::No, format!("cannot read {from}: {error}"));
    }
    let Some(folder) = folder(file).filter(|folder| folder.is_dir()) else {
        return (State::No, format!("{} lies in no folder that is there", file.display()));
    };
    if file.is_dir() {
        return (State::No, format!("{} is a folder: name a file", file.display()));
    }
    let (written, what) =
        if file.exists() { (file, "overwrites the file") } else { (folder, "makes the file") };
    match access(written, Access::WRITE_OK) {
        Ok(()) => (State::Ok, what.to_owned()),
        Err(error) => (State::No, format!("cannot write {}: {error}", written.display())),
    }
}

/// The folder that something lies in, or is to.
pub(super) fn folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}
