//! Checks of interfaces named in a configuration: whether they exist and can be used as requested.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Finding, State};

/// Folder of the kernel's interfaces.
const NET: &str = "/sys/class/net";
/// `IFF_UP` of `linux/if.h`, `IFF_TAP` and `IFF_MULTI_QUEUE` of `linux/if_tun.h`, `ARPHRD_ETHER` of `linux/if_arp.h`.
const UP: u32 = 1;
const TAP: u32 = 2;
const MULTI_QUEUE: u32 = 0x100;
const ETHERNET: u32 = 1;
/// Maximum MTU of an interface with AF_XDP, in octets: that of NICs.
const LARGEST_XDP: u32 = 9216;

/// Returns the folder of an interface.
pub(crate) fn interface(name: &str) -> PathBuf {
    Path::new(NET).join(name)
}

/// Reads a numeric attribute of an interface.
fn number(name: &str, of: &str) -> Option<u32> {
    let text = fs::read_to_string(interface(name).join(of)).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Tap,
    Bridge,
    Other,
}

/// Returns the kind of an interface; `None` if it does not exist, or has just been deleted.
pub(crate) fn kind(name: &str) -> Option<Is> {
    if interface(name).join("bridge").exists() {
        return Some(Is::Bridge);
    }
    match number(name, "tun_flags") {
        Some(flags) if flags & TAP != 0 => Some(Is::Tap),
        // The files of an interface being deleted do not disappear all at once; this one can no longer be
        // read before any of them disappears.
        _ => number(name, "ifindex").map(|_| Is::Other),
    }
}

/// Returns true if an interface exists and is down.
fn is_down(name: &str) -> bool {
    number(name, "flags").is_some_and(|flags| flags & UP == 0)
}

/// Returns the finding for an interface where all else is well, with a note if it is down.
pub(crate) fn if_up(name: &str, meaning: &str) -> Finding {
    if is_down(name) {
        return (State::Note, format!("{name} is down, and nothing comes: ip link set {name} up"));
    }
    (State::Ok, meaning.to_owned())
}

/// Checks that the host has an interface of this name.
pub(crate) fn is_known(name: &str) -> Result<(), String> {
    if kind(name).is_some() {
        return Ok(());
    }
    let names = fs::read_dir(NET).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut known: Vec<String> = names.filter(|name| kind(name).is_some()).collect();
    known.sort();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("there is no interface {name:?}; interfaces: {known}"))
}

/// Checks that an existing TAP can have this many queues.
pub(crate) fn tap(name: &str, queues: usize) -> Result<(), String> {
    let Some(flags) = number(name, "tun_flags") else { return Ok(()) };
    if (flags & MULTI_QUEUE != 0) == (queues > 1) {
        return Ok(());
    }
    let (more, has) = if queues > 1 { (" multi_queue", "one queue") } else { ("", "several queues") };
    let make = format!("ip link delete {name}; ip tuntap add {name} mode tap{more}");
    Err(format!("the TAP that is there was made for {has}: {make}"))
}

/// Checks that an existing interface can carry a macvtap or macvlan with this MTU.
pub(crate) fn check_lower(what: &str, name: &str, mtu: u32) -> Result<(), String> {
    if number(name, "type").is_some_and(|kind| kind != ETHERNET) {
        return Err(format!("{name} is no Ethernet interface, and carries no {what}"));
    }
    if interface(name).join("master").exists() {
        return Err(format!("{name} is in a bridge, bond or Open vSwitch: take it out of there"));
    }
    match number(name, "mtu").filter(|below| mtu > *below) {
        Some(below) => {
            Err(format!("the NIC's mtu of {mtu} is more than the {below} of {name}: set mtu to that"))
        }
        None => Ok(()),
    }
}

/// Checks that the name is free for a new interface.
pub(crate) fn is_free(name: &str) -> Result<(), String> {
    match kind(name) {
        None => Ok(()),
        Some(_) => Err(format!("interface {name:?} exists: choose another name, or delete it")),
    }
}

/// Checks that an existing interface can be moved into another namespace.
pub(crate) fn movable(name: &str) -> Result<(), String> {
    if name == "lo" || interface(name).join("bridge").exists() {
        return Err(format!("{name} stays in its namespace: name an interface that can be moved"));
    }
    if interface(name).join("master").exists() {
        return Err(format!("{name} is in a bridge, bond or Open vSwitch: take it out of there"));
    }
    Ok(())
}

/// Checks that an existing interface can be used by AF_XDP with this many queues.
pub(crate) fn xdp(name: &str, wanted: usize) -> Result<(), String> {
    let Ok(queues) = fs::read_dir(interface(name).join("queues")) else { return Ok(()) };
    let named = queues.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let has = named.filter(|queue| queue.starts_with("rx-")).count();
    if has < wanted {
        return Err(format!(
            "{name} has {has} receive queues, not {wanted}: ethtool -L {name} combined {wanted}"
        ));
    }
    if is_down(name) {
        return Err(format!("{name} is down: ip link set {name} up"));
    }
    match number(name, "mtu").filter(|mtu| *mtu > LARGEST_XDP) {
        Some(mtu) => {
            let change = format!("ip link set {name} mtu {LARGEST_XDP}");
            Err(format!("the MTU of {name} is {mtu}, and AF_XDP has room for {LARGEST_XDP}: {change}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
