//! Configuration file of the routers.

use std::fmt::Write as _;

use super::links::sides;
use super::{File, Link};
use crate::device::{self, FAR_MAC, NEAR_MAC, STATION_MAC};

/// Formats one table for each router; they differ in names, attachments, and the lines of `file.routers`.
pub(super) fn text(file: &File<'_>, id: &str) -> String {
    let routers = file.routers.iter().enumerate();
    // Names of groups are shorter, as those of members have a number behind them.
    let id = if file.members.is_some() { id.replace('-', "") } else { id.to_owned() };
    routers.map(|(at, lines)| router(file, (&name(&id, at), at), lines)).collect()
}

/// MAC address of the n-th router's NIC that corresponds to this one of the first router.
pub(super) fn mac(first: [u8; 6], router: usize) -> [u8; 6] {
    let mut mac = first;
    mac[2] = (router % 256) as u8;
    mac
}

/// Name of the n-th router: short, because thread names show no more than 15 octets.
fn name(id: &str, router: usize) -> String {
    let letter = char::from_u32(u32::from(b'a') + router as u32 % 26).unwrap_or('a');
    format!("{id}{letter}")
}

/// Name of a side's TAP, which frames are sent into and received from.
pub(super) fn tap(side: &str) -> String {
    format!("lab-{side}")
}

fn router(file: &File<'_>, (name, at): (&str, usize), lines: &str) -> String {
    let options = file.options;
    let (engine, vhost) = (device::engine(options).name(), options.vhost.name());
    let (table, more) = match file.members {
        None => ("router", String::new()),
        Some(members) => ("group", format!("kind = \"parallel\"\nmembers = {members}\n")),
    };
    let mut text =
        format!("[[{table}]]\nname = \"{name}\"\nengine = \"{engine}\"\nvhost = \"{vhost}\"\n{more}{lines}");
    if options.vcpus > 1 {
        let _ = writeln!(text, "vcpus = {}", options.vcpus);
    }
    let ends = [("near", NEAR_MAC, "198.18.0.1"), ("far", FAR_MAC, "198.19.0.1")];
    for (side, (nic, mac, address)) in sides(at).iter().zip(ends) {
        let attach = match file.link {
            Link::Macvtap => format!("macvtap:{side}0"),
            Link::Bridge => format!("bridge:br-{side}"),
            Link::Ovs => format!("ovs:br-{side}"),
            Link::Tap => format!("tap:{}", tap(side)),
            Link::Xdp => format!("xdp:{side}0"),
        };
        let model = options.nic.name();
        let _ = write!(
            text,
            "[[{table}.nic]]\nname = \"{nic}\"\nmodel = \"{model}\"\nattach = \"{attach}\"\nmac = \"{}\"\n\
             address = \"{address}/24\"\n",
            frame::Mac(self::mac(mac, at))
        );
        if options.queues > 1 {
            let _ = writeln!(text, "queues = {}", options.queues);
        }
        if let Some(length) = file.queue_len {
            let _ = writeln!(text, "queue_len = {length}");
        }
    }
    let station = device::STATION;
    let _ = write!(
        text,
        "[[{table}.route]]\nto = \"0.0.0.0/0\"\nvia = \"{station}\"\n[[{table}.neighbour]]\naddress = \"{station}\"\n\
         mac = \"{}\"\n",
        frame::Mac(STATION_MAC)
    );
    text
}

#[cfg(test)]
mod tests;
