//! Configuration file of the routers.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use config::Engine;

use super::links::sides;
use super::{File, Forwarder, Link, guest};
use crate::device::{self, FAR_MAC, NEAR_MAC, STATION_MAC};

/// NICs of a router: name, Ethernet address in the first router, IP address.
pub(super) const ENDS: [(&str, [u8; 6], &str); 2] =
    [("near", NEAR_MAC, "198.18.0.1"), ("far", FAR_MAC, "198.19.0.1")];
/// IP address of the station behind a router that receives probes: a UDP socket of the room.
pub(super) const LISTENER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 3);
/// Ethernet address of that station.
pub(super) const LISTENER_MAC: [u8; 6] = [2, 0, 0, 0, 9, 7];

/// Returns the stations behind a router. Each is a static neighbour, so the router sends no ARP requests.
pub(super) const fn neighbours() -> [(Ipv4Addr, [u8; 6]); 2] {
    [(device::STATION, STATION_MAC), (LISTENER, LISTENER_MAC)]
}

/// Returns the unique part of the routers' names: that of groups is shorter, because members and balancers have a number behind it.
pub(super) fn id(file: &File<'_>, id: &str) -> String {
    let shorter = file.group.and_then(|_| shortened(id));
    shorter.unwrap_or_else(|| id.to_owned())
}

/// Writes the process and number of a folder's name (`l3f2a1-12`) in digits of base 36, the last one of which is the number, from 0
/// again after 36: with the letter of a router at most eight characters, so that `NAME_lb0/vc` is not cut.
fn shortened(id: &str) -> Option<String> {
    let (process, number) = id.strip_prefix('l')?.split_once('-')?;
    let process = u64::from_str_radix(process, 16).ok()?;
    let number: u64 = number.parse().ok()?;
    let mut rest = process * 36 + number % 36;
    let mut digits = Vec::new();
    while rest > 0 {
        digits.push(char::from_digit((rest % 36) as u32, 36)?);
        rest /= 36;
    }
    Some(std::iter::once('l').chain(digits.into_iter().rev()).collect())
}

/// Formats one table for each router; they differ in names, attachments, and the lines of `file.routers`. The text is empty if
/// the routers are set up by hand. Files that routers write are in the folder `place`.
pub(super) fn text(file: &File<'_>, id: &str, place: &Path) -> String {
    let Forwarder::Command(engine) = file.by else { return String::new() };
    let routers = file.routers.iter().enumerate();
    routers.map(|(at, lines)| router(file, engine, (&name(id, at), at, place), lines)).collect()
}

/// MAC address of the n-th router's NIC that corresponds to this one of the first router.
pub(super) fn mac(first: [u8; 6], router: usize) -> [u8; 6] {
    let mut mac = first;
    mac[2] = (router % 256) as u8;
    mac
}

/// Name of the n-th router: short, because thread names show no more than 15 octets.
pub(super) fn name(id: &str, router: usize) -> String {
    let letter = char::from_u32(u32::from(b'a') + router as u32 % 26).unwrap_or('a');
    let round = match router / 26 {
        0 => String::new(),
        round => format!("-{round}"),
    };
    format!("{id}{round}{letter}")
}

/// Name of a side's TAP, which frames are sent into and received from.
pub(super) fn tap(side: &str) -> String {
    format!("lab-{side}")
}

fn router(file: &File<'_>, engine: Engine, (name, at, place): (&str, usize, &Path), lines: &str) -> String {
    let options = file.options;
    let table = if file.group.is_some() { "group" } else { "router" };
    let mut text = format!("[[{table}]]\nname = \"{name}\"\nengine = \"{}\"\n", engine.name());
    if !engine.is_kernel() {
        let _ = writeln!(text, "vhost = \"{}\"", options.vhost.name());
    }
    if let Some(group) = file.group {
        text.push_str(&group.lines());
    }
    text.push_str(lines);
    if file.by.is_linux_guest() {
        text.push_str(&guest::lines(options, (name, place)));
    }
    if options.vcpus > 1 && !engine.is_kernel() {
        let _ = writeln!(text, "vcpus = {}", options.vcpus);
    }
    for (side, (nic, mac, address)) in sides(at).iter().zip(ENDS) {
        let (attach, mac) = (attach(file.link, side), frame::Mac(self::mac(mac, at)));
        // The kernel names a NAPI thread after its interface, which has the NIC's name, so NICs of all routers have different names.
        let nic = if engine.is_kernel() { side.as_str() } else { nic };
        let _ = write!(text, "[[{table}.nic]]\nname = \"{nic}\"\nattach = \"{attach}\"\nmac = \"{mac}\"\n");
        if !file.by.is_linux_guest() {
            let _ = writeln!(text, "address = \"{address}/24\"");
        }
        if let Some(qdisc) = file.qdisc {
            let _ = writeln!(text, "qdisc = \"{qdisc}\"");
        }
        if !engine.is_kernel() {
            text.push_str(&of_machine(file));
        }
    }
    if !file.by.is_linux_guest() {
        text.push_str(&behind(table));
    }
    text
}

/// Returns the `attach` of a side's NIC.
fn attach(link: Link, side: &str) -> String {
    match link {
        Link::Macvtap => format!("macvtap:{side}0"),
        Link::Bridge => format!("bridge:br-{side}"),
        Link::Ovs => format!("ovs:br-{side}"),
        Link::Tap => format!("tap:{}", tap(side)),
        Link::Xdp => format!("xdp:{side}0"),
        Link::Macvlan => format!("macvlan:{side}0"),
        Link::Veth => format!("veth:{side}1"),
    }
}

/// Formats the keys that only the NIC of a machine has.
fn of_machine(file: &File<'_>) -> String {
    let mut text = format!("model = \"{}\"\n", file.options.nic.name());
    if file.options.queues > 1 {
        let _ = writeln!(text, "queues = {}", file.options.queues);
    }
    if let Some(length) = file.queue_len {
        let _ = writeln!(text, "queue_len = {length}");
    }
    text
}

/// Formats the default route of a router or group (`table`), and its neighbours.
fn behind(table: &str) -> String {
    let mut text = format!("[[{table}.route]]\nto = \"0.0.0.0/0\"\nvia = \"{}\"\n", device::STATION);
    for (address, mac) in neighbours() {
        let mac = frame::Mac(mac);
        let _ = write!(text, "[[{table}.neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    text
}

#[cfg(test)]
mod tests;
