//! `bridge:BR`: a TAP in a bridge of the kernel.

use anyhow::Result;
use uplink::bridge;

use crate::attach::interface;
use crate::interfaces::{self, if_up};
use crate::kind::{Finding, InterfaceKind, Interfaces, Kind, Place, Verdict};
use crate::link::{self, Side, made};
use crate::opened::Opened;
use crate::wanted::Wanted;

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: link::in_a_bridge,
    check,
    finding: |wanted| Some(finding(wanted.attach.name())),
    ..Kind::plain("bridge", Some("INTERFACE"), Place::Outside { open, adopt: link::adopt })
};

fn check(name: &str, interfaces: &Interfaces) -> Result<(), String> {
    match interfaces.get(name) {
        Some(InterfaceKind::Bridge) => Ok(()),
        Some(_) => Err(format!("interface {name:?} exists and is not a bridge; name a bridge")),
        None => Err(format!("there is no bridge {name:?}; make it: ip link add {name} type bridge")),
    }
}

fn finding(name: &str) -> Finding {
    let at = interfaces::interface(name);
    if !at.exists() {
        return (Verdict::No, format!("there is no bridge {name}: ip link add {name} type bridge"));
    }
    if !at.join("bridge").exists() {
        return (Verdict::No, format!("{name} is there and no bridge: name a bridge"));
    }
    if_up(name, "makes a TAP in the bridge")
}

fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let tap = bridge::open(&wanted.link_name(), wanted.attach.name(), &link::config(wanted));
    made(tap, wanted, Side::Host)
}
