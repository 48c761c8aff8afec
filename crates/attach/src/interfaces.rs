//! Interfaces that a file names: whether they are there, and whether they can be used as it says.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Finding, State};

/// Where the kernel shows its interfaces.
const NET: &str = "/sys/class/net";
/// `IFF_UP` of `linux/if.h`, `IFF_TAP` and `IFF_MULTI_QUEUE` of `linux/if_tun.h`, `ARPHRD_ETHER` of `linux/if_arp.h`.
const UP: u32 = 1;
const TAP: u32 = 2;
const MULTI_QUEUE: u32 = 0x100;
const ETHERNET: u32 = 1;
/// Octets of the largest packet that AF_XDP has room for.
const LARGEST_XDP: u32 = 3822;

/// Where the kernel shows an interface.
pub(crate) fn interface(name: &str) -> PathBuf {
    Path::new(NET).join(name)
}

/// A number that the kernel shows of an interface.
fn number(name: &str, of: &str) -> Option<u32> {
    let text = fs::read_to_string(interface(name).join(of)).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Tap,
    Bridge,
    Other,
}

/// What an interface is; none where there is none, or it has just been deleted.
pub(crate) fn kind(name: &str) -> Option<Is> {
    if interface(name).join("bridge").exists() {
        return Some(Is::Bridge);
    }
    match number(name, "tun_flags") {
        Some(flags) if flags & TAP != 0 => Some(Is::Tap),
        // The files of an interface that goes away do not go all at once; this one is refused to readers before any of them goes.
        _ => number(name, "ifindex").map(|_| Is::Other),
    }
}

/// Whether an interface is there and down.
fn is_down(name: &str) -> bool {
    number(name, "flags").is_some_and(|flags| flags & UP == 0)
}

/// What is to be said where all is there, unless the interface is down.
pub(crate) fn if_up(name: &str, meaning: &str) -> Finding {
    if is_down(name) {
        return (State::Note, format!("{name} is down, and nothing comes: ip link set {name} up"));
    }
    (State::Ok, meaning.to_owned())
}

/// Whether the host has an interface of this name.
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

/// Whether a TAP that is there can have so many queues.
pub(crate) fn tap(name: &str, queues: usize) -> Result<(), String> {
    let Some(flags) = number(name, "tun_flags") else { return Ok(()) };
    if (flags & MULTI_QUEUE != 0) == (queues > 1) {
        return Ok(());
    }
    let (more, has) = if queues > 1 { (" multi_queue", "one queue") } else { ("", "several queues") };
    let make = format!("ip link delete {name}; ip tuntap add {name} mode tap{more}");
    Err(format!("the TAP that is there was made for {has}: {make}"))
}

/// Whether an interface that is there can carry a macvtap with this MTU.
pub(crate) fn macvtap(name: &str, mtu: u32) -> Result<(), String> {
    if number(name, "type").is_some_and(|kind| kind != ETHERNET) {
        return Err(format!("{name} is no Ethernet interface, and carries no macvtap"));
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

/// Whether an interface that is there can be had by AF_XDP with so many queues.
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
